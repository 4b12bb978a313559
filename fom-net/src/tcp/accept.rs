//! The fom that accepts.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use fom_protocol::caught;
use fom_runtime::{error::CallError, observe::IncidentKind, prelude::*};
use tokio::net::{TcpListener, TcpStream};

use crate::foms::{Stop, Watched};

/// The pause when the system has no descriptor or memory for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

pub(super) struct TcpAcceptor<C, O> {
    listener: Watched<std::net::TcpListener, TcpListener>,
    connect: Arc<C>,
    /// The locality of the next connection.
    next: usize,
    stop: Stop,
    operation: std::marker::PhantomData<fn() -> O>,
}

/// The phases of accepting.
#[fom(
    operation("TcpAcceptor<C, O>", name = "TcpAcceptor"),
    generics("C: Fn(TcpStream, SocketAddr) -> O + Send + Sync + 'static, O: Operation"),
    error(io::Error),
    transient
)]
pub(super) enum Accepting {
    /// Waits for a connection.
    #[phase(start, to(Accept, Place, Pause, Closed), hung = "never")]
    Accept,
    /// Begins the operation of the connection, once the runtime has room for it.
    #[phase(take, to(Accept, Closed), hung = "10m")]
    Place { stream: TcpStream, peer: SocketAddr },
    /// The system has no room for another connection.
    #[phase(to(Accept))]
    Pause,
    #[phase(end)]
    Closed,
}

impl<C, O> TcpAcceptor<C, O>
where
    C: Fn(TcpStream, SocketAddr) -> O + Send + Sync + 'static,
    O: Operation,
{
    pub(super) fn new(
        listener: std::net::TcpListener,
        connect: Arc<C>,
        first: usize,
        stop: Stop,
    ) -> Self {
        Self {
            listener: Watched::new(listener),
            connect,
            next: first,
            stop,
            operation: std::marker::PhantomData,
        }
    }

    /// Returns the operation of a connection, made in its locality. `None` if the connection is gone, or if the program's
    /// code panicked.
    async fn operation(
        &self,
        cx: &Cx<'_>,
        home: usize,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<Option<O>, CallError> {
        let connect = Arc::clone(&self.connect);
        let made = if home == cx.locality() {
            caught(|| connect(stream, peer))
        } else {
            let Ok(stream) = stream.into_std() else {
                return Ok(None);
            };
            // There, so that the reactor there watches the connection.
            let make = move |_: &mut fom_runtime::context::Local<'_>| {
                let stream = TcpStream::from_std(stream).ok()?;
                Some(caught(|| connect(stream, peer)))
            };
            match cx.runtime().call(home, make).await? {
                Some(made) => made,
                None => return Ok(None),
            }
        };
        Ok(made
            .map_err(|message| {
                let text = format!("the code for connections of a TCP server panicked: {message}");
                let runtime = cx.runtime();
                runtime.report(IncidentKind::Panicked, "TCP server", text);
            })
            .ok())
    }
}

impl<C, O> AcceptingTransitions for TcpAcceptor<C, O>
where
    C: Fn(TcpStream, SocketAddr) -> O + Send + Sync + 'static,
    O: Operation,
{
    async fn accept(&mut self, _: &mut Cx<'_>) -> io::Result<AcceptingAfterAccept> {
        let listener = self.listener.get(TcpListener::from_std)?;
        tokio::select! {
            biased;
            () = self.stop.wait() => Ok(AcceptingAfterAccept::Closed),
            accepted = listener.accept() => Ok(match accepted {
                Ok((stream, peer)) => AcceptingAfterAccept::Place { stream, peer },
                // The client has left already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    AcceptingAfterAccept::Accept
                }
                Err(_) => AcceptingAfterAccept::Pause,
            }),
        }
    }

    async fn place(
        &mut self,
        cx: &mut Cx<'_>,
        AcceptingInPlace { stream, peer }: AcceptingInPlace,
    ) -> io::Result<AcceptingAfterPlace> {
        let runtime = cx.runtime();
        let home = self.next;
        self.next = (home + 1) % runtime.localities();
        let operation = match self.operation(cx, home, stream, peer).await {
            Ok(Some(operation)) => operation,
            Ok(None) => return Ok(AcceptingAfterPlace::Accept),
            Err(_) => return Ok(AcceptingAfterPlace::Closed),
        };
        let submission = runtime.submit(operation).place(Placement::Locality(home));
        let started = tokio::select! {
            biased;
            started = submission.start_when_room() => started.is_ok(),
            () = self.stop.wait() => false,
        };
        // Otherwise the server stops, or the runtime shuts down.
        Ok(match started {
            true => AcceptingAfterPlace::Accept,
            false => AcceptingAfterPlace::Closed,
        })
    }

    async fn pause(&mut self, cx: &mut Cx<'_>) -> io::Result<()> {
        cx.sleep(NO_ROOM).await;
        Ok(())
    }
}
