//! The connections: how many there are, how long each may take, and what hyper serves on them.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioTimer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::{AbortHandle, spawn},
    time::{sleep, timeout},
};

use super::{
    answer::last_words,
    guard::{Guarded, Io},
    handler::Handler,
    listen::Listener,
};
use crate::problem::Problem;

/// The most connections at a time.
const MOST: usize = 64;
/// The largest head of a request.
const HEAD: usize = 16 * 1024;
/// How long the head of a request may take, and how long a connection may be idle.
const PATIENCE: Duration = Duration::from_secs(10);
/// What hyper keeps of a connection, beside one answer.
const BUFFER: usize = 64 * 1024;
/// How long a connection with an error stays open, so that its client reads the answer.
const LINGER: Duration = Duration::from_millis(500);

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Conn {
    /// The address that the client reached.
    pub(super) local: Option<SocketAddr>,
    /// The client, for the record of its actions.
    pub(super) peer: String,
    /// The requests so far.
    requests: AtomicU64,
    /// The requests without an answer so far.
    busy: AtomicUsize,
    /// When the last request came or was answered.
    last: Mutex<Instant>,
}

impl Conn {
    pub(super) fn new(local: Option<SocketAddr>, peer: String) -> Self {
        Self {
            local,
            peer,
            requests: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn had_request(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    fn touch(&self) {
        *self.last.lock().unwrap_or_else(|lock| lock.into_inner()) = Instant::now();
    }

    /// Returns since when the connection is idle, if it is.
    fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.busy.load(Ordering::Relaxed) == 0;
        is_idle.then(|| *self.last.lock().unwrap_or_else(|lock| lock.into_inner()))
    }
}

/// A request that is not answered yet.
pub(super) struct Busy(Arc<Conn>);

impl Busy {
    fn begin(conn: &Arc<Conn>) -> Self {
        conn.requests.fetch_add(1, Ordering::Relaxed);
        conn.busy.fetch_add(1, Ordering::Relaxed);
        conn.touch();
        Self(Arc::clone(conn))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

/// The connections that are open.
#[derive(Default)]
struct Open(Vec<(Arc<Conn>, AbortHandle)>);

impl Open {
    /// Makes room for one more connection: closes the one that is idle for longest. Returns whether there is room.
    fn make_room(&mut self) -> bool {
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() < MOST {
            return true;
        }
        let idle = self.0.iter().enumerate();
        let idle = idle.filter_map(|(place, (conn, _))| Some((conn.idle_since()?, place)));
        let Some((_, place)) = idle.min() else {
            return false;
        };
        let (_, task) = self.0.swap_remove(place);
        task.abort();
        true
    }
}

/// Accepts connections for ever.
pub(crate) async fn serve(listener: Listener, handler: Arc<Handler>) {
    let mut open = Open::default();
    loop {
        let (io, conn) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                pause(&error).await;
                continue;
            }
        };
        if !open.make_room() {
            let message = "all connections of the inspector are in use; try again later";
            spawn(refuse(io, Problem::busy(message)));
            continue;
        }
        let conn = Arc::new(conn);
        let task = spawn(run(io, Arc::clone(&conn), Arc::clone(&handler)));
        open.0.push((conn, task.abort_handle()));
    }
}

/// Waits after an error of `accept`, such as a limit of open files.
async fn pause(error: &io::Error) {
    let is_of_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    );
    if !is_of_client {
        sleep(Duration::from_millis(100)).await;
    }
}

/// Serves one connection until its end.
async fn run(io: Box<dyn Io>, conn: Arc<Conn>, handler: Arc<Handler>) {
    let service = service_fn(|request: Request<Incoming>| {
        let busy = Busy::begin(&conn);
        let (conn, handler) = (Arc::clone(&conn), Arc::clone(&handler));
        Box::pin(async move {
            let answer = handler.answer(request, &conn).await;
            Ok::<_, Infallible>(answer.map(|body| body.during(busy)))
        })
    });
    let guarded = Guarded::new(io, Arc::clone(&conn));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_header_size(HEAD)
        .max_buf_size(BUFFER);
    let mut serving = http.serve_connection(guarded, service);
    let ended = poll_fn(|cx| serving.poll_without_shutdown(cx)).await;
    let io = serving.into_parts().io.into_inner();
    match ended {
        Err(error) if !conn.had_request() => match problem(&error) {
            Some(problem) => refuse(io, problem).await,
            None => close(io).await,
        },
        _ => close(io).await,
    }
}

/// Returns the answer to a head that hyper does not take.
fn problem(error: &hyper::Error) -> Option<Problem> {
    if error.is_parse_too_large() {
        Some(Problem::head())
    } else if error.is_parse() {
        Some(Problem::http())
    } else if error.is_timeout() {
        Some(Problem::slow())
    } else {
        None
    }
}

async fn close(mut io: Box<dyn Io>) {
    let _ = timeout(LINGER, io.shutdown()).await;
}

/// Answers without a request, and closes the connection. The client may still send: a connection that is closed with
/// bytes that were not read loses the answer.
async fn refuse(mut io: Box<dyn Io>, problem: Problem) {
    let talk = async {
        io.write_all(&last_words(&problem)).await?;
        io.shutdown().await?;
        let mut rest = [0; 4096];
        while io.read(&mut rest).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    let _ = timeout(LINGER, talk).await;
}
