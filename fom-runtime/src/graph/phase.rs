//! One phase of a graph, with its exits and its retries.

use std::time::Duration;

use super::Deadline;

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
    /// A function of the phase says the retries at run time. For generated code only.
    #[doc(hidden)]
    pub const ASKED: Self = Self {
        times: 0,
        min: Duration::ZERO,
        max: Duration::ZERO,
        exhausted: false,
        name: None,
    };

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
    pub(crate) exits: Exits,
    pub(super) deadline: Deadline,
    pub(super) retry: Option<Retry>,
    pub(super) on: &'static [&'static str],
    pub(super) gate: Option<&'static str>,
    pub(crate) saved: SavedNames,
    /// Only in a layer's own graph: the phases inside replace this phase. The value says whether the layer goes on
    /// where they end.
    pub(super) inner: Option<bool>,
}

/// The exits of a phase, as indexes of phases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exits {
    pub(super) all: &'static [u16],
    /// The exits after a failure, a part of `all`. The first `plain` of `all` are the exits without a failure.
    pub(super) failed: &'static [u16],
    pub(super) plain: u16,
    /// The names of the first of `all`. An edge without a name has an empty one.
    pub(super) names: &'static [&'static str],
    /// The number of functions that can choose an exit after a failure: its own, and those of the layers around it.
    pub(crate) ways_out: u8,
    /// What a cancel does.
    pub(crate) on_cancel: OnCancel,
}

/// What a cancel does in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// The operation ends.
    Ends,
    /// The phase takes its way out: `cancelled`.
    TurnsBack,
    /// The phase goes on, and a later phase hears the cancel: `cancelled = "later"`.
    Waits,
}

impl OnCancel {
    /// Returns what a cancel does in a phase of an inner operation. `around`: what the layer declares there.
    pub(super) const fn inside(self, around: Self) -> Self {
        match self {
            Self::Ends => around,
            own => own,
        }
    }
}

/// The names by which a saved fom finds a phase and its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedNames {
    pub(super) fields: &'static [&'static str],
    /// The names that the phase had in earlier releases.
    pub(super) was: &'static [&'static str],
    /// Whether the function of the phase takes the data away.
    pub(crate) taken: bool,
}

const fn phase(name: &'static str, docs: &'static str, mode: Mode) -> PhaseInfo {
    PhaseInfo {
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
            on_cancel: OnCancel::Ends,
        },
        deadline: Deadline::new(),
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

/// For generated code only.
#[doc(hidden)]
impl PhaseInfo {
    /// Returns a phase with an `async fn`.
    #[must_use]
    pub const fn asynchronous(name: &'static str, docs: &'static str) -> Self {
        phase(name, docs, Mode::Async)
    }

    /// Returns a phase with a plain `fn` that does not wait.
    #[must_use]
    pub const fn synchronous(name: &'static str, docs: &'static str) -> Self {
        phase(name, docs, Mode::Sync)
    }

    /// Returns a phase with a plain `fn` that may block.
    #[must_use]
    pub const fn blocking(name: &'static str, docs: &'static str) -> Self {
        phase(name, docs, Mode::Blocking)
    }

    /// Returns a phase in which the operation ends.
    #[must_use]
    pub const fn end(name: &'static str, docs: &'static str) -> Self {
        phase(name, docs, Mode::End)
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
        self.exits.on_cancel = OnCancel::TurnsBack;
        self
    }

    /// Makes a cancel wait until the phase is left.
    #[must_use]
    pub const fn cancelled_later(mut self) -> Self {
        self.exits.on_cancel = OnCancel::Waits;
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

    /// Only for a layer: the phases of the inner operation replace this phase. The layer goes on where they end, or
    /// ends there.
    #[must_use]
    pub const fn inner(mut self, goes_on: bool) -> Self {
        self.inner = Some(goes_on);
        self
    }

    /// Sets the longest stay in this phase, as a [`timed`](Self::timed) with nothing else does.
    #[must_use]
    pub const fn within_nanos(self, nanos: u64) -> Self {
        self.timed(Deadline::new().within_nanos(nanos))
    }

    /// Sets the deadline, and after which time a fom counts as hung.
    #[must_use]
    pub const fn timed(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
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

    /// Sets the retries to a constant with this name, or to those of a function with this name: [`Retry::ASKED`].
    #[must_use]
    pub const fn retry_named(mut self, mut retry: Retry, name: &'static str) -> Self {
        retry.name = Some(name);
        self.retry = Some(retry);
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

    /// Returns whether a cancel in this phase is a transition, as a failure is.
    #[must_use]
    pub const fn hears_cancel(&self) -> bool {
        matches!(self.exits.on_cancel, OnCancel::TurnsBack)
    }

    /// Returns whether a cancel in this phase waits until the phase is left.
    #[must_use]
    pub const fn delays_cancel(&self) -> bool {
        matches!(self.exits.on_cancel, OnCancel::Waits)
    }
}
