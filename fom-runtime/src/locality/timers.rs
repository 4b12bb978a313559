//! The timers of one locality, in order of their times. Taking one out leaves nothing behind.

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use crate::{fom::AnyFom, locality::Core};

/// Set in the second part of the key of a timer that is not a fom's own.
const OTHER: u64 = 1 << 63;

#[derive(Default)]
pub(crate) struct Timers {
    /// By time, then by the fom's id or a sequence number.
    entries: BTreeMap<(u64, u64), Due>,
    next: u64,
}

/// What happens when a timer fires.
pub(crate) enum Due {
    Fom(Arc<dyn AnyFom>),
    Waker(Waker),
    Call(Box<dyn FnOnce() + Send>),
}

/// Names a timer that is not a fom's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey(u64, u64);

impl Timers {
    pub(crate) fn arm_fom(&mut self, at: u64, id: u64, fom: Arc<dyn AnyFom>) {
        self.entries.insert((at, id), Due::Fom(fom));
    }

    pub(crate) fn disarm_fom(&mut self, at: u64, id: u64) {
        self.entries.remove(&(at, id));
    }

    pub(crate) fn arm(&mut self, at: u64, due: Due) -> TimerKey {
        self.next += 1;
        let key = (at, self.next | OTHER);
        self.entries.insert(key, due);
        TimerKey(key.0, key.1)
    }

    pub(crate) fn disarm(&mut self, key: TimerKey) {
        self.entries.remove(&(key.0, key.1));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(key, _)| key.0)
    }

    pub(super) fn pop_due(&mut self, now: u64) -> Option<Due> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

impl Due {
    pub(super) fn fire(self, core: &mut Core, now: u64) {
        match self {
            Self::Fom(fom) => {
                fom.header().timer_fired(now);
                if fom.header().token.wake() {
                    core.enqueue(fom);
                }
            }
            Self::Waker(waker) => waker.wake(),
            Self::Call(call) => call(),
        }
    }
}
