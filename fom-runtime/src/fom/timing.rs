//! The deadlines of one fom, if its machine has any.
//!
//! A timer belongs to one visit of a phase. Leaving the phase removes the timer, on the thread that would fire it.

use crate::{
    adaptive::Ticket,
    fom::{
        Header,
        hand::{Estimate, Timer, Timers, context::with_hand, estimate, regain_leaked},
    },
    graph::PhaseInfo,
};
use fom_protocol::{
    nanos,
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

const NEVER: u64 = u64::MAX;
/// The value of `retry_at` if the next attempt is due now. A pause of the test clock can begin at time zero.
const DUE: u64 = 1;
/// The value of `late_of` if no deadline has passed.
const NOT_LATE: u8 = u8::MAX;

/// The deadline state. Written by the thread that runs the fom or fires its timer, and read by listings.
#[repr(C)]
pub(crate) struct Timing {
    /// The timer in the locality's wheel. It is the first field, so its address is the address of the struct.
    pub(super) timer: Timer,
    /// The deadline of this visit, and a deadline that an earlier phase keeps over it.
    deadline: AtomicU64,
    kept: AtomicU64,
    /// The phase that armed `kept`.
    kept_by: AtomicU8,
    /// The phase with the deadline that passed in this visit. There are at most 255.
    late_of: AtomicU8,
    /// The ticket that a visit of an adaptive phase gives back when it ends, or 0 for none.
    ticket: AtomicU16,
    /// The number of failed attempts in this visit.
    attempt: AtomicU32,
    /// The time when the next attempt is due, or 0 if the fom waits for none.
    retry_at: AtomicU64,
}

/// The times when a visit becomes late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// The deadline of the phase itself.
    pub(crate) own: Option<u64>,
    /// The deadline of an earlier phase, and the index of that phase.
    pub(crate) kept: Option<(u64, usize)>,
}

// SAFETY: only the thread that has the core of the fom's home touches the timer; the rest is atomic.
unsafe impl Sync for Timing {}

impl Timing {
    pub(crate) fn new(timer: Timer) -> Self {
        Self {
            timer,
            deadline: AtomicU64::new(NEVER),
            kept: AtomicU64::new(NEVER),
            kept_by: AtomicU8::new(0),
            late_of: AtomicU8::new(NOT_LATE),
            ticket: AtomicU16::new(0),
            attempt: AtomicU32::new(0),
            retry_at: AtomicU64::new(0),
        }
    }

    /// Resets the state for a new fom in the same slot.
    pub(crate) fn reset(&self) {
        self.deadline.store(NEVER, Ordering::Relaxed);
        self.kept.store(NEVER, Ordering::Relaxed);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.ticket.store(0, Ordering::Relaxed);
        self.attempt.store(0, Ordering::Relaxed);
        self.retry_at.store(0, Ordering::Relaxed);
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(crate) fn set_attempt(&self, attempt: u32) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    /// Returns when the next attempt is due, if the fom waits for one.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        let at = self.retry_at.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }

    /// Makes the next attempt due now, if the fom waits for one. The caller wakes the fom. Any thread may call this.
    pub(crate) fn hurry_retry(&self) {
        let at = self.retry_at.load(Ordering::Relaxed);
        if at != 0 {
            // If the exchange fails, the pause has ended, or another wake has ended it.
            let _ = self
                .retry_at
                .compare_exchange(at, DUE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns whether an attempt for this time is due.
    pub(crate) fn is_due(at: u64, now: u64) -> bool {
        at <= now.max(DUE)
    }

    /// Returns whether leaving the phase has nothing to take back.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.deadline.load(Ordering::Relaxed) == NEVER
            && self.kept.load(Ordering::Relaxed) == NEVER
            && self.late_of.load(Ordering::Relaxed) == NOT_LATE
            && self.attempt.load(Ordering::Relaxed) == 0
    }

    /// Returns the nearest deadline of this visit.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let nearest = self
            .deadline
            .load(Ordering::Relaxed)
            .min(self.kept.load(Ordering::Relaxed));
        (nearest != NEVER).then_some(nearest)
    }

    /// Returns the deadlines that a visit of this phase would have if it began now. The own deadline of an adaptive
    /// phase is unknown until the phase is entered.
    pub(crate) fn preview(
        &self,
        header: &Header,
        index: usize,
        now: u64,
        left: Option<u64>,
    ) -> Deadlines {
        let info = &header.graph().phases()[index];
        let (kept, owner) = self.kept_over(header, index);
        let own = left.or(info.deadline().within().map(nanos));
        Deadlines {
            own: own.map(|time| now.saturating_add(time)),
            kept: (kept != NEVER).then_some((kept, owner)),
        }
    }

    /// Returns the deadlines of this visit.
    pub(crate) fn deadlines(&self) -> Deadlines {
        let (own, kept) = (
            self.deadline.load(Ordering::Relaxed),
            self.kept.load(Ordering::Relaxed),
        );
        let owner = usize::from(self.kept_by.load(Ordering::Relaxed));
        Deadlines {
            own: (own != NEVER).then_some(own),
            kept: (kept != NEVER).then_some((kept, owner)),
        }
    }

    /// Returns the earlier deadline that continues in this phase, and its phase. This is a deadline kept already or
    /// the deadline of the phase that is left, whichever is nearer.
    #[inline(always)]
    fn kept_over(&self, header: &Header, index: usize) -> (u64, usize) {
        let phases = header.graph().phases();
        let from = header.visit().index();
        let keeps = |owner: usize| {
            let kept: &PhaseInfo = &phases[owner];
            kept.deadline().kept_in_indexes().contains(&(index as u16))
        };
        let mut owner = usize::from(self.kept_by.load(Ordering::Relaxed));
        let mut kept = self.kept.load(Ordering::Relaxed);
        if kept != NEVER && !keeps(owner) {
            kept = NEVER;
        }
        let left_behind = self.deadline.load(Ordering::Relaxed);
        if left_behind < kept && keeps(from) {
            kept = left_behind;
            owner = from;
        }
        (kept, owner)
    }

    /// Restores a deadline that an earlier phase keeps over this visit.
    pub(crate) fn keep_again(&self, header: &Header, at: u64, owner: usize) {
        self.kept.store(at, Ordering::Relaxed);
        self.kept_by.store(owner as u8, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(self.deadline().unwrap_or(NEVER));
    }

    /// Begins a visit. This comes before the phase is shown, so that a listener of the visit may move the clock.
    pub(crate) fn enter(&self, header: &Header, index: usize, now: u64, left: Option<u64>) {
        // The timer belongs to the thread that has the core. If user code has leaked its guard of a blocking section,
        // the thread must regain the core first. The same holds where a retry arms the timer.
        regain_leaked(header);
        let took = now.saturating_sub(header.visit().since());
        self.give_back(header, |estimate, ticket| {
            estimate.answered(ticket, took, now);
        });
        let phases = header.graph().phases();
        let info = &phases[index];
        let (kept, owner) = self.kept_over(header, index);
        let adaptive = info.deadline().adaptive().is_some();
        let adapted = adaptive.then(|| self.adapt(header, index, now, left));
        let own = adapted
            .flatten()
            .or(left)
            .or(info.deadline().within().map(nanos));
        let own = own.map_or(NEVER, |time| now.saturating_add(time));
        self.kept.store(kept, Ordering::Relaxed);
        self.kept_by.store(owner as u8, Ordering::Relaxed);
        self.deadline.store(own, Ordering::Relaxed);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.attempt.store(0, Ordering::Relaxed);
        self.arm(own.min(kept));
    }

    /// Takes a ticket for a visit of an adaptive phase. Returns how long the visit may take.
    fn adapt(&self, header: &Header, index: usize, now: u64, left: Option<u64>) -> Option<u64> {
        // SAFETY: an estimate only calculates: it runs no user code and does not reach the core.
        let estimated = unsafe {
            estimate(header, index, now, |estimate| match left {
                Some(left) => (estimate.resume(), left),
                None => estimate.enter(),
            })
        };
        let (ticket, time) = estimated?;
        self.ticket.store(ticket.bits(), Ordering::Relaxed);
        Some(time)
    }

    /// Gives the ticket back with the result of the visit, if the phase is adaptive.
    #[inline]
    fn give_back(&self, header: &Header, how: impl FnOnce(&mut Estimate, Ticket)) {
        if let Some(ticket) = Ticket::from_bits(self.ticket.load(Ordering::Relaxed)) {
            self.ticket.store(0, Ordering::Relaxed);
            // The estimate is in the core. If user code has leaked its guard of a blocking section, the thread must
            // regain the core first.
            regain_leaked(header);
            // SAFETY: `how` is a function of this file. It calls an estimate, which only calculates.
            unsafe {
                estimate(header, header.visit().index(), 0, |estimate| {
                    how(estimate, ticket);
                });
            }
        }
    }

    /// Arms the timer to wake the fom at this time, instead of the earlier armed time. Only while the fom runs.
    fn arm(&self, at: u64) {
        if self.timer.at() == (at != NEVER).then_some(at) {
            return;
        }
        with_hand(|hand| {
            if at == NEVER {
                hand.timers.disarm(&self.timer);
            } else {
                hand.timers.arm(&self.timer, at);
            }
        });
    }

    /// Removes the timer, because the fom ends. A visit that was cut short says nothing about the time it needs.
    pub(crate) fn end(&self, header: &Header) {
        self.give_back(header, Estimate::leave);
        self.arm(NEVER);
    }

    /// Wakes the fom for its next attempt at `at`, or earlier if a deadline is nearer.
    pub(crate) fn await_retry(&self, header: &Header, at: u64) {
        // Only the begin of the pause sets the time. A wake may have set it to `DUE` since this run read it.
        let _ =
            self.retry_at
                .compare_exchange(0, at.max(DUE), Ordering::Relaxed, Ordering::Relaxed);
        regain_leaked(header);
        if let Some(cold) = header.cold() {
            cold.pause(header.env());
        }
        self.arm(self.deadline().map_or(at, |deadline| deadline.min(at)));
    }

    /// Ends the wait for an attempt. Only the deadlines stay armed.
    pub(crate) fn retried(&self, header: &Header) {
        if let Some(cold) = header.cold() {
            cold.go_on(header.env());
        }
        self.retry_at.store(0, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(self.deadline().unwrap_or(NEVER));
    }

    /// Returns whether the visit is measured. A measured visit counts in the phase's estimator of the locality where
    /// it began.
    pub(crate) fn is_measured(&self) -> bool {
        self.ticket.load(Ordering::Relaxed) != 0
    }

    /// Takes the timer out of the wheel of the locality that the fom leaves. Returns when the timer was due.
    pub(crate) fn take_out(&self, timers: &mut Timers) -> Option<u64> {
        let at = self.timer.at();
        timers.disarm(&self.timer);
        at
    }

    /// Puts the timer into the wheel of the locality that the fom moves to.
    pub(crate) fn put_in(&self, timers: &mut Timers, at: u64) {
        timers.arm(&self.timer, at);
    }

    /// Handles the fired timer: the fom is late in this visit if a deadline has passed. Only the core's thread calls
    /// this.
    pub(crate) fn fired(&self, header: &Header, now: u64) {
        if self.deadline.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(header.visit().index() as u8, Ordering::Relaxed);
        } else if self.kept.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(self.kept_by.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late_of.load(Ordering::Relaxed) != NOT_LATE
    }

    /// Returns the name of the phase with the passed deadline.
    pub(crate) fn late_of(&self, header: &Header) -> &'static str {
        let index = self.late_of.load(Ordering::Relaxed);
        header
            .graph()
            .phases()
            .get(usize::from(index))
            .map_or("", PhaseInfo::name)
    }

    /// Removes the deadlines for the `failed` function of a failed visit, as for a late function. A deadline that an
    /// earlier phase keeps continues after it.
    pub(crate) fn failed(&self, header: &Header) {
        self.give_back(header, Estimate::leave);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.retry_at.store(0, Ordering::Relaxed);
        self.deadline.store(NEVER, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(NEVER);
    }

    /// Acknowledges the lateness. The late function runs without any deadline. A deadline that an earlier phase keeps
    /// and that has not passed continues after it.
    pub(crate) fn clear_late(&self, header: &Header, now: u64) {
        let own = usize::from(self.late_of.load(Ordering::Relaxed)) == header.visit().index();
        self.give_back(header, |estimate, ticket| {
            if own {
                estimate.late(ticket, now);
            } else {
                estimate.leave(ticket);
            }
        });
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        if let Some(cold) = header.cold() {
            cold.go_on(header.env());
        }
        self.retry_at.store(0, Ordering::Relaxed);
        self.deadline.store(NEVER, Ordering::Relaxed);
        if self.kept.load(Ordering::Relaxed) <= now {
            self.kept.store(NEVER, Ordering::Relaxed);
        }
    }
}
