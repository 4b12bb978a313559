//! Foms that a drain does not wait for, because they only wait for calls of other foms.

use std::sync::{Arc, Weak};

use fom_protocol::sync::{
    Mutex,
    atomic::{Ordering, fence},
};

use crate::runtime::extension::Extension;

/// A fom that only waits for calls. A drain ends it when no fom is left that could call it.
pub trait Daemon: Send + Sync {
    /// Returns `None` while the fom has work. While it waits for calls, and after its end, returns a number that grows
    /// with each call.
    fn rests(&self) -> Option<u64>;

    /// Returns whether the fom has ended. This value may live longer, and must not stand for another fom in flight.
    /// Returns `true` from the moment when the runtime no longer counts the fom.
    fn has_ended(&self) -> bool;

    /// Tells the fom that no more calls will come. Does nothing to a fom that has ended.
    fn end(&self);
}

#[derive(Default)]
pub(in crate::runtime) struct Daemons(Mutex<Vec<Weak<dyn Daemon>>>);

impl Extension<'_> {
    /// Adds a fom that a drain does not wait for, as long as the fom rests.
    pub fn add_daemon(self, daemon: Weak<dyn Daemon>) {
        {
            let mut all = self.runtime.shared.daemons.0.lock();
            if all.len() == all.capacity() {
                all.retain(|daemon| daemon.strong_count() > 0);
            }
            all.push(daemon);
        }
        // A drain that looked before may wait only for this daemon.
        self.runtime.shared.tell_idle();
    }
}

impl Daemons {
    /// Ends all daemons if nothing else is in flight and each of them rests: then no fom will ever call one again.
    /// `in_flight` counts the foms that have not ended, including the daemons, and never too few.
    ///
    /// Each daemon is looked at twice. If none was called in between, there was a moment when all of them rested. A
    /// thread that ends a fom, or lets a daemon rest, calls this after that. If two threads do so at once, one of them
    /// sees both.
    pub(in crate::runtime) fn end_if_alone(&self, in_flight: impl Fn() -> usize) {
        fence(Ordering::SeqCst);
        let all: Vec<Arc<dyn Daemon>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let rests = || -> Option<Vec<u64>> { all.iter().map(|daemon| daemon.rests()).collect() };
        let Some(before) = rests() else { return };
        let in_flight = in_flight();
        // Read after the count: a daemon that is not counted has ended by now.
        let live = all.iter().filter(|daemon| !daemon.has_ended()).count();
        if in_flight > live || rests() != Some(before) {
            return;
        }
        for daemon in all {
            daemon.end();
        }
    }
}
