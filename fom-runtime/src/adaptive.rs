//! The estimator of `within = "adaptive"`: how long the next visit of a phase may take, from what earlier visits took.
//!
//! Pure: integers in, integers out, no clock, no allocation. There is one for each locality, operation type and phase,
//! and only the handler of that locality touches it.
//!
//! # The rule
//!
//! | | |
//! | --- | --- |
//! | measured | an answered visit: the time from entering the phase to leaving it by its function, waiting included, and how many visits were under way when it began |
//! | kept | the worst time and the greatest load of a window: one to two ceilings long, and never less than 32 answered visits |
//! | estimate | twice the worst time; for more visits under way than the greatest load, as many times more; between floor and ceiling |
//! | before 32 answered visits | the ceiling |
//! | a late visit | measures nothing; but as long as the window has one, the next visit and then one in eight, drawn by lot, has the ceiling as its time (a *probe*): at most eight visits at a time, or one in eight of those under way |
//!
//! # Where it comes from, and why it is not quite that
//!
//! *The window* is Lustre's: `at_measured` keeps the worst service time of the last `at_history` (600 s, as is `at_max`),
//! and grants 125 % of it and 5 s between `at_min` and `at_max`. A worst case suits us better than the smoothed mean and
//! four deviations of RFC 6298 (Jacobson and Karels): there a time-out that comes too early is one packet more, here it
//! is an operation that failed, and with an exponential tail that rule is too early for several visits in a hundred.
//! Whatever the distribution, the next of `n` exceeds the worst of the others with a chance of 1 in `n`; twice the worst,
//! hardly. (Two, because it is the back-off of RFC 6298; Lustre's fixed 5 s fit only services of seconds.) All of the
//! window and its second half are all the state that it needs.
//!
//! *The load.* Times include the waiting, so the worst of them holds for the load under which it was measured. Beyond it,
//! in a queue that is served in turn, the time grows with those in front at most. So a burst has what it needs from its
//! first visit on, before any of it was answered. When nobody is answered at all (eight late visits, no answer between)
//! those under way are no queue that moves, and say nothing.
//!
//! *Late visits.* Nobody knows whether a late one was slow or lost. RFC 6298 has Karn's rule for that: what is ambiguous is
//! no sample; and doubles the time-out instead. Doubling, or taking the time-out for a sample as Lustre does, is wrong
//! here in the other direction: with one visit in a thousand lost, the estimate goes to the ceiling and stays there.
//! Probes take both apart: they see how long an answer takes that is slow, at once and however slow it became, and cost
//! a late detection for few. A visit that was tried again (`retry`) is not ambiguous, since its time counts from entering.
//!
//! `simulation` compares these choices; the book has its table.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::num::NonZeroU16;

/// Answered visits that a half of the window needs, and the first estimate.
const ENOUGH: u32 = 32;
/// What is granted for each nanosecond of the worst visit.
const MARGIN: u64 = 2;
/// One visit in so many is a probe, after a late one.
const PROBE_ONE_IN: u32 = 8;
/// So many late visits without an answer between: nothing moves.
const SILENCE: u32 = 8;

/// What is known of one phase in one locality. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Estimator {
    floor: u64,
    ceiling: u64,
    /// What a visit may take under a load that was measured.
    time: u64,
    /// All of the window: the half before, if there was one, and the half of now.
    window: Measured,
    /// The half of now, which becomes the half before.
    half: Measured,
    /// When that half began.
    begun: u64,
    /// Visits under way.
    load: u32,
    /// Of these with the ceiling as their time.
    probes: u32,
    /// The first visit after a late one is a probe.
    probe_next: bool,
    /// For those after it: drawn, not counted, so that visits which repeat in a pattern cannot pass between them.
    dice: u32,
    /// Late visits since the last answer.
    unanswered: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    worst: u64,
    load: u32,
    answered: u32,
    late: bool,
}

impl Measured {
    fn answered(&mut self, took: u64, load: u32) {
        self.worst = self.worst.max(took);
        self.load = self.load.max(load);
        self.answered = self.answered.saturating_add(1);
    }
}

/// What a visit keeps until it leaves the phase: the load that it met, and whether it is a probe. Two bytes, as each fom
/// has room for one: a load of more than 1,023 is kept with eleven digits, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(NonZeroU16);

impl Ticket {
    const PROBE: u16 = 1 << 15;
    const DIGITS: u32 = 10;
    /// Of a visit that began elsewhere: it counts as load, and measures nothing.
    const PARTIAL: Self = Self(NonZeroU16::MAX);

    fn new(load: u32, probe: bool) -> Self {
        let load = load.max(1);
        let shift = (u32::BITS - load.leading_zeros()).saturating_sub(Self::DIGITS + 1);
        // The highest digit of what is shifted counts as one more shift, as in a floating-point number.
        let bits = (shift << Self::DIGITS) as u16 + (load >> shift) as u16;
        let bits = if probe { bits | Self::PROBE } else { bits };
        Self(NonZeroU16::new(bits).unwrap_or(NonZeroU16::MIN))
    }

    /// As a plain number; 0 is for no ticket.
    pub(crate) fn bits(self) -> u16 {
        self.0.get()
    }

    pub(crate) fn from_bits(bits: u16) -> Option<Self> {
        NonZeroU16::new(bits).map(Self)
    }

    fn load(self) -> u32 {
        let bits = u32::from(self.bits() & !Self::PROBE);
        let shift = (bits >> Self::DIGITS).saturating_sub(1);
        (bits - (shift << Self::DIGITS)) << shift
    }

    fn is_probe(self) -> bool {
        self != Self::PARTIAL && self.bits() & Self::PROBE != 0
    }
}

impl Estimator {
    /// For times between `floor` and `ceiling`, the first window beginning at `now`.
    pub(crate) fn new(floor: u64, ceiling: u64, now: u64) -> Self {
        let ceiling = ceiling.max(floor);
        Self {
            floor,
            ceiling,
            time: ceiling,
            window: Measured::default(),
            half: Measured::default(),
            begun: now,
            load: 0,
            probes: 0,
            probe_next: false,
            dice: 1,
            unanswered: 0,
        }
    }

    /// A visit begins: what it has to give back, and how long it may take.
    pub(crate) fn enter(&mut self) -> (Ticket, u64) {
        self.load = self.load.saturating_add(1);
        let time = if self.window.late && self.draws_probe() {
            self.ceiling
        } else {
            self.estimate(self.load)
        };
        let probe = time == self.ceiling;
        self.probes += u32::from(probe);
        (Ticket::new(self.load, probe), time)
    }

    /// A visit goes on that began before it was saved; its time is what was left.
    pub(crate) fn resume(&mut self) -> Ticket {
        self.load = self.load.saturating_add(1);
        Ticket::PARTIAL
    }

    /// The visit was left by the phase's function, after `took`.
    pub(crate) fn answered(&mut self, ticket: Ticket, took: u64, now: u64) {
        self.leave(ticket);
        self.unanswered = 0;
        if ticket == Ticket::PARTIAL {
            return;
        }
        self.turn_over(now);
        let worst = self.window.worst;
        self.window.answered(took, ticket.load());
        self.half.answered(took, ticket.load());
        if took > worst || self.window.answered == ENOUGH {
            self.renew();
        }
    }

    /// The visit's time passed.
    pub(crate) fn late(&mut self, ticket: Ticket, now: u64) {
        self.leave(ticket);
        if ticket == Ticket::PARTIAL {
            return;
        }
        self.turn_over(now);
        self.unanswered = self.unanswered.saturating_add(1);
        self.probe_next |= !self.window.late;
        self.window.late = true;
        self.half.late = true;
    }

    /// The visit ended in another way, such as an error or a cancel, which says nothing of the time it needs.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.load = self.load.saturating_sub(1);
        self.probes = self.probes.saturating_sub(ticket.is_probe().into());
    }

    /// What a visit may take, if it is no probe and no more are under way than were measured.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// What a visit may take that makes `load` of those under way, itself included.
    fn estimate(&self, load: u32) -> u64 {
        let known = self.window.load;
        if load <= known || self.unanswered >= SILENCE || self.window.answered < ENOUGH {
            return self.time;
        }
        let scaled = u128::from(self.likely()) * u128::from(load) / u128::from(known.max(1));
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.clamp(self.floor, self.ceiling)
    }

    fn likely(&self) -> u64 {
        self.window.worst.saturating_mul(MARGIN)
    }

    /// What was measured has changed.
    fn renew(&mut self) {
        if self.window.answered >= ENOUGH {
            self.time = self.likely().clamp(self.floor, self.ceiling);
        }
    }

    fn draws_probe(&mut self) -> bool {
        // The multiplier and the summand of Numerical Recipes' generator, whose upper bits are good enough.
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        let drawn = self.probe_next || self.dice < u32::MAX / PROBE_ONE_IN;
        let probe = drawn && self.probes < PROBE_ONE_IN.max(self.load / PROBE_ONE_IN);
        self.probe_next &= !probe;
        probe
    }

    /// Begins the next half when this one is long and full enough.
    fn turn_over(&mut self, now: u64) {
        if self.half.answered >= ENOUGH && now.saturating_sub(self.begun) >= self.ceiling {
            self.window = std::mem::take(&mut self.half);
            self.begun = now;
            self.renew();
        }
    }
}
