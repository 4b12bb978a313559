//! The graph of an operation: its phases and the edges between them, as constant data.
//!
//! `#[fom]` writes one [`Graph`] per machine. Everything that draws, lists or checks a machine reads only the graph. So
//! a drawing cannot differ from what runs.

mod check;
mod draw;
mod groups;
mod join;
mod json;
mod lanes;
mod renamed;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use join::{Joined, Parts, versions};
use renamed::Around;

/// The phases of an operation and the edges between them.
///
/// # Examples
///
/// Usually `#[fom]` writes the graph, and the program reads it from `Operation::GRAPH`. A graph can also be written by
/// hand:
///
/// ```
/// use fom_runtime::machine::{Graph, PhaseInfo};
///
/// static GRAPH: Graph = Graph::new("Fetch", "FetchPage", "Gets one page.", &[
///     PhaseInfo::asynchronous("Ask", "Ask the server.").to(&[1, 2]).start().within_nanos(2_000_000_000),
///     PhaseInfo::end("Done", ""),
///     PhaseInfo::end("Refused", "").failure(),
/// ]);
///
/// let ask = GRAPH.start().unwrap();
/// let exits: Vec<_> = GRAPH.exits(ask).map(|phase| phase.name()).collect();
/// assert_eq!(exits, ["Done", "Refused"]);
/// println!("{}", GRAPH.drawing());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    name: &'static str,
    operation: &'static str,
    docs: &'static str,
    phases: &'static [PhaseInfo],
    version: u32,
    retired: &'static [&'static str],
    /// Earlier names of the enum of phases; `operation_was` has those of the operation.
    was: &'static [&'static str],
    operation_was: &'static [&'static str],
    /// Only for a layer: the parts of its operation's name, which contains the name of the operation inside.
    around: Option<Around>,
    /// The number of layers around the operation.
    layers: u8,
}

impl Graph {
    /// Returns a graph over `phases`. Indexes of phases are indexes into this slice.
    #[must_use]
    pub const fn new(
        name: &'static str,
        operation: &'static str,
        docs: &'static str,
        phases: &'static [PhaseInfo],
    ) -> Self {
        Self {
            name,
            operation,
            docs,
            phases,
            version: 1,
            retired: &[],
            was: &[],
            operation_was: &[],
            around: None,
            layers: 0,
        }
    }

    /// Sets the version of the saved data, counted from 1.
    #[must_use]
    pub const fn in_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the names of former phases. No phase may have these names again.
    #[must_use]
    pub const fn retiring(mut self, names: &'static [&'static str]) -> Self {
        self.retired = names;
        self
    }

    /// Sets the earlier names of the enum of phases and of the operation's type.
    #[must_use]
    pub const fn renamed(
        mut self,
        names: &'static [&'static str],
        operations: &'static [&'static str],
    ) -> Self {
        self.was = names;
        self.operation_was = operations;
        self
    }

    /// Returns the name of the enum of phases.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the operation's type.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the doc comment of the enum of phases.
    #[must_use]
    pub const fn docs(&self) -> &'static str {
        self.docs
    }

    /// Returns the version of the saved data: `#[fom(version = ..)]`. The default is 1.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the names of former phases. No phase may have these names again.
    #[must_use]
    pub const fn retired(&self) -> &'static [&'static str] {
        self.retired
    }

    /// Returns all phases, in the order of their declaration.
    #[must_use]
    pub const fn phases(&self) -> &'static [PhaseInfo] {
        self.phases
    }

    /// Whether a fom of this graph can need its own timer.
    pub(crate) const fn has_deadlines(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            let phase = &self.phases[index];
            if phase.within().is_some() || phase.retry.is_some() {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase chooses an exit after a failure.
    pub(crate) const fn has_ways_out(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            if self.phases[index].ways_out > 0 {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase takes an event.
    pub(crate) const fn takes_events(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            if !self.phases[index].on.is_empty() {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase has a gate.
    pub(crate) const fn has_gates(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            if self.phases[index].gate.is_some() {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Returns the phase with this index, as from `Operation::index`.
    #[must_use]
    pub fn phase(&self, index: usize) -> Option<&'static PhaseInfo> {
        self.phases.get(index)
    }

    /// Returns the phase with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static PhaseInfo> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// Returns the phase that has or had this name.
    pub(crate) fn find_ever(&self, name: &str) -> Option<&'static PhaseInfo> {
        self.place_ever(name).map(|place| &self.phases[place])
    }

    /// Returns the index of the phase that has or had this name.
    pub(crate) fn place_ever(&self, name: &str) -> Option<usize> {
        let has = |phase: &PhaseInfo| phase.name == name;
        let had = |phase: &PhaseInfo| phase.was.contains(&name);
        let mut phases = self.phases.iter();
        let today = phases.position(has);
        today.or_else(|| self.phases.iter().position(had))
    }

    /// Returns the phase in which the operation starts.
    #[must_use]
    pub fn start(&self) -> Option<&'static PhaseInfo> {
        self.phases.iter().find(|phase| phase.start)
    }

    /// Returns the phases that `phase` can go to, in the order of their declaration in `to(..)`.
    pub fn exits(&self, phase: &PhaseInfo) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.to)
    }

    /// Returns the exits that `phase` can take after a failure: `failed(..)`.
    pub fn failure_exits(
        &self,
        phase: &PhaseInfo,
    ) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.failed)
    }

    /// Whether this edge is taken only after a failure.
    fn is_for_failure(&self, from: &PhaseInfo, to: &PhaseInfo) -> bool {
        let mut plain = from.to.iter().take(from.plain.into());
        !plain.any(|&index| {
            let exit = self.phases.get(usize::from(index));
            exit.is_some_and(|exit| exit.name == to.name)
        })
    }

    /// Returns the phases in which the deadline set on entering `phase` goes on.
    pub fn kept_in(&self, phase: &PhaseInfo) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.keep)
    }

    /// Returns every edge, `(from, to)`.
    pub fn edges(&self) -> impl Iterator<Item = (&'static PhaseInfo, &'static PhaseInfo)> + use<> {
        let graph = *self;
        graph
            .phases
            .iter()
            .flat_map(move |from| graph.exits(from).map(move |to| (from, to)))
    }
}

/// Returns the phases with these indexes. Only a graph written by hand can have an index beyond the slice; such an
/// index is no edge.
fn resolve(
    phases: &'static [PhaseInfo],
    indexes: &'static [u16],
) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
    indexes
        .iter()
        .filter_map(move |&index| phases.get(usize::from(index)))
}

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
    /// The number of attempts after the first one.
    pub times: u32,
    /// The wait before the first retry. Each later wait is twice as long.
    pub min: Duration,
    /// The longest wait.
    pub max: Duration,
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

/// One phase of a [`Graph`].
///
/// The functions that take and return `Self` build a phase. Generated code calls them.
#[derive(Clone, Copy, Debug)]
pub struct PhaseInfo {
    name: &'static str,
    docs: &'static str,
    mode: Mode,
    to: &'static [u16],
    start: bool,
    failure: bool,
    late: bool,
    exhausted: bool,
    within: Within,
    on: &'static [&'static str],
    retry: Option<Retry>,
    /// The exits after a failure, a part of `to`. The first `plain` of `to` are the exits without a failure.
    failed: &'static [u16],
    plain: u16,
    /// The number of functions that can choose an exit after a failure: its own, and those of the layers around it.
    ways_out: u8,
    keep: &'static [u16],
    fields: &'static [&'static str],
    was: &'static [&'static str],
    /// Only in a layer's own graph: the phases inside replace this phase. The value says whether the layer goes on
    /// where they end.
    inner: Option<bool>,
    gate: Option<&'static str>,
}

/// The longest stay in a phase, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Within {
    Any,
    Fixed(u64),
    /// Floor and ceiling.
    Adaptive(u64, u64),
}

impl PhaseInfo {
    const fn new(name: &'static str, docs: &'static str, mode: Mode) -> Self {
        Self {
            name,
            docs,
            mode,
            to: &[],
            start: false,
            failure: false,
            late: false,
            exhausted: false,
            within: Within::Any,
            on: &[],
            retry: None,
            failed: &[],
            plain: 0,
            ways_out: 0,
            keep: &[],
            fields: &[],
            was: &[],
            inner: None,
            gate: None,
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
        self.to = exits;
        self.plain = exits.len() as u16;
        self
    }

    /// Sets the exits after a failure, and all exits: indexes of phases. `all` begins with the exits passed to
    /// [`to`](Self::to), which must be called before, and continues with the rest.
    #[must_use]
    pub const fn failed(mut self, exits: &'static [u16], all: &'static [u16]) -> Self {
        self.failed = exits;
        self.to = all;
        self.ways_out = 1;
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
    /// ends there. Only generated code calls this.
    #[doc(hidden)]
    #[must_use]
    pub const fn inner(mut self, goes_on: bool) -> Self {
        self.inner = Some(goes_on);
        self
    }

    /// Runs the phase's second function at a missed deadline, instead of a failure of the operation.
    #[must_use]
    pub const fn late(mut self) -> Self {
        self.late = true;
        self
    }

    /// Gives the phase a function for the case that its attempts are used up.
    #[must_use]
    pub const fn exhausted(mut self) -> Self {
        self.exhausted = true;
        self
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
        });
        self
    }

    /// Sets the phases in which the deadline goes on: indexes of phases.
    #[must_use]
    pub const fn keep(mut self, phases: &'static [u16]) -> Self {
        self.keep = phases;
        self
    }

    /// Sets the names that the phase had in earlier releases.
    #[must_use]
    pub const fn formerly(mut self, names: &'static [&'static str]) -> Self {
        self.was = names;
        self
    }

    /// Gives the phase a gate. Drawings show the note.
    #[must_use]
    pub const fn gated(mut self, note: &'static str) -> Self {
        self.gate = Some(note);
        self
    }

    /// Sets the names of the phase's fields.
    #[must_use]
    pub const fn with(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

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
        self.was
    }

    /// Returns the names of the phase's fields, in the order of their declaration.
    #[must_use]
    pub const fn fields(&self) -> &'static [&'static str] {
        self.fields
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

    /// Whether a missed deadline runs the phase's second function.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// Whether the phase has a function for the case that its attempts are used up.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.exhausted
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

    /// Returns the longest stay in this phase. For an adaptive phase this is the ceiling.
    #[must_use]
    pub const fn within(&self) -> Option<Duration> {
        match self.within {
            Within::Any => None,
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
            Within::Any | Within::Fixed(_) => None,
        }
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

    /// Returns the indexes of the phases that this phase can go to. [`Graph::exits`] returns the phases.
    #[must_use]
    pub const fn exit_indexes(&self) -> &'static [u16] {
        self.to
    }

    /// Returns the part of [`exit_indexes`](Self::exit_indexes) that the phase can take after a failure.
    /// [`Graph::failure_exits`] returns the phases.
    #[must_use]
    pub const fn failure_exit_indexes(&self) -> &'static [u16] {
        self.failed
    }

    /// Returns the number of functions that can choose an exit after a failure.
    pub(crate) const fn ways_out(&self) -> u8 {
        self.ways_out
    }

    /// Returns the indexes of the phases in which the deadline goes on. [`Graph::kept_in`] returns the phases.
    #[must_use]
    pub const fn kept_in_indexes(&self) -> &'static [u16] {
        self.keep
    }
}
