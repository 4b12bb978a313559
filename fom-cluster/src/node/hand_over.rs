//! A slot is given up, so that another node takes it over at once.

use std::{sync::Arc, time::Duration};

use fom_protocol::{schedule::spawn, sync::sleep};
use fom_runtime::{Runtime, config::Shutdown};

use super::Node;
use crate::{
    call::{Message, encode},
    commits::{AGAIN, Owned},
    slot::Slot,
};

/// How long the operations of a slot may take to reach their next wait.
const GRACE: Duration = Duration::from_secs(1);
/// How long the journal may take to be closed.
const CLOSE: Duration = Duration::from_secs(2);

impl Node {
    /// Gives a slot up for the node with this incarnation, on a thread of its own.
    pub(super) fn hand_over(self: &Arc<Self>, slot: Slot, to: Option<String>) {
        let Some((owned, runtime)) = self.state.lock().leave(slot) else {
            return;
        };
        let (node, given) = (Arc::clone(self), Arc::clone(&owned));
        let main = move || {
            node.give_up(&given, runtime);
            node.state.lock().given_up(&given);
            node.tell();
            if let Some(to) = to {
                node.wake_other(&to);
            }
            node.wake();
        };
        if spawn("fom-hand-over", main).is_err() {
            // The runtime was dropped with the closure.
            owned.lease.lose();
            self.state.lock().given_up(&owned);
        }
    }

    fn give_up(&self, owned: &Owned, runtime: Runtime) {
        runtime.shutdown_blocking(Shutdown::Now, GRACE);
        drop(runtime);
        owned.wait_for_close(CLOSE);
        owned.end();
        // The engine may not answer. When this node is dead, others take the slot.
        while !owned.lease.is_lost() {
            match self.engine.release(owned.slot, owned.term()) {
                Ok(()) => break,
                Err(_) => sleep(AGAIN),
            }
        }
        owned.lease.lose();
    }

    /// Lets another node look at once.
    fn wake_other(&self, incarnation: &str) {
        let view = self.view();
        let Some(row) = view.nodes.get(incarnation) else {
            return;
        };
        let call = self.network.call(&row.info.address, encode(&Message::Wake));
        // Without the answer, the other node looks within a second.
        let _ = spawn("fom-wake", move || drop(fom_protocol::sync::block_on(call)));
    }
}
