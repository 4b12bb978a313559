//! The deadlines of one fom, where its machine has any.
//!
//! A timer belongs to one visit of a phase: leaving the phase takes it out, on the thread that would fire it.

use crate::{
    PhaseInfo,
    adaptive::Ticket,
    clock::nanos,
    fom::Header,
    locality::{Estimate, Timer, Timers, estimate, regain_leaked},
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

const NEVER: u64 = u64::MAX;
/// `late_of`: no deadline passed.
const NOT_LATE: u8 = u8::MAX;

/// Written by the thread that runs the fom; read by whoever lists it.
#[repr(C)]
pub(crate) struct Timing {
    /// In the locality's wheel. First, so that it has the address of all this.
    pub(super) timer: Timer,
    /// The deadline of this visit, and one that an earlier phase keeps over it.
    deadline: AtomicU64,
    kept: AtomicU64,
    /// The phase that armed `kept`.
    kept_by: AtomicU8,
    /// The phase whose deadline passed in this visit. There are at most 255.
    late_of: AtomicU8,
    /// What a visit of an adaptive phase gives back when it ends; 0 is for none.
    ticket: AtomicU16,
    /// Failed attempts in this visit.
    attempt: AtomicU32,
    /// When the next attempt is due; zero when none is waited for.
    retry_at: AtomicU64,
}

/// When a visit becomes late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// By the phase's own time.
    pub(super) own: Option<u64>,
    /// By that of an earlier phase.
    pub(super) kept: Option<(u64, usize)>,
}

// SAFETY: the timer is touched by the thread that has the core of the fom's home alone; the rest is atomic.
unsafe impl Sync for Timing {}

impl Timing {
    pub(super) fn new(timer: Timer) -> Self {
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

    /// For a new fom in the same place.
    pub(super) fn reset(&self) {
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

    pub(super) fn set_attempt(&self, attempt: u32) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    /// When the next attempt is due, if one is waited for.
    pub(super) fn retry_at(&self) -> Option<u64> {
        let at = self.retry_at.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }

    /// Whether there is nothing to take back when the phase is left.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.deadline.load(Ordering::Relaxed) == NEVER
            && self.kept.load(Ordering::Relaxed) == NEVER
            && self.late_of.load(Ordering::Relaxed) == NOT_LATE
            && self.attempt.load(Ordering::Relaxed) == 0
    }

    /// The nearest deadline that stands over this visit.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let nearest = self
            .deadline
            .load(Ordering::Relaxed)
            .min(self.kept.load(Ordering::Relaxed));
        (nearest != NEVER).then_some(nearest)
    }

    /// The deadlines that a visit of this phase would have if it began now, as far as they can be known: an adaptive phase gets
    /// its time when it is entered.
    pub(super) fn preview(
        &self,
        header: &Header,
        index: usize,
        now: u64,
        left: Option<u64>,
    ) -> Deadlines {
        let info = &header.graph().phases()[index];
        let (kept, owner) = self.kept_over(header, index);
        let own = left.or(info.within().map(nanos));
        Deadlines {
            own: own.map(|time| now.saturating_add(time)),
            kept: (kept != NEVER).then_some((kept, owner)),
        }
    }

    /// The deadlines of this visit.
    pub(super) fn deadlines(&self) -> Deadlines {
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

    /// Which deadline of before goes on in this phase: an old kept one, or the one of the phase that is left. The earlier
    /// stays.
    #[inline(always)]
    fn kept_over(&self, header: &Header, index: usize) -> (u64, usize) {
        let phases = header.graph().phases();
        let from = header.phase_index();
        let keeps = |owner: usize| {
            let kept: &PhaseInfo = &phases[owner];
            kept.kept_in_indexes().contains(&(index as u16))
        };
        let mut owner = usize::from(self.kept_by.load(Ordering::Relaxed));
        let mut kept = self.kept.load(Ordering::Relaxed);
        if kept != NEVER && !keeps(owner) {
            kept = NEVER;
        }
        let left_behind = self.deadline.load(Ordering::Relaxed);
        if left_behind < kept && from != index && keeps(from) {
            kept = left_behind;
            owner = from;
        }
        (kept, owner)
    }

    /// A deadline that an earlier phase keeps over this visit, which was restored.
    pub(super) fn keep_again(&self, header: &Header, at: u64, owner: usize) {
        self.kept.store(at, Ordering::Relaxed);
        self.kept_by.store(owner as u8, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(self.deadline().unwrap_or(NEVER));
    }

    /// Begins a visit: before the phase is shown, so that who hears of the visit may move the clock.
    pub(super) fn enter(&self, header: &Header, index: usize, now: u64, left: Option<u64>) {
        // The timer belongs to who has the core: back to that first, should user code have leaked its guard of a blocking
        // section. The same where a retry arms it.
        regain_leaked(header);
        let took = now.saturating_sub(header.since());
        self.give_back(header, |estimate, ticket| {
            estimate.answered(ticket, took, now);
        });
        let phases = header.graph().phases();
        let info = &phases[index];
        let (kept, owner) = self.kept_over(header, index);
        let adaptive = info.adaptive().is_some();
        let adapted = adaptive.then(|| self.adapt(header, index, now, left));
        let own = adapted.flatten().or(left).or(info.within().map(nanos));
        let own = own.map_or(NEVER, |time| now.saturating_add(time));
        self.kept.store(kept, Ordering::Relaxed);
        self.kept_by.store(owner as u8, Ordering::Relaxed);
        self.deadline.store(own, Ordering::Relaxed);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.attempt.store(0, Ordering::Relaxed);
        self.arm(own.min(kept));
    }

    /// Takes a ticket for a visit of an adaptive phase, and says how long that may take.
    fn adapt(&self, header: &Header, index: usize, now: u64, left: Option<u64>) -> Option<u64> {
        // SAFETY: an estimate only calculates: it runs no code of users and does not reach the core.
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

    /// Gives the ticket back for what became of the visit, if the phase is adaptive.
    #[inline]
    fn give_back(&self, header: &Header, how: impl FnOnce(&mut Estimate, Ticket)) {
        if let Some(ticket) = Ticket::from_bits(self.ticket.load(Ordering::Relaxed)) {
            self.ticket.store(0, Ordering::Relaxed);
            // The estimate is in the core. If user code has leaked its guard of a blocking section, the thread must
            // regain the core first.
            regain_leaked(header);
            // SAFETY: `how` is a function of this file. It calls an estimate, which only calculates.
            unsafe {
                estimate(header, header.phase_index(), 0, |estimate| {
                    how(estimate, ticket);
                });
            }
        }
    }

    /// Wakes it at this time of the clock, instead of at the time armed before. Only while it runs.
    fn arm(&self, at: u64) {
        if self.timer.at() == (at != NEVER).then_some(at) {
            return;
        }
        crate::locality::with_core(|core| {
            if at == NEVER {
                core.timers.disarm(&self.timer);
            } else {
                core.timers.arm(&self.timer, at);
            }
        });
    }

    /// The fom ends: takes its timer out. A visit that did not come to its own end says nothing of the time it needs.
    pub(super) fn end(&self, header: &Header) {
        self.give_back(header, Estimate::leave);
        self.arm(NEVER);
    }

    /// Wakes it for its next attempt at `at`, or before if a deadline is nearer.
    pub(super) fn await_retry(&self, header: &Header, at: u64) {
        self.retry_at.store(at.max(1), Ordering::Relaxed);
        regain_leaked(header);
        header.pause();
        self.arm(self.deadline().map_or(at, |deadline| deadline.min(at)));
    }

    /// Back to the deadlines alone.
    pub(super) fn retried(&self, header: &Header) {
        if let Some(extra) = header.extra() {
            header.go_on(extra);
        }
        self.retry_at.store(0, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(self.deadline().unwrap_or(NEVER));
    }

    /// Whether the visit is measured: it counts with the phase's estimator of the locality where it began.
    pub(crate) fn is_measured(&self) -> bool {
        self.ticket.load(Ordering::Relaxed) != 0
    }

    /// Takes its timer out of the wheel of the locality that it leaves: when it was due.
    pub(crate) fn take_out(&self, timers: &mut Timers) -> Option<u64> {
        let at = self.timer.at();
        timers.disarm(&self.timer);
        at
    }

    /// Puts its timer into the wheel of the locality that it comes to.
    pub(crate) fn put_in(&self, timers: &mut Timers, at: u64) {
        timers.arm(&self.timer, at);
    }

    /// The timer fired: the fom is late in this visit if a deadline of it has passed. Only on the core's thread.
    pub(crate) fn fired(&self, header: &Header, now: u64) {
        if self.deadline.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(header.phase_index() as u8, Ordering::Relaxed);
        } else if self.kept.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(self.kept_by.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.late_of.load(Ordering::Relaxed) != NOT_LATE
    }

    /// The phase whose deadline passed.
    pub(super) fn late_of(&self, header: &Header) -> &'static str {
        let index = self.late_of.load(Ordering::Relaxed);
        header
            .graph()
            .phases()
            .get(usize::from(index))
            .map_or("", PhaseInfo::name)
    }

    /// The visit has failed, and the function runs that says where to go then: without any deadline, as the late function. One that
    /// an earlier phase keeps goes on after it.
    pub(super) fn failed(&self, header: &Header) {
        self.give_back(header, Estimate::leave);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.retry_at.store(0, Ordering::Relaxed);
        self.deadline.store(NEVER, Ordering::Relaxed);
        regain_leaked(header);
        self.arm(NEVER);
    }

    /// The lateness was taken notice of: the late function runs without any deadline. One that an earlier phase keeps and
    /// that has not passed goes on after it.
    pub(super) fn clear_late(&self, header: &Header, now: u64) {
        let own = usize::from(self.late_of.load(Ordering::Relaxed)) == header.phase_index();
        self.give_back(header, |estimate, ticket| {
            if own {
                estimate.late(ticket, now);
            } else {
                estimate.leave(ticket);
            }
        });
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        if let Some(extra) = header.extra() {
            header.go_on(extra);
        }
        self.retry_at.store(0, Ordering::Relaxed);
        self.deadline.store(NEVER, Ordering::Relaxed);
        if self.kept.load(Ordering::Relaxed) <= now {
            self.kept.store(NEVER, Ordering::Relaxed);
        }
    }
}
