//! When a fom may begin: not before its time, if it has one, and not before it has its key.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    fom::{Cold, Header, Order, WaitingFor, durability::KeptFom, reference},
    id::{Key, KeyHash, KeyOf},
};
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The state of a fom in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyWait {
    /// The fom has its key, or needs none.
    Has,
    /// The fom has its key ahead of a fom with a lower number, which the journal may have.
    Overtakes,
    /// The fom waits for its key, with this number.
    Waits(u64),
    /// The fom asks for its key when its time comes.
    Outside,
    /// The fom has lost its place, and must end.
    Rejected(Rejected),
}

/// The reason why a fom never begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The fom made room for another.
    Shed,
    /// The fom that has the key waits for this fom.
    Stuck,
    /// The maximum number of foms wait for the key.
    Full,
}

/// Changed under the lock of the directory. Read by the thread that runs the fom, which is woken after each change.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU64);

/// The wait before a fom may begin.
#[derive(Debug)]
pub(crate) struct Delay {
    is_over: AtomicBool,
    wait: Mutex<Option<Box<Wait<dyn Sleeping>>>>,
}

#[derive(Debug)]
struct Wait<S: ?Sized> {
    order: Order,
    sleep: S,
}

/// A sleep on the runtime's clock.
pub(crate) trait Sleeping: Future<Output = ()> + fmt::Debug + Send + Unpin {
    /// Returns the time at which the sleep ends.
    fn until(&self) -> u64;
}

const HAS: u64 = 0;
const OUTSIDE: u64 = u64::MAX;
const SHED: u64 = u64::MAX - 1;
const STUCK: u64 = u64::MAX - 2;
const FULL: u64 = u64::MAX - 3;
const OVERTAKES: u64 = u64::MAX - 4;

/// What a fom waits for that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnWait {
    /// Its time.
    Time {
        /// The time, on the runtime's clock.
        until: u64,
        /// Whether it waits for its turn then.
        queues: bool,
    },
    /// Its turn, with this number.
    Line(u64),
}

/// Whether a fom may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayBegin {
    Now,
    Waits(WaitingFor),
    Rejected(Rejected),
}

impl Delay {
    pub(crate) fn new(sleep: impl Sleeping + 'static, order: Order) -> Self {
        Self {
            is_over: AtomicBool::new(false),
            wait: Mutex::new(Some(Box::new(Wait { order, sleep }))),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the delay of a fom that ends, so that nothing wakes the fom any more.
    pub(super) fn end(&self) {
        let wait = self.wait.lock().take();
        drop(wait);
    }
}

impl Turn {
    fn set(&self, key_wait: KeyWait) {
        let word = match key_wait {
            KeyWait::Has => HAS,
            KeyWait::Overtakes => OVERTAKES,
            KeyWait::Waits(number) => number,
            KeyWait::Outside => OUTSIDE,
            KeyWait::Rejected(Rejected::Shed) => SHED,
            KeyWait::Rejected(Rejected::Stuck) => STUCK,
            KeyWait::Rejected(Rejected::Full) => FULL,
        };
        self.0.store(word, Ordering::Release);
    }

    fn key_wait(&self) -> KeyWait {
        match self.0.load(Ordering::Acquire) {
            HAS => KeyWait::Has,
            OVERTAKES => KeyWait::Overtakes,
            OUTSIDE => KeyWait::Outside,
            SHED => KeyWait::Rejected(Rejected::Shed),
            STUCK => KeyWait::Rejected(Rejected::Stuck),
            FULL => KeyWait::Rejected(Rejected::Full),
            number => KeyWait::Waits(number),
        }
    }
}

/// A turn that a fom waits for or has, and that is not the one of its key.
#[derive(Clone, Debug)]
pub(crate) enum OtherTurn {
    /// The turn of the fom that submitted this one.
    Chained(KeyOf),
    /// The turn of this fom in a series. Its key, if it has one, is no more than its name.
    Serial(KeyOf),
}

/// The keys that a fom has or waits for.
#[derive(Default)]
pub(crate) struct Keys {
    /// The key that the fom was submitted with.
    pub(super) own: Option<Key>,
    /// The turn that is not the one of its key.
    pub(crate) other: Option<Box<OtherTurn>>,
    /// The state that decides when the fom may begin.
    pub(super) turn: Turn,
}

impl Keys {
    /// Returns whether the fom is one of a series.
    pub(super) fn is_serial(&self) -> bool {
        matches!(self.other.as_deref(), Some(OtherTurn::Serial(_)))
    }

    /// Notes that a fom that is not made yet asks for its key later, if it waits for its turn at all.
    pub(crate) fn asks_later(&mut self, order: Order) {
        if (self.own.is_some() || self.is_serial()) && order.queues() {
            self.turn.set(KeyWait::Outside);
        }
    }
}

/// The turn of this fom among those with the same key, and the time before which it does not begin.
#[derive(Clone, Copy)]
pub(crate) struct FomTurn<'a>(pub(super) &'a Header);

impl<'a> FomTurn<'a> {
    /// Sets the state. The caller holds the lock of the directory.
    pub(crate) fn set(self, key_wait: KeyWait) {
        if let Some(cold) = self.0.cold() {
            cold.keys.turn.set(key_wait);
        }
    }

    pub(crate) fn key_wait(self) -> KeyWait {
        let cold = self.0.cold();
        cold.map_or(KeyWait::Has, |cold| cold.keys.turn.key_wait())
    }

    fn other(self) -> Option<&'a OtherTurn> {
        self.0.cold().and_then(|cold| cold.keys.other.as_deref())
    }

    /// Returns the turn that the fom shares with the fom that submitted it.
    pub(crate) fn chained(self) -> Option<&'a KeyOf> {
        match self.other()? {
            OtherTurn::Chained(of) => Some(of),
            OtherTurn::Serial(_) => None,
        }
    }

    /// Returns the series of the fom.
    pub(crate) fn serial(self) -> Option<&'a KeyOf> {
        match self.other()? {
            OtherTurn::Serial(of) => Some(of),
            OtherTurn::Chained(_) => None,
        }
    }

    /// Returns the fom's own key.
    fn named(self) -> Option<KeyOf> {
        Some(KeyOf::key(self.0.type_id(), self.0.key()?.clone()))
    }

    /// Returns the fom's key, if it is no more than a name, because the fom has its turn in a series.
    pub(crate) fn name_only(self) -> Option<KeyOf> {
        self.serial().and_then(|_| self.named())
    }

    /// Returns the turn that the fom waits for or has itself: that of its series, or of its key.
    pub(crate) fn own(self) -> Option<KeyOf> {
        self.serial().cloned().or_else(|| self.named())
    }

    /// Returns the hash of the turn that the fom waits for or has itself, if it is known.
    pub(crate) fn hash(self) -> Option<KeyHash> {
        self.0.cold()?.turn_hash
    }

    /// Returns whether the fom has this turn, alone or shared with the fom that submitted it. Only the thread that
    /// runs the fom calls this.
    pub(crate) fn has_key(self, of: &KeyOf) -> bool {
        let named = || !of.is_serial && self.0.type_id() == of.of && self.0.key() == Some(&of.key);
        named()
            || matches!(self.other(), Some(OtherTurn::Chained(own) | OtherTurn::Serial(own)) if own == of)
    }

    /// Returns the turn of the fom: the shared one if it has one, else its own. Only the thread that runs the fom calls
    /// this.
    pub(crate) fn key(self) -> Option<KeyOf> {
        self.chained().cloned().or_else(|| self.own())
    }

    /// Returns whether the fom has a key or a series.
    pub(crate) fn is_kept(self) -> bool {
        self.0.key().is_some() || self.serial().is_some()
    }

    /// Returns what the fom waits for. Only the thread that runs the fom calls this.
    pub(crate) fn wait(self) -> Option<TurnWait> {
        let cold = self.0.cold()?;
        if let Some(delay) = cold.delay()
            && let Some(wait) = &*delay.wait.lock()
        {
            return Some(TurnWait::Time {
                until: wait.sleep.until(),
                queues: self.is_kept() && wait.order.queues(),
            });
        }
        match cold.keys.turn.key_wait() {
            KeyWait::Waits(number) => Some(TurnWait::Line(number)),
            _ => None,
        }
    }

    /// Returns the key that the fom waits for, if it came back and waits. Callers as for [`key`](Self::key), or the
    /// submission of the fom.
    pub(crate) fn waits_again(self) -> Option<KeyOf> {
        let cold = self.0.cold().filter(|cold| cold.back.came_back)?;
        let waits = matches!(cold.keys.turn.key_wait(), KeyWait::Waits(_));
        waits.then(|| self.key()).flatten()
    }

    /// Returns whether the fom may begin. Only the thread that runs the fom calls this.
    #[inline]
    pub(crate) fn may_begin(self) -> MayBegin {
        match self.0.cold() {
            None => MayBegin::Now,
            Some(cold) => self.may_begin_of(cold),
        }
    }

    fn may_begin_of(self, cold: &Cold) -> MayBegin {
        let turn = &cold.keys.turn;
        if cold.kept().is_some_and(KeptFom::is_committing) {
            return MayBegin::Waits(WaitingFor::Journal);
        }
        if let Some(delay) = cold.delay()
            && !self.is_due(turn, delay)
        {
            return MayBegin::Waits(WaitingFor::Timer);
        }
        if cold.back.came_back && matches!(turn.key_wait(), KeyWait::Waits(_)) {
            // By now all foms that were before this fom are there.
            self.0.env().host().settle_key(self.0);
        }
        match turn.key_wait() {
            KeyWait::Has | KeyWait::Overtakes => MayBegin::Now,
            KeyWait::Waits(_) | KeyWait::Outside => MayBegin::Waits(WaitingFor::Key),
            KeyWait::Rejected(why) => MayBegin::Rejected(why),
        }
    }

    /// Returns whether the fom's time has come. If so, the fom asks for its key.
    #[cold]
    fn is_due(self, turn: &Turn, delay: &Delay) -> bool {
        let order = {
            let mut wait = delay.wait.lock();
            let due = wait.as_mut().is_none_or(|wait| {
                let sleep = Pin::new(&mut wait.sleep);
                reference::with_waker(self.0, |waker| {
                    sleep.poll(&mut Context::from_waker(waker)) == Poll::Ready(())
                })
            });
            if !due {
                return false;
            }
            delay.is_over.store(true, Ordering::Relaxed);
            wait.take().map(|wait| wait.order)
        };
        if let (Some(order), KeyWait::Outside) = (order, turn.key_wait()) {
            let env = self.0.env();
            if let Some(of) = self.key() {
                // A resting fom that has the key or waits for it goes first.
                env.revive_key(|| of);
            }
            env.host().enter_key(self.0, order);
        }
        true
    }
}
