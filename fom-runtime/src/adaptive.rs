//! The estimator of `within = "adaptive"`: predicts how long the next visit of a phase may take, from earlier visits.
//!
//! The estimator is pure: integers in, integers out, no clock, no allocation. Each locality, operation type and phase
//! has its own. Only the handler of that locality touches it.
//!
//! # The rule
//!
//! | | |
//! | --- | --- |
//! | measured | a visit that the function of the phase ended (an *answered* visit): its time, waiting included. Also the number of visits in progress when it began, the *load* |
//! | kept | the worst time and the greatest load of a window: one to two ceilings long, and never less than 32 answered visits |
//! | estimate | twice the worst time; if more visits are in progress than the greatest load, as many times more; between floor and ceiling |
//! | before 32 answered visits | the ceiling |
//! | a late visit | measures nothing. While the window has a late visit, some visits get the ceiling (*probes*): the next one, and then one in eight, drawn at random. At most eight probes run at a time, or one in eight of the visits in progress |
//!
//! # Where it comes from, and why it is not quite that
//!
//! *The window* is Lustre's: `at_measured` keeps the worst service time of the last `at_history` (600 s, as is
//! `at_max`). Lustre grants 125 % of it plus 5 s, between `at_min` and `at_max`. RFC 6298 (Jacobson and Karels) grants
//! the smoothed mean plus four deviations, but a worst case suits us better. In RFC 6298, a time-out that comes too
//! early costs one more packet. Here it fails an operation, and with an exponential tail that rule is too early for
//! several visits in a hundred. For any distribution, the next of `n` visits exceeds the worst of the others with a
//! chance of 1 in `n`. It hardly ever exceeds twice the worst. (The factor of two is the back-off of RFC 6298. Lustre's
//! fixed 5 s fit only services that take seconds.) The whole window and its second half are all the state that the
//! estimator needs.
//!
//! *The load.* Measured times include waiting, so the worst time holds for the load under which it was measured. Beyond
//! that load, in a queue that is served in turn, the time grows at most with the visits in front. So a burst gets
//! enough time from its first visit on, before any of its visits is answered. If there are no answers at all (eight
//! late visits, no answer between), the visits in progress are not a moving queue. Then their number says nothing.
//!
//! *Late visits.* It is not known whether a late visit was slow or lost. RFC 6298 has Karn's rule for this case: an
//! ambiguous time is not a sample, and the time-out doubles instead. Here, doubling is wrong in the other direction,
//! and so is taking the time-out as a sample, as Lustre does. With one visit in a thousand lost, the estimate goes to
//! the ceiling and stays there. Probes tell the two apart. They see how long a slow answer takes, at once and however
//! slow it became, and delay the detection of only a few late visits. A visit that was tried again (`retry`) is not
//! ambiguous, since its time counts from entering.
//!
//! `simulation` compares these choices; the book has its table.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::num::NonZeroU16;

/// Answered visits that half a window needs, and the first estimate.
const ENOUGH: u32 = 32;
/// The factor of the worst time.
const MARGIN: u64 = 2;
/// After a late visit, one visit in this many is a probe.
const PROBE_ONE_IN: u32 = 8;
/// After this many late visits without an answer between, the queue does not move.
const SILENCE: u32 = 8;

/// The knowledge about one phase in one locality. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Estimator {
    floor: u64,
    ceiling: u64,
    /// The time that a visit may take under a measured load.
    time: u64,
    /// The whole window: the previous half, if there was one, and the current half.
    window: Measured,
    /// The current half, which becomes the previous half.
    half: Measured,
    /// The start of the current half.
    begun: u64,
    /// Visits under way.
    load: u32,
    /// Of these, visits that got the ceiling.
    probes: u32,
    /// Whether the next visit is a probe: the first after a late visit.
    probe_next: bool,
    /// The random state for later probes. They are drawn, not counted, so that visits in a repeated pattern cannot pass
    /// between them.
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

/// What a visit keeps until it leaves the phase: the load that it met, and whether it is a probe. Each fom has room for
/// one ticket, so it takes two bytes: of the load, it keeps the eleven highest binary digits, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(NonZeroU16);

impl Ticket {
    const PROBE: u16 = 1 << 15;
    const DIGITS: u32 = 10;
    /// The ticket of a visit that began elsewhere. The visit counts as load, and measures nothing.
    const PARTIAL: Self = Self(NonZeroU16::MAX);

    fn new(load: u32, probe: bool) -> Self {
        let load = load.max(1);
        let shift = (u32::BITS - load.leading_zeros()).saturating_sub(Self::DIGITS + 1);
        // The highest digit of the shifted load counts as one more shift, as in a floating-point number.
        let bits = (shift << Self::DIGITS) as u16 + (load >> shift) as u16;
        let bits = if probe { bits | Self::PROBE } else { bits };
        Self(NonZeroU16::new(bits).unwrap_or(NonZeroU16::MIN))
    }

    /// Returns the ticket as a plain number; 0 means no ticket.
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
    /// Returns an estimator for times between `floor` and `ceiling`. The first window begins at `now`.
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

    /// Begins a visit. Returns its ticket, and how long the visit may take.
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

    /// Continues a visit that began before it was saved. The visit has only the rest of its time.
    pub(crate) fn resume(&mut self) -> Ticket {
        self.load = self.load.saturating_add(1);
        Ticket::PARTIAL
    }

    /// Ends a visit that the phase's function left after `took`.
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

    /// Ends a visit that ran out of time.
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

    /// Ends a visit in another way, such as an error or a cancel, which says nothing about the time that it needs.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.load = self.load.saturating_sub(1);
        self.probes = self.probes.saturating_sub(ticket.is_probe().into());
    }

    /// Returns how long a visit may take, if it is not a probe and the load was measured.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Returns how long a visit may take that raises the load to `load`, itself included.
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

    /// Updates the estimate after a new measurement.
    fn renew(&mut self) {
        if self.window.answered >= ENOUGH {
            self.time = self.likely().clamp(self.floor, self.ceiling);
        }
    }

    fn draws_probe(&mut self) -> bool {
        // The multiplier and the increment of Numerical Recipes' generator. Its upper bits are good enough.
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        let drawn = self.probe_next || self.dice < u32::MAX / PROBE_ONE_IN;
        let probe = drawn && self.probes < PROBE_ONE_IN.max(self.load / PROBE_ONE_IN);
        self.probe_next &= !probe;
        probe
    }

    /// Begins the next half if the current one is long and full enough.
    fn turn_over(&mut self, now: u64) {
        if self.half.answered >= ENOUGH && now.saturating_sub(self.begun) >= self.ceiling {
            self.window = std::mem::take(&mut self.half);
            self.begun = now;
            self.renew();
        }
    }
}
