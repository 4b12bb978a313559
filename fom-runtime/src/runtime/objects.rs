//! The active objects of a runtime, so that a drain does not wait for objects that only wait for calls.

use std::sync::{Arc, Weak};

use crate::fom::Explain;
use fom_protocol::sync::{
    Mutex,
    atomic::{Ordering, fence},
};

#[derive(Default)]
pub(crate) struct Objects(Mutex<Vec<Weak<dyn Explain>>>);

impl Objects {
    pub(crate) fn add(&self, object: Weak<dyn Explain>) {
        let mut all = self.0.lock();
        if all.len() == all.capacity() {
            all.retain(|object| object.strong_count() > 0);
        }
        all.push(object);
    }

    /// Ends all objects if nothing else is in flight and each of them rests: then no fom will ever call one again.
    /// `in_flight` counts the foms that have not ended, including the objects, and never too few.
    ///
    /// Each object is looked at twice. If none was called in between, there was a moment when all of them rested. A
    /// thread that ends a fom, or lets an object rest, calls this after that. If two threads do so at once, one of them
    /// sees both.
    pub(super) fn end_if_alone(&self, in_flight: impl Fn() -> usize) {
        fence(Ordering::SeqCst);
        let all: Vec<Arc<dyn Explain>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let rests = || -> Option<Vec<u64>> { all.iter().map(|object| object.rests()).collect() };
        let Some(before) = rests() else { return };
        if in_flight() > all.len() || rests() != Some(before) {
            return;
        }
        for object in all {
            object.end();
        }
    }
}
