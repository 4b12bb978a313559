//! Calls between nodes over TCP: one connection for each pair of nodes and direction, with many calls on it.

mod greeting;
mod line;
#[cfg(feature = "tls")]
mod tls;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::network::{Answering, LONGEST, Lost, Network, Serve};
pub(crate) use greeting::Identity;
use greeting::{PATIENCE, Secret, greet};
#[cfg(feature = "tls")]
pub use line::Tls;
use line::{Reader, Side, Writer};

/// The number of a call, and the length of its content.
const HEAD: usize = 12;
/// The most calls of one connection that are served at once. Further ones wait in the socket.
const SERVED: usize = 16_384;

/// A network of nodes over TCP.
///
/// Each connection begins with a proof that both sides know the [secret](Self::secret) (HMAC-SHA256 of random bytes of both).
/// Without TLS (the feature `tls`), what follows is neither encrypted nor signed: use it inside of a network that only the operators of the
/// nodes can reach.
///
/// ```no_run
/// use fom_cluster::Tcp;
///
/// # fn network() -> Result<(), Box<dyn std::error::Error>> {
/// let secret = std::env::var("ORDERS_SECRET")?;
/// // The socket is on all addresses of this machine; other nodes use this one.
/// let network = Tcp::bind("0.0.0.0:7070")?.secret(secret).advertise("10.0.0.5:7070");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tcp {
    listener: Mutex<Option<StdListener>>,
    /// The address that is bound.
    bound: SocketAddr,
    address: String,
    identity: Identity,
    failed: Failed,
    calls: mpsc::UnboundedSender<Call>,
    /// Until the node listens.
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Call>>>,
}

/// Why the last connection to an address failed. Empty where it did not.
type Failed = Arc<Mutex<BTreeMap<String, String>>>;

/// A call to another node.
#[derive(Debug)]
struct Call {
    to: String,
    request: Vec<u8>,
    answer: oneshot::Sender<Vec<u8>>,
}

impl Tcp {
    /// Binds the address of this node. Port 0 chooses a free port.
    ///
    /// # Errors
    ///
    /// Fails with the error of the system, such as an address that is in use.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let (calls, receiver) = mpsc::unbounded_channel();
        let bound = listener.local_addr()?;
        Ok(Self {
            bound,
            address: bound.to_string(),
            identity: Identity::default(),
            failed: Failed::default(),
            listener: Mutex::new(Some(listener)),
            calls,
            receiver: Mutex::new(Some(receiver)),
        })
    }

    /// Sets the address at which other nodes reach this one. Default: the one that is bound.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Sets the secret that all nodes of the cluster have. A node with another secret, or without one, is refused in both
    /// directions. Use at least 16 random bytes.
    ///
    /// Without a secret and without TLS, a node can listen only at a loopback address, such as 127.0.0.1.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.identity.secret = Secret::new(secret.as_ref());
        self
    }

    /// Encrypts the connections, and accepts only sides with a certificate of the same authority. All nodes of a cluster do this, or
    /// none. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.identity.encrypt(tls);
        self
    }

    /// Returns the address that is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.bound
    }
}

impl Network for Tcp {
    fn listen(&self, serve: Serve) -> io::Result<String> {
        let is_open = self.identity.secret.is_none() && self.identity.tls.is_none();
        if is_open && !self.bound.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "other machines can reach the address, so the nodes need a secret or certificates: call `Tcp::secret`, or with the feature \
                 `tls` also `Tcp::tls`",
            ));
        }
        let taken = |at: &Mutex<Option<StdListener>>| {
            at.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let receiver = self
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (Some(listener), Some(calls)) = (taken(&self.listener), receiver) else {
            return Err(io::Error::other("this network belongs to another node"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (identity, failed) = (self.identity.clone(), Arc::clone(&self.failed));
        let main = move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                let accepts = tokio::spawn(accept(listener, serve, identity.clone()));
                connect(calls, identity, failed).await;
                accepts.abort();
            });
        };
        thread::Builder::new()
            .name("fom-tcp".to_owned())
            .spawn(main)?;
        Ok(self.address.clone())
    }

    fn call(&self, address: &str, request: Vec<u8>) -> Answering<Result<Vec<u8>, Lost>> {
        let (answer, answered) = oneshot::channel();
        let call = Call {
            to: address.to_owned(),
            request,
            answer,
        };
        // If the thread has ended, the answer is dropped.
        let _ = self.calls.send(call);
        Box::pin(async move { answered.await.map_err(|_| Lost) })
    }

    fn trouble(&self, address: &str) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(address).cloned()
    }
}

/// The answers that are expected on a connection. `None` once it is broken.
type Expected = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Vec<u8>>>>>>;

fn locked(
    expected: &Expected,
) -> std::sync::MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Vec<u8>>>>> {
    expected.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes calls on to a task for each node. Ends when the node is dropped.
async fn connect(mut calls: mpsc::UnboundedReceiver<Call>, identity: Identity, failed: Failed) {
    let mut lines: HashMap<String, mpsc::UnboundedSender<Call>> = HashMap::new();
    while let Some(call) = calls.recv().await {
        let to = call.to.clone();
        let line = lines.entry(to.clone()).or_insert_with(|| {
            let (line, calls) = mpsc::unbounded_channel();
            tokio::spawn(serve_line(to, calls, identity.clone(), Arc::clone(&failed)));
            line
        });
        // The task ends only with its sender.
        let _ = line.send(call);
    }
}

/// Makes calls to one node. Connects again when the connection has failed.
async fn serve_line(
    to: String,
    mut calls: mpsc::UnboundedReceiver<Call>,
    identity: Identity,
    failed: Failed,
) {
    let mut open: Option<(Writer, Expected)> = None;
    let mut next = 0u64;
    while let Some(call) = calls.recv().await {
        if call.answer.is_closed() {
            continue;
        }
        if open
            .as_ref()
            .is_none_or(|(_, expected)| locked(expected).is_none())
        {
            let dialled = dial(&to, &identity).await;
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            open = match dialled {
                Ok(line) => {
                    failed.remove(&to);
                    Some(line)
                }
                Err(error) => {
                    failed.insert(to.clone(), error.to_string());
                    None
                }
            };
        }
        // A call without a connection drops its answer: it is lost.
        let Some((writer, expected)) = &mut open else {
            continue;
        };
        next += 1;
        match &mut *locked(expected) {
            Some(expected) => {
                expected.retain(|_, answer| !answer.is_closed());
                expected.insert(next, call.answer);
            }
            None => continue,
        }
        if write(writer, next, &call.request).await.is_err() {
            locked(expected).take();
            open = None;
        }
    }
}

async fn dial(to: &str, identity: &Identity) -> io::Result<(Writer, Expected)> {
    let stream = timeout(PATIENCE, TcpStream::connect(to)).await??;
    let (mut reader, writer) = greet(stream, (Side::Calls, to), identity).await?;
    let expected: Expected = Arc::new(Mutex::new(Some(HashMap::new())));
    let answers = Arc::clone(&expected);
    tokio::spawn(async move {
        while let Ok((number, content)) = read(&mut reader).await {
            let answer = locked(&answers)
                .as_mut()
                .and_then(|all| all.remove(&number));
            // The caller may have gone.
            drop(answer.map(|answer| answer.send(content)));
        }
        // All other answers are lost.
        locked(&answers).take();
    });
    Ok((writer, expected))
}

/// How long one call of an operator may take.
const OPERATES: Duration = Duration::from_secs(90);

/// Connects to a node, makes one call, and returns the answer.
///
/// # Errors
///
/// Fails if the node cannot be reached, has another secret, or does not answer.
pub(crate) async fn call_once(
    to: &str,
    identity: &Identity,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    let stream = timeout(PATIENCE, TcpStream::connect(to)).await??;
    let (mut reader, mut writer) = greet(stream, (Side::Calls, to), identity).await?;
    write(&mut writer, 1, request).await?;
    let (_, answer) = timeout(OPERATES, read(&mut reader)).await??;
    Ok(answer)
}

async fn write(to: &mut Writer, number: u64, content: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(HEAD + content.len());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
    frame.extend_from_slice(content);
    to.write_all(&frame).await?;
    to.flush().await
}

/// Reads a frame. An error ends the connection.
async fn read(from: &mut Reader) -> io::Result<(u64, Vec<u8>)> {
    let number = from.read_u64_le().await?;
    let length = from.read_u32_le().await? as usize;
    if length > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a frame is too long",
        ));
    }
    // Read in parts: a hostile length must not take memory for what never comes.
    let mut content = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut content).await?;
    match read == length {
        true => Ok((number, content)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn accept(listener: TcpListener, serve: Serve, identity: Identity) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(answer(stream, Arc::clone(&serve), identity.clone()));
            }
            // No file descriptors are left, for example.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Serves the calls of one connection.
async fn answer(stream: TcpStream, serve: Serve, identity: Identity) {
    let Ok((mut reader, writer)) = greet(stream, (Side::Answers, ""), &identity).await else {
        return;
    };
    let (answers, answered) = mpsc::unbounded_channel();
    let writes = tokio::spawn(write_answers(writer, answered));
    let served = Arc::new(Semaphore::new(SERVED));
    while let Ok((number, request)) = read(&mut reader).await {
        let Ok(permit) = Arc::clone(&served).acquire_owned().await else {
            break;
        };
        let (answers, serving) = (answers.clone(), serve(request));
        tokio::spawn(async move {
            let content = serving.await;
            // The connection may be broken.
            let _ = answers.send((number, content));
            drop(permit);
        });
    }
    writes.abort();
}

async fn write_answers(mut writer: Writer, mut answers: mpsc::UnboundedReceiver<(u64, Vec<u8>)>) {
    while let Some((number, content)) = answers.recv().await {
        if write(&mut writer, number, &content).await.is_err() {
            return;
        }
    }
}
