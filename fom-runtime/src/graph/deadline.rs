//! The deadline of a phase, and after which time in the phase a fom counts as hung.

use std::time::Duration;

/// The limits of the time of a phase with `within = "adaptive"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Adaptive {
    /// The shortest time.
    pub floor: Duration,
    /// The longest time.
    pub ceiling: Duration,
}

/// The deadline of a phase.
///
/// The functions that take and return `Self` build a deadline. Generated code calls them.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    within: Within,
    /// The name of the constant with the longest stay.
    name: Option<&'static str>,
    late: bool,
    pub(super) keep: &'static [u16],
    hung: Hung,
}

/// After which time in a phase a fom counts as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hung {
    /// The phase has no key `hung`: after a time that follows from the times of earlier foms.
    Measured,
    /// After this time.
    After(Duration),
    /// After no time.
    Never,
}

/// The longest stay in a phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Within {
    Any,
    Fixed(u64),
    /// Floor and ceiling.
    Adaptive(u64, u64),
    /// A function of the phase says it at run time.
    Asked,
}

impl Deadline {
    /// Returns the longest stay in the phase. For an adaptive phase this is the ceiling. Returns `None` if a function of the
    /// phase says it at run time.
    #[must_use]
    pub const fn within(&self) -> Option<Duration> {
        match self.within {
            Within::Any | Within::Asked => None,
            Within::Fixed(nanos) | Within::Adaptive(_, nanos) => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the limits of the longest stay, if it is adaptive.
    #[must_use]
    pub const fn adaptive(&self) -> Option<Adaptive> {
        match self.within {
            Within::Adaptive(floor, ceiling) => Some(Adaptive {
                floor: Duration::from_nanos(floor),
                ceiling: Duration::from_nanos(ceiling),
            }),
            Within::Any | Within::Fixed(_) | Within::Asked => None,
        }
    }

    /// Whether a function of the phase says at run time how long a fom may stay.
    #[must_use]
    pub const fn is_asked(&self) -> bool {
        matches!(self.within, Within::Asked)
    }

    /// Returns the name of the constant that `within(PATH)` names, as it is written there, or of the function.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        self.name
    }

    /// Whether a missed deadline runs the phase's second function.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// Returns after which time in the phase a fom counts as hung. Nothing else than a warning follows from it.
    #[must_use]
    pub const fn hung(&self) -> Hung {
        self.hung
    }

    /// Returns the indexes of the phases in which the deadline goes on. [`Graph::kept_in`](super::Graph::kept_in) returns the phases.
    #[must_use]
    pub const fn kept_in_indexes(&self) -> &'static [u16] {
        self.keep
    }
}

/// For generated code only.
#[doc(hidden)]
impl Deadline {
    /// Returns no deadline.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "generated code builds constants"
    )]
    pub const fn new() -> Self {
        Self {
            within: Within::Any,
            name: None,
            late: false,
            keep: &[],
            hung: Hung::Measured,
        }
    }

    /// Sets the longest stay in this phase.
    #[must_use]
    pub const fn within_nanos(mut self, nanos: u64) -> Self {
        self.within = Within::Fixed(nanos);
        self
    }

    /// Sets a longest stay that follows the time of earlier visits, between these limits.
    #[must_use]
    pub const fn within_adaptive(mut self, floor_nanos: u64, ceiling_nanos: u64) -> Self {
        self.within = Within::Adaptive(floor_nanos, ceiling_nanos);
        self
    }

    /// Sets the longest stay to a constant with this name.
    #[must_use]
    pub const fn within_constant(mut self, time: Duration, name: &'static str) -> Self {
        assert!(
            !time.is_zero(),
            "the time limit is zero; write a longer one"
        );
        assert!(
            time.as_nanos() <= u64::MAX as u128,
            "the time limit is too long; write at most 584 years"
        );
        self.within = Within::Fixed(time.as_nanos() as u64);
        self.name = Some(name);
        self
    }

    /// Lets the function with this name say the longest stay.
    #[must_use]
    pub const fn within_asked(mut self, name: &'static str) -> Self {
        self.within = Within::Asked;
        self.name = Some(name);
        self
    }

    /// Runs the phase's second function at a missed deadline, instead of a failure of the operation.
    #[must_use]
    pub const fn late(mut self) -> Self {
        self.late = true;
        self
    }

    /// Sets the phases in which the deadline goes on: indexes of phases.
    #[must_use]
    pub const fn keep(mut self, phases: &'static [u16]) -> Self {
        self.keep = phases;
        self
    }

    /// Sets the time after which a fom in this phase counts as hung.
    #[must_use]
    pub const fn hung_after(mut self, nanos: u64) -> Self {
        self.hung = Hung::After(Duration::from_nanos(nanos));
        self
    }

    /// Lets a fom stay in this phase for any time.
    #[must_use]
    pub const fn never_hung(mut self) -> Self {
        self.hung = Hung::Never;
        self
    }
}
