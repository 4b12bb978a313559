//! When a fom may begin: not before its time, if it has one, and not before it has its key.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    fom::{Extra, Header, Order, WaitingFor, reference},
    id::KeyOf,
    locality::Sleep,
};
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The state of a fom in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The fom has its key, or needs none.
    Has,
    /// The fom has its key ahead of a fom with a lower number, which the journal may have.
    Overtakes,
    /// The fom waits for its key, with this number.
    Waits(u64),
    /// The fom asks for its key when its time comes.
    Outside,
    /// The fom has lost its place, and must end.
    Barred(Barred),
}

/// The reason why a fom never begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barred {
    /// The fom made room for another.
    Shed,
    /// The fom that has the key waits for this fom.
    Stuck,
    /// The maximum number of foms wait for the key.
    Full,
}

/// Changed under the lock of the directory. Read by the thread that runs the fom, which is woken after each change.
#[derive(Debug, Default)]
pub(super) struct Turn {
    standing: AtomicU64,
    delayed: AtomicBool,
    delay: Mutex<Option<Box<Delay>>>,
}

/// The wait before a fom may begin.
#[derive(Debug)]
struct Delay {
    sleep: Sleep,
    order: Order,
}

const HAS: u64 = 0;
const OUTSIDE: u64 = u64::MAX;
const SHED: u64 = u64::MAX - 1;
const STUCK: u64 = u64::MAX - 2;
const FULL: u64 = u64::MAX - 3;
const OVERTAKES: u64 = u64::MAX - 4;

/// Whether a fom may begin.
pub(super) enum Gate {
    Open,
    Waits(WaitingFor),
    Barred(Barred),
}

impl Extra {
    /// Sets the delay of a fom that is not made yet.
    pub(crate) fn delay(&mut self, sleep: Sleep, order: Order) {
        let asks_later = self.key.is_some() && matches!(order, Order::Queue { .. });
        self.turn = Turn {
            standing: AtomicU64::new(if asks_later { OUTSIDE } else { HAS }),
            delayed: AtomicBool::new(true),
            delay: Mutex::new(Some(Box::new(Delay { sleep, order }))),
        };
    }
}

impl Header {
    /// Sets the state. The caller holds the lock of the directory.
    pub(crate) fn stand(&self, standing: Standing) {
        let word = match standing {
            Standing::Has => HAS,
            Standing::Overtakes => OVERTAKES,
            Standing::Waits(number) => number,
            Standing::Outside => OUTSIDE,
            Standing::Barred(Barred::Shed) => SHED,
            Standing::Barred(Barred::Stuck) => STUCK,
            Standing::Barred(Barred::Full) => FULL,
        };
        if let Some(extra) = self.extra() {
            extra.turn.standing.store(word, Ordering::Release);
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.extra().map_or(Standing::Has, standing)
    }

    /// Returns the key that decides the fom's turn: the shared key if it has one, else its own. Only the thread that
    /// runs the fom calls this.
    pub(crate) fn turn(&self) -> Option<KeyOf> {
        let own = || Some((self.type_id(), self.key()?.clone()));
        self.chained().cloned().or_else(own)
    }

    /// Returns the key that the fom waits for, if it came back and waits. Callers as for [`turn`](Self::turn), or the
    /// maker of the fom.
    pub(crate) fn waits_again(&self) -> Option<KeyOf> {
        let extra = self.extra().filter(|extra| extra.came_back)?;
        let waits = matches!(standing(extra), Standing::Waits(_));
        waits.then(|| self.turn()).flatten()
    }

    /// Returns whether the fom may begin. Only the thread that runs the fom calls this.
    #[inline]
    pub(super) fn gate(&self) -> Gate {
        match self.extra() {
            None => Gate::Open,
            Some(extra) => self.gate_of(extra),
        }
    }

    fn gate_of(&self, extra: &Extra) -> Gate {
        if extra.turn.delayed.load(Ordering::Relaxed) && !self.is_due(extra) {
            return Gate::Waits(WaitingFor::Timer);
        }
        if extra.came_back && matches!(standing(extra), Standing::Waits(_)) {
            // By now all foms that were before this fom are there.
            self.world().directory.settle(self);
        }
        match standing(extra) {
            Standing::Has | Standing::Overtakes => Gate::Open,
            Standing::Waits(_) | Standing::Outside => Gate::Waits(WaitingFor::Key),
            Standing::Barred(why) => Gate::Barred(why),
        }
    }

    /// Returns whether the fom's time has come. If so, the fom asks for its key.
    #[cold]
    fn is_due(&self, extra: &Extra) -> bool {
        let order = {
            let mut delay = extra.turn.delay.lock();
            let due = delay.as_mut().is_none_or(|delay| {
                let sleep = Pin::new(&mut delay.sleep);
                reference::with_waker(self, |waker| {
                    sleep.poll(&mut Context::from_waker(waker)) == Poll::Ready(())
                })
            });
            if !due {
                return false;
            }
            extra.turn.delayed.store(false, Ordering::Relaxed);
            delay.take().map(|delay| delay.order)
        };
        if let (Some(order), Standing::Outside) = (order, standing(extra)) {
            let world = self.world();
            if let Some(of) = self.turn() {
                // A resting fom that has the key or waits for it goes first.
                world.env.revive_key(|| of);
            }
            world.directory.enter_late(self, order);
        }
        true
    }

    /// Ends the delay of a fom that ends, so that nothing wakes the fom any more.
    pub(super) fn end_delay(&self) {
        if let Some(extra) = self.extra()
            && extra.turn.delayed.load(Ordering::Relaxed)
        {
            let delay = extra.turn.delay.lock().take();
            drop(delay);
        }
    }
}

fn standing(extra: &Extra) -> Standing {
    match extra.turn.standing.load(Ordering::Acquire) {
        HAS => Standing::Has,
        OVERTAKES => Standing::Overtakes,
        OUTSIDE => Standing::Outside,
        SHED => Standing::Barred(Barred::Shed),
        STUCK => Standing::Barred(Barred::Stuck),
        FULL => Standing::Barred(Barred::Full),
        number => Standing::Waits(number),
    }
}
