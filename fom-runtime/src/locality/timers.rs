//! The timers of one locality, in order of their times. Taking one out leaves nothing behind.

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use crate::{fom::AnyFom, locality::Core};

/// Set in the second part of the key of a timer that is not a fom's own.
const OTHER: u64 = 1 << 63;

#[derive(Default)]
pub(crate) struct Timers {
    /// By time, then by the fom's id or a number of its own.
    entries: BTreeMap<(u64, u64), Due>,
}

/// What happens when a timer fires.
pub(super) enum Due {
    Fom(Arc<dyn AnyFom>),
    Waker(Waker),
}

/// Names a timer that is not a fom's own. Made by whoever arms it, so that it can be disarmed from another thread too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    at: u64,
    number: u64,
}

impl TimerKey {
    /// For this time of the clock; `number` is unique in the runtime.
    pub(crate) fn new(at: u64, number: u64) -> Self {
        Self {
            at,
            number: number | OTHER,
        }
    }

    pub(crate) fn at(self) -> u64 {
        self.at
    }
}

impl Timers {
    pub(crate) fn arm_fom(&mut self, at: u64, id: u64, fom: Arc<dyn AnyFom>) {
        self.entries.insert((at, id), Due::Fom(fom));
    }

    pub(crate) fn disarm_fom(&mut self, at: u64, id: u64) {
        self.entries.remove(&(at, id));
    }

    /// Arms a timer, or gives an armed one another waker.
    pub(crate) fn arm(&mut self, key: TimerKey, waker: Waker) {
        self.entries.insert((key.at, key.number), Due::Waker(waker));
    }

    pub(crate) fn disarm(&mut self, key: TimerKey) {
        self.entries.remove(&(key.at, key.number));
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
            // It may be of an executor of the user's.
            Self::Waker(waker) => core.home.fenced("the waker of a sleep in", || waker.wake()),
        }
    }
}
