//! The fom that sends what waits.

use std::{convert::Infallible, future::poll_fn};

use fom_runtime::prelude::*;

use super::sender::{Datagrams, UdpSender};
use crate::foms::Stop;

pub(super) struct UdpFlusher {
    sender: UdpSender,
    spare: Datagrams,
    stop: Stop,
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
    pub(super) fn new(sender: UdpSender, stop: Stop) -> Self {
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
        // Also if the runtime shuts down first.
        let _closes = Closes(sender);
        tokio::select! {
            biased;
            () = stop.wait() => {}
            () = poll_fn(|task| sender.poll_flush(task, spare)) => {}
        }
        Ok(())
    }
}

/// Closes the queue when the fom sends it no more.
struct Closes<'a>(&'a UdpSender);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
