//! Commands of one client that came together, on keys of one other locality: they cost one way there, and one wake.

use std::convert::Infallible;

use fom_runtime::{prelude::*, submission::Now};

use super::Slot;
use crate::command::Command;

/// Commands for the locality where it runs.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) commands: Vec<Command>,
}

/// The phases of a batch.
#[fom(operation(Batch), error(Infallible), transient)]
pub(super) enum Sending {
    /// Runs each command. A command that waits answers by itself.
    #[phase(start, sync, to(Sent))]
    Run,
    #[phase(end)]
    Sent,
}

impl SendingTransitions for Batch {
    fn run(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        let mut answered = Vec::with_capacity(self.commands.len());
        for command in self.commands.drain(..) {
            if let Ok(Now::Ended(Ok(ended))) = cx.submit(command).now() {
                answered.push(ended.operation.slot);
            }
        }
        Slot::give_all(answered);
        Ok(())
    }
}
