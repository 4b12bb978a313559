//! The fom that sends what waits.

use std::{convert::Infallible, future::poll_fn};

use fom_runtime::prelude::*;
use tokio::sync::watch;

use super::sender::{Datagrams, UdpSender};

pub(super) struct UdpFlusher {
    sender: UdpSender,
    spare: Datagrams,
    stop: watch::Receiver<()>,
}

/// The phases of sending.
#[fom(operation(UdpFlusher), error(Infallible), transient)]
pub(super) enum Flushing {
    /// Sends what waits. The first datagram of a round wakes the fom, which then runs after the foms that are ready.
    #[phase(start, to(Closed), hung = "never")]
    Flush,
    #[phase(end)]
    Closed,
}

impl UdpFlusher {
    pub(super) fn new(sender: UdpSender, stop: watch::Receiver<()>) -> Self {
        Self {
            sender,
            spare: Datagrams::default(),
            stop,
        }
    }
}

impl FlushingTransitions for UdpFlusher {
    async fn flush(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        let Self {
            sender,
            spare,
            stop,
        } = self;
        tokio::select! {
            biased;
            // The other end only goes away.
            _ = stop.changed() => {}
            () = poll_fn(|task| sender.poll_flush(task, spare)) => {}
        }
        Ok(())
    }
}

impl Drop for UdpFlusher {
    fn drop(&mut self) {
        self.sender.close();
    }
}
