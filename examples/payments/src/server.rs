//! The server: a bank for each locality, and the listeners.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fom_net::{TcpServer, bind_tcp, serve_tcp};
use fom_runtime::{config::ShutdownReport, prelude::*};
use tokio::sync::watch;

use crate::{
    bank::{Bank, Desk, Question},
    connection::Connection,
};

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listeners: TcpServer,
    banks: Arc<[Bank]>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Starts the server in this runtime.
    ///
    /// # Errors
    ///
    /// Says why the address cannot be used, or why the runtime takes no fom.
    pub fn start(runtime: &Runtime, listen: SocketAddr) -> Result<Self, BoxError> {
        let sockets = bind_tcp(listen, runtime.localities())?;
        let open = |locality| {
            let desk = runtime.submit(Desk);
            let desk = desk.place(Placement::Locality(locality)).start()?;
            Ok::<Bank, Refused<Desk>>(desk.sender())
        };
        let banks: Arc<[Bank]> = (0..runtime.localities())
            .map(open)
            .collect::<Result<_, _>>()?;
        let (stop, stopped) = watch::channel(false);
        let desks = Arc::clone(&banks);
        let listeners = serve_tcp(runtime, sockets, move |stream, _| {
            let _ = stream.set_nodelay(true);
            Connection {
                stream: Some(stream),
                banks: Arc::clone(&desks),
                stop: stopped.clone(),
            }
        })?;
        Ok(Self {
            runtime: runtime.clone(),
            listeners,
            banks,
            stop,
        })
    }

    /// Returns the address of the server.
    pub fn local_addr(&self) -> SocketAddr {
        self.listeners.local_addr()
    }

    /// Takes no further request, and answers those that run. After `limit`, what has not ended is dropped.
    pub async fn stop(self, limit: Duration) -> ShutdownReport {
        self.listeners.stop().await;
        self.stop.send_replace(true);
        // Each connection has a receiver of it.
        let _ = tokio::time::timeout(limit, self.stop.closed()).await;
        for bank in &*self.banks {
            let _ = bank.send(Question::Close);
        }
        self.runtime.shutdown(Shutdown::Drain, limit).await
    }
}
