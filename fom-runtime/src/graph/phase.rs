//! One phase of a graph, with its exits, its deadline and its retries.

use std::time::Duration;

/// How the function of a phase runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// An `async fn`, which gives the thread back at each await.
    Async,
    /// A plain `fn` that does not wait. With `on(..)` it runs when an event has arrived.
    Sync,
    /// A plain `fn` that may block. It runs beside its locality, between enter-block and leave-block.
    Blocking,
    /// No function: the operation ends here.
    End,
}

/// How often a phase is tried again, and after which waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Retry {
    /// The number of attempts after the first one. Zero if a function of the phase says all of this at run time.
    pub times: u32,
    /// The wait before the first retry. Each later wait is twice as long.
    pub min: Duration,
    /// The longest wait.
    pub max: Duration,
    /// Whether the phase has a function for the case that its attempts are used up.
    pub exhausted: bool,
    /// The name of the constant that says so, if the phase has `retry(PATH)`, or of the function.
    pub name: Option<&'static str>,
}

impl Retry {
    /// Returns this number of retries, with waits from `min` to `max`. It is for a constant that `retry(PATH)` names:
    ///
    /// ```
    /// use std::time::Duration;
    /// use fom_runtime::machine::Retry;
    ///
    /// const PATIENT: Retry = Retry::new(5, Duration::from_millis(100), Duration::from_secs(10));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there are no retries, if `min` is zero, or if `min` is longer than `max`. In a constant, such a panic
    /// is an error of the compiler.
    #[must_use]
    pub const fn new(times: u32, min: Duration, max: Duration) -> Self {
        assert!(times > 0, "there are 0 retries; remove `retry`");
        assert!(
            !min.is_zero(),
            "the first pause is zero; write a longer one"
        );
        assert!(
            min.as_nanos() <= max.as_nanos(),
            "the first pause is longer than the longest; swap the two"
        );
        assert!(
            max.as_nanos() <= u64::MAX as u128,
            "the longest pause is too long; write at most 584 years"
        );
        Self {
            times,
            min,
            max,
            exhausted: false,
            name: None,
        }
    }
}

/// The limits of the time of a phase with `within = "adaptive"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Adaptive {
    /// The shortest time.
    pub floor: Duration,
    /// The longest time.
    pub ceiling: Duration,
}

/// One phase of a [`Graph`](super::Graph).
///
/// The functions that take and return `Self` build a phase. Generated code calls them.
#[derive(Clone, Copy, Debug)]
pub struct PhaseInfo {
    pub(super) name: &'static str,
    pub(super) docs: &'static str,
    pub(super) mode: Mode,
    pub(super) start: bool,
    pub(super) failure: bool,
    pub(super) exits: Exits,
    pub(super) deadline: Deadline,
    pub(super) retry: Option<Retry>,
    pub(super) on: &'static [&'static str],
    pub(super) gate: Option<&'static str>,
    pub(super) saved: SavedNames,
    /// Only in a layer's own graph: the phases inside replace this phase. The value says whether the layer goes on
    /// where they end.
    pub(super) inner: Option<bool>,
}

/// The exits of a phase, as indexes of phases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exits {
    pub(super) all: &'static [u16],
    /// The exits after a failure, a part of `all`. The first `plain` of `all` are the exits without a failure.
    pub(super) failed: &'static [u16],
    pub(super) plain: u16,
    /// The names of the first of `all`. An edge without a name has an empty one.
    pub(super) names: &'static [&'static str],
    /// The number of functions that can choose an exit after a failure: its own, and those of the layers around it.
    pub(super) ways_out: u8,
    /// Whether a cancel takes the way out, too.
    pub(super) cancelled: bool,
}

/// The names by which a saved fom finds a phase and its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedNames {
    pub(super) fields: &'static [&'static str],
    /// The names that the phase had in earlier releases.
    pub(super) was: &'static [&'static str],
    /// Whether the function of the phase takes the data away.
    pub(super) taken: bool,
}

/// The deadline of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    within: Within,
    /// The name of the constant with the longest stay.
    name: Option<&'static str>,
    late: bool,
    pub(super) keep: &'static [u16],
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

    /// Returns the indexes of the phases in which the deadline goes on. [`Graph::kept_in`](super::Graph::kept_in) returns the phases.
    #[must_use]
    pub const fn kept_in_indexes(&self) -> &'static [u16] {
        self.keep
    }
}

/// For generated code only.
#[doc(hidden)]
impl PhaseInfo {
    const fn new(name: &'static str, docs: &'static str, mode: Mode) -> Self {
        Self {
            name,
            docs,
            mode,
            start: false,
            failure: false,
            exits: Exits {
                all: &[],
                failed: &[],
                plain: 0,
                names: &[],
                ways_out: 0,
                cancelled: false,
            },
            deadline: Deadline {
                within: Within::Any,
                name: None,
                late: false,
                keep: &[],
            },
            retry: None,
            on: &[],
            gate: None,
            saved: SavedNames {
                fields: &[],
                was: &[],
                taken: false,
            },
            inner: None,
        }
    }

    /// Returns a phase with an `async fn`.
    #[must_use]
    pub const fn asynchronous(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Async)
    }

    /// Returns a phase with a plain `fn` that does not wait.
    #[must_use]
    pub const fn synchronous(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Sync)
    }

    /// Returns a phase with a plain `fn` that may block.
    #[must_use]
    pub const fn blocking(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Blocking)
    }

    /// Returns a phase in which the operation ends.
    #[must_use]
    pub const fn end(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::End)
    }

    /// Sets the exits: indexes of phases.
    #[must_use]
    pub const fn to(mut self, exits: &'static [u16]) -> Self {
        self.exits.all = exits;
        self.exits.plain = exits.len() as u16;
        self
    }

    /// Sets the names of the edges to the exits passed to [`to`](Self::to). An edge without a name has an empty one.
    #[must_use]
    pub const fn edges(mut self, names: &'static [&'static str]) -> Self {
        self.exits.names = names;
        self
    }

    /// Sets the exits after a failure, and all exits: indexes of phases. `all` begins with the exits passed to
    /// [`to`](Self::to), which must be called before, and continues with the rest.
    #[must_use]
    pub const fn failed(mut self, exits: &'static [u16], all: &'static [u16]) -> Self {
        self.exits.failed = exits;
        self.exits.all = all;
        self.exits.ways_out = 1;
        self
    }

    /// Makes a cancel take the exits that [`failed`](Self::failed) has set.
    #[must_use]
    pub const fn cancelled(mut self) -> Self {
        self.exits.cancelled = true;
        self
    }

    /// Makes this phase the start of the operation.
    #[must_use]
    pub const fn start(mut self) -> Self {
        self.start = true;
        self
    }

    /// Makes an end in this phase a failure.
    #[must_use]
    pub const fn failure(mut self) -> Self {
        self.failure = true;
        self
    }

    /// Only for a layer: the phases of the operation inside replace this phase. The layer goes on where they end, or
    /// ends there.
    #[must_use]
    pub const fn inner(mut self, goes_on: bool) -> Self {
        self.inner = Some(goes_on);
        self
    }

    /// Runs the phase's second function at a missed deadline, instead of a failure of the operation.
    #[must_use]
    pub const fn late(mut self) -> Self {
        self.deadline.late = true;
        self
    }

    /// Gives the phase a function for the case that its attempts are used up. [`retry`](Self::retry) must be called
    /// before.
    #[must_use]
    pub const fn exhausted(mut self) -> Self {
        if let Some(retry) = &mut self.retry {
            retry.exhausted = true;
        }
        self
    }

    /// Sets the longest stay in this phase.
    #[must_use]
    pub const fn within_nanos(mut self, nanos: u64) -> Self {
        self.deadline.within = Within::Fixed(nanos);
        self
    }

    /// Lets the function with this name say the longest stay.
    #[must_use]
    pub const fn within_asked(mut self, name: &'static str) -> Self {
        self.deadline.within = Within::Asked;
        self.deadline.name = Some(name);
        self
    }

    /// Lets the function with this name say the retries.
    #[must_use]
    pub const fn retry_asked(mut self, name: &'static str) -> Self {
        self.retry = Some(Retry {
            times: 0,
            min: Duration::ZERO,
            max: Duration::ZERO,
            exhausted: false,
            name: Some(name),
        });
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
        self.deadline.within = Within::Fixed(time.as_nanos() as u64);
        self.deadline.name = Some(name);
        self
    }

    /// Sets a longest stay that follows the time of earlier visits, between these limits.
    #[must_use]
    pub const fn within_adaptive(mut self, floor_nanos: u64, ceiling_nanos: u64) -> Self {
        self.deadline.within = Within::Adaptive(floor_nanos, ceiling_nanos);
        self
    }

    /// Sets the names of the events that the phase takes.
    #[must_use]
    pub const fn on(mut self, events: &'static [&'static str]) -> Self {
        self.on = events;
        self
    }

    /// Sets the number of retries, and the shortest and longest wait between them.
    #[must_use]
    pub const fn retry(mut self, times: u32, min_nanos: u64, max_nanos: u64) -> Self {
        self.retry = Some(Retry {
            times,
            min: Duration::from_nanos(min_nanos),
            max: Duration::from_nanos(max_nanos),
            exhausted: false,
            name: None,
        });
        self
    }

    /// Sets the retries to a constant with this name.
    #[must_use]
    pub const fn retry_constant(mut self, mut retry: Retry, name: &'static str) -> Self {
        retry.name = Some(name);
        self.retry = Some(retry);
        self
    }

    /// Sets the phases in which the deadline goes on: indexes of phases.
    #[must_use]
    pub const fn keep(mut self, phases: &'static [u16]) -> Self {
        self.deadline.keep = phases;
        self
    }

    /// Sets the names that the phase had in earlier releases.
    #[must_use]
    pub const fn formerly(mut self, names: &'static [&'static str]) -> Self {
        self.saved.was = names;
        self
    }

    /// Gives the phase a gate. Drawings show the note.
    #[must_use]
    pub const fn gated(mut self, note: &'static str) -> Self {
        self.gate = Some(note);
        self
    }

    /// Gives the data of the phase to its function, which takes them away.
    #[must_use]
    pub const fn taken(mut self) -> Self {
        self.saved.taken = true;
        self
    }

    /// Sets the names of the phase's fields.
    #[must_use]
    pub const fn with(mut self, fields: &'static [&'static str]) -> Self {
        self.saved.fields = fields;
        self
    }
}

impl PhaseInfo {
    /// Returns the name of the phase, which is the name of the variant.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the doc comment of the phase.
    #[must_use]
    pub const fn docs(&self) -> &'static str {
        self.docs
    }

    /// Returns the names that the phase had in earlier releases.
    #[must_use]
    pub const fn was(&self) -> &'static [&'static str] {
        self.saved.was
    }

    /// Returns the names of the phase's fields, in the order of their declaration.
    #[must_use]
    pub const fn fields(&self) -> &'static [&'static str] {
        self.saved.fields
    }

    /// Returns how the function of the phase runs.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the operation starts here.
    #[must_use]
    pub const fn is_start(&self) -> bool {
        self.start
    }

    /// Whether the operation ends here.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self.mode, Mode::End)
    }

    /// Whether an end in this phase is a failure.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.failure
    }

    /// Whether the phases inside a layer replace this phase. No phase of a whole graph is such a phase.
    pub(crate) const fn is_inner(&self) -> bool {
        self.inner.is_some()
    }

    /// Whether the function of the phase takes the data away.
    pub(crate) const fn gives_data(&self) -> bool {
        self.saved.taken
    }

    /// Whether the phase has a [gate](crate::extension::Gate), which opens before its function runs.
    #[must_use]
    pub const fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Whether the phase is the wait for an event: a plain function that runs when an event has arrived.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self.mode, Mode::Sync) && !self.on.is_empty()
    }

    /// Returns the deadline of the phase.
    #[must_use]
    pub const fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Returns the names of the events that the phase takes.
    #[must_use]
    pub const fn takes(&self) -> &'static [&'static str] {
        self.on
    }

    /// Returns how the phase is tried again, if it has retries.
    #[must_use]
    pub const fn retries(&self) -> Option<Retry> {
        self.retry
    }

    /// Returns the indexes of the phases that this phase can go to. [`Graph::exits`](super::Graph::exits) returns the phases.
    #[must_use]
    pub const fn exit_indexes(&self) -> &'static [u16] {
        self.exits.all
    }

    /// Returns the part of [`exit_indexes`](Self::exit_indexes) that the phase can take after a failure.
    /// [`Graph::failure_exits`](super::Graph::failure_exits) returns the phases.
    #[must_use]
    pub const fn failure_exit_indexes(&self) -> &'static [u16] {
        self.exits.failed
    }

    /// Returns the number of functions that can choose an exit after a failure.
    pub(crate) const fn ways_out(&self) -> u8 {
        self.exits.ways_out
    }

    /// Returns whether a cancel in this phase is a transition, as a failure is.
    pub const fn hears_cancel(&self) -> bool {
        self.exits.cancelled
    }
}
