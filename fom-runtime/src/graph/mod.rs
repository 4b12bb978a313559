//! The graph of an operation: its phases and the ways between them, as plain constant data.
//!
//! `#[fom]` writes one [`Graph`] per machine. Everything that draws, lists or checks a machine reads it and
//! nothing else, so a drawing can not differ from what runs.

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

/// The phases of an operation and the ways between them.
///
/// # Examples
///
/// Usually `#[fom]` writes it and one reads it from `Operation::GRAPH`; it can be written by hand too:
///
/// ```
/// use fom_runtime::{Graph, PhaseInfo};
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
    /// The names that the enum and the operation had.
    was: &'static [&'static str],
    operation_was: &'static [&'static str],
    /// Of a layer, whose operation has the name of the one inside in its own.
    around: Option<Around>,
    /// How many layers stand around the operation.
    layers: u8,
}

impl Graph {
    /// A graph over `phases`; the indexes that the phases name are places in this slice.
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

    /// What of it is saved has changed this often, counted from 1.
    #[must_use]
    pub const fn in_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Phases had these names once, and none may have them again.
    #[must_use]
    pub const fn retiring(mut self, names: &'static [&'static str]) -> Self {
        self.retired = names;
        self
    }

    /// The enum of phases and the operation's type had these names in earlier releases.
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

    /// The name of the enum of phases.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The name of the operation's type.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        self.operation
    }

    /// What the doc comment of the enum of phases says.
    #[must_use]
    pub const fn docs(&self) -> &'static str {
        self.docs
    }

    /// The version of what is saved of it: `#[fom(version = ..)]`, and 1 without.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The names that phases had once, and none may have again.
    #[must_use]
    pub const fn retired(&self) -> &'static [&'static str] {
        self.retired
    }

    /// All phases, in the order of their declaration.
    #[must_use]
    pub const fn phases(&self) -> &'static [PhaseInfo] {
        self.phases
    }

    /// Whether a fom of it ever needs a timer of its own.
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

    /// Whether any phase says where to go when it has failed.
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

    /// Whether any phase holds locks.
    pub(crate) const fn has_locks(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            if self.phases[index].locks {
                return true;
            }
            index += 1;
        }
        false
    }

    /// The phase with this index, which is the one that `Operation::index` gives.
    #[must_use]
    pub fn phase(&self, index: usize) -> Option<&'static PhaseInfo> {
        self.phases.get(index)
    }

    /// The phase with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static PhaseInfo> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The phase that has or had this name.
    pub(crate) fn find_ever(&self, name: &str) -> Option<&'static PhaseInfo> {
        self.place_ever(name).map(|place| &self.phases[place])
    }

    /// Where that one stands.
    pub(crate) fn place_ever(&self, name: &str) -> Option<usize> {
        let has = |phase: &PhaseInfo| phase.name == name;
        let had = |phase: &PhaseInfo| phase.was.contains(&name);
        let mut phases = self.phases.iter();
        let today = phases.position(has);
        today.or_else(|| self.phases.iter().position(had))
    }

    /// The phase in which the operation starts.
    #[must_use]
    pub fn start(&self) -> Option<&'static PhaseInfo> {
        self.phases.iter().find(|phase| phase.start)
    }

    /// The phases that `phase` can go to, in the order of their declaration in `to(..)`.
    pub fn exits(&self, phase: &PhaseInfo) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.to)
    }

    /// Those of the exits of `phase` that it can take when it has failed: `failed(..)`.
    pub fn failure_exits(
        &self,
        phase: &PhaseInfo,
    ) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.failed)
    }

    /// Whether this way is only taken when the phase has failed.
    fn is_for_failure(&self, from: &PhaseInfo, to: &PhaseInfo) -> bool {
        let mut plain = from.to.iter().take(from.plain.into());
        !plain.any(|&index| {
            let exit = self.phases.get(usize::from(index));
            exit.is_some_and(|exit| exit.name == to.name)
        })
    }

    /// The phases in which the deadline set on entering `phase` goes on.
    pub fn kept_in(&self, phase: &PhaseInfo) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.keep)
    }

    /// Every way from a phase to a phase, `(from, to)`.
    pub fn edges(&self) -> impl Iterator<Item = (&'static PhaseInfo, &'static PhaseInfo)> + use<> {
        let graph = *self;
        graph
            .phases
            .iter()
            .flat_map(move |from| graph.exits(from).map(move |to| (from, to)))
    }
}

/// An index beside the slice can only be written by hand; it names no phase, so it is no edge.
fn resolve(
    phases: &'static [PhaseInfo],
    indexes: &'static [u16],
) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
    indexes
        .iter()
        .filter_map(move |&index| phases.get(usize::from(index)))
}

/// How a phase's function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// An `async fn`: gives the thread back wherever it awaits.
    Async,
    /// A plain `fn` that does not wait; with `on(..)` it runs when an event has come.
    Sync,
    /// A plain `fn` that may block: it runs beside its locality, between enter-block and leave-block.
    Blocking,
    /// No function: the operation ends here.
    End,
}

/// How often, and how far apart, a phase is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Retry {
    /// How many times after the first attempt.
    pub times: u32,
    /// The wait before the first of them; each later one is twice as long.
    pub min: Duration,
    /// The longest wait.
    pub max: Duration,
}

/// Between what the time of a phase with `within = "adaptive"` is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Adaptive {
    /// The least time.
    pub floor: Duration,
    /// The most time.
    pub ceiling: Duration,
}

/// One phase of a [`Graph`].
///
/// The functions that take and give `Self` build one; generated code calls them.
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
    /// Where it goes when it has failed: among `to`, of which so many are for when it has not.
    failed: &'static [u16],
    plain: u16,
    /// How many functions may be asked where to go then: its own, and those of layers round it.
    ways_out: u8,
    keep: &'static [u16],
    fields: &'static [&'static str],
    was: &'static [&'static str],
    /// Of a layer's own graph: others stand in its place; and whether it goes on where those end.
    inner: Option<bool>,
    locks: bool,
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
            locks: false,
        }
    }

    /// A phase with an `async fn`.
    #[must_use]
    pub const fn asynchronous(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Async)
    }

    /// A phase with a plain `fn` that does not wait.
    #[must_use]
    pub const fn synchronous(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Sync)
    }

    /// A phase with a plain `fn` that may block.
    #[must_use]
    pub const fn blocking(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::Blocking)
    }

    /// A phase in which the operation ends.
    #[must_use]
    pub const fn end(name: &'static str, docs: &'static str) -> Self {
        Self::new(name, docs, Mode::End)
    }

    /// Where it can go: indexes of phases.
    #[must_use]
    pub const fn to(mut self, exits: &'static [u16]) -> Self {
        self.to = exits;
        self.plain = exits.len() as u16;
        self
    }

    /// Where it goes when it has failed, and all that it can go to: indexes of phases. All are first those of [`to`](Self::to), which
    /// is called before, then what is left.
    #[must_use]
    pub const fn failed(mut self, exits: &'static [u16], all: &'static [u16]) -> Self {
        self.failed = exits;
        self.to = all;
        self.ways_out = 1;
        self
    }

    /// The operation starts here.
    #[must_use]
    pub const fn start(mut self) -> Self {
        self.start = true;
        self
    }

    /// Ending here is a failure.
    #[must_use]
    pub const fn failure(mut self) -> Self {
        self.failure = true;
        self
    }

    /// Of a layer: the phases of the operation inside stand here, and it goes on where those end, or ends there.
    #[doc(hidden)]
    #[must_use]
    pub const fn inner(mut self, goes_on: bool) -> Self {
        self.inner = Some(goes_on);
        self
    }

    /// A missed deadline runs the phase's second function instead of failing the operation.
    #[must_use]
    pub const fn late(mut self) -> Self {
        self.late = true;
        self
    }

    /// It has a function for when its attempts are used up.
    #[must_use]
    pub const fn exhausted(mut self) -> Self {
        self.exhausted = true;
        self
    }

    /// The longest stay in this phase.
    #[must_use]
    pub const fn within_nanos(mut self, nanos: u64) -> Self {
        self.within = Within::Fixed(nanos);
        self
    }

    /// The longest stay in this phase follows what earlier ones took, between these two.
    #[must_use]
    pub const fn within_adaptive(mut self, floor_nanos: u64, ceiling_nanos: u64) -> Self {
        self.within = Within::Adaptive(floor_nanos, ceiling_nanos);
        self
    }

    /// The events that it takes, by name.
    #[must_use]
    pub const fn on(mut self, events: &'static [&'static str]) -> Self {
        self.on = events;
        self
    }

    /// How often it is tried again, and the shortest and longest wait between.
    #[must_use]
    pub const fn retry(mut self, times: u32, min_nanos: u64, max_nanos: u64) -> Self {
        self.retry = Some(Retry {
            times,
            min: Duration::from_nanos(min_nanos),
            max: Duration::from_nanos(max_nanos),
        });
        self
    }

    /// The phases in which its deadline goes on: indexes of phases.
    #[must_use]
    pub const fn keep(mut self, phases: &'static [u16]) -> Self {
        self.keep = phases;
        self
    }

    /// The names that it had in earlier releases.
    #[must_use]
    pub const fn formerly(mut self, names: &'static [&'static str]) -> Self {
        self.was = names;
        self
    }

    /// It holds locks.
    #[must_use]
    pub const fn locks(mut self) -> Self {
        self.locks = true;
        self
    }

    /// The names of its data.
    #[must_use]
    pub const fn with(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    /// Its name: the variant's.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What its doc comment says.
    #[must_use]
    pub const fn docs(&self) -> &'static str {
        self.docs
    }

    /// The names that it had in earlier releases.
    #[must_use]
    pub const fn was(&self) -> &'static [&'static str] {
        self.was
    }

    /// The names of its data, in the order of their declaration.
    #[must_use]
    pub const fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    /// How its function runs.
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

    /// Whether ending here is a failure.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.failure
    }

    /// Whether a missed deadline runs the phase's second function.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.late
    }

    /// Whether it has a function for when its attempts are used up.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Whether it is a layer's phase in whose place others stand. No phase of a whole graph is one.
    pub(crate) const fn is_inner(&self) -> bool {
        self.inner.is_some()
    }

    /// Whether it holds locks, which are granted before its function runs.
    #[must_use]
    pub const fn holds_locks(&self) -> bool {
        self.locks
    }

    /// Whether the phase is itself the wait for an event: a plain function that runs when one has come.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self.mode, Mode::Sync) && !self.on.is_empty()
    }

    /// The longest stay in this phase; of an adaptive one its ceiling.
    #[must_use]
    pub const fn within(&self) -> Option<Duration> {
        match self.within {
            Within::Any => None,
            Within::Fixed(nanos) | Within::Adaptive(_, nanos) => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Between what the longest stay adapts, if it does.
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

    /// The names of the events that it takes.
    #[must_use]
    pub const fn takes(&self) -> &'static [&'static str] {
        self.on
    }

    /// How it is tried again, if it is.
    #[must_use]
    pub const fn retries(&self) -> Option<Retry> {
        self.retry
    }

    /// The indexes of the phases that it can go to; [`Graph::exits`] gives the phases.
    #[must_use]
    pub const fn exit_indexes(&self) -> &'static [u16] {
        self.to
    }

    /// Those of [`exit_indexes`](Self::exit_indexes) that it can take when it has failed; [`Graph::failure_exits`] gives the phases.
    #[must_use]
    pub const fn failure_exit_indexes(&self) -> &'static [u16] {
        self.failed
    }

    /// How many functions say where to go when it has failed.
    pub(crate) const fn ways_out(&self) -> u8 {
        self.ways_out
    }

    /// The indexes of the phases in which its deadline goes on; [`Graph::kept_in`] gives the phases.
    #[must_use]
    pub const fn kept_in_indexes(&self) -> &'static [u16] {
        self.keep
    }
}
