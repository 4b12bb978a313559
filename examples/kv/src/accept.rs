//! The fom that accepts clients.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fom_runtime::prelude::*;
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Connection, Line};
use crate::common::Common;

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// The pause when the system has no room for another client.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Accepts clients.
#[derive(Debug)]
pub(crate) struct Accept {
    listener: TcpListener,
    common: Arc<Common>,
}

/// The phases of accepting clients.
#[fom(operation(Accept), error(Infallible), transient)]
pub(crate) enum Accepting {
    /// Waits for a client.
    #[phase(start, to(Seat, Pause))]
    Listen,
    /// Sends the client to the locality with the fewest clients, or away if there are too many.
    #[phase(take, to(Listen))]
    Seat {
        stream: TcpStream,
        address: SocketAddr,
    },
    /// The system has no room for another client: no descriptors, or no memory.
    #[phase(to(Listen, Ended))]
    Pause,
    #[phase(end)]
    Ended,
}

impl Accept {
    pub(crate) fn new(listener: TcpListener, common: Arc<Common>) -> Self {
        Self { listener, common }
    }
}

impl AcceptingTransitions for Accept {
    async fn listen(&mut self, _: &mut Cx<'_>) -> Result<AcceptingAfterListen, Infallible> {
        Ok(match self.listener.accept().await {
            Ok((stream, address)) => AcceptingAfterListen::Seat { stream, address },
            Err(error) => {
                eprintln!("kv: cannot take a client: {error}");
                AcceptingAfterListen::Pause
            }
        })
    }

    async fn seat(
        &mut self,
        cx: &mut Cx<'_>,
        AcceptingInSeat { stream, address }: AcceptingInSeat,
    ) -> Result<(), Infallible> {
        let runtime = cx.runtime();
        let clients = &self.common.clients;
        let seat = clients.come(
            address,
            cx.now(),
            self.common.live.clients(),
            runtime.localities(),
        );
        let Some(me) = seat else {
            // The buffer of a new socket has room, so the write does not wait.
            let _ = stream
                .into_std()
                .and_then(|mut stream| stream.write(TOO_MANY));
            return Ok(());
        };
        let common = Arc::clone(&self.common);
        let home = me.locality;
        let again = runtime.clone();
        // Runs in the client's locality, so that the reactor there serves the socket. If the server ends, the client
        // needs no seat.
        let _ = runtime.post(home, move |_| {
            let limits = common.settings.limits;
            let here = stream
                .set_nodelay(true)
                .and_then(|()| stream.into_std())
                .and_then(TcpStream::from_std);
            let Ok(stream) = here else {
                // The client has gone already.
                return common.clients.left(&me);
            };
            let line = Line::new(stream, limits, &common.memory);
            let connection =
                Connection::new(line, Arc::clone(&common), Arc::clone(&me), again.clone());
            let submission = again.submit(connection).place(Placement::Locality(home));
            // If the submission is refused, the server ends. The dropped connection then takes the client off the list.
            if let Ok(handle) = submission.start() {
                common.clients.is_served_by(&me, handle.fom().clone());
            }
        });
        Ok(())
    }

    async fn pause(&mut self, cx: &mut Cx<'_>) -> Result<AcceptingAfterPause, Infallible> {
        cx.sleep(NO_ROOM).await;
        Ok(if self.common.is_stopping() {
            AcceptingAfterPause::Ended
        } else {
            AcceptingAfterPause::Listen
        })
    }
}
