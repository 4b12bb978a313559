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
mod phase;
mod renamed;
#[cfg(test)]
mod tests;

pub(crate) use join::{Joined, Parts, versions};
pub use phase::{Adaptive, Deadline, Mode, PhaseInfo, Retry};
use renamed::Around;

/// The phases of an operation and the edges between them.
///
/// `#[fom]` writes the graph, and the program reads it from [`Operation::GRAPH`](crate::Operation::GRAPH).
///
/// ```
/// use fom_runtime::prelude::*;
///
/// /// Gets one page.
/// struct FetchPage;
///
/// #[fom(operation(FetchPage), transient)]
/// enum Fetch {
///     /// Ask the server.
///     #[phase(start, to(Done, Refused), within = "2s")]
///     Ask,
///     #[phase(end)]
///     Done,
///     #[phase(end, failure)]
///     Refused,
/// }
/// # impl FetchTransitions for FetchPage {
/// #     async fn ask(&mut self, _: &mut Cx<'_>) -> Result<FetchAfterAsk, BoxError> { Ok(FetchAfterAsk::Done) }
/// # }
///
/// let graph = FetchPage::GRAPH;
/// let ask = graph.start().unwrap();
/// let exits: Vec<_> = graph.exits(ask).map(|phase| phase.name()).collect();
/// assert_eq!(exits, ["Done", "Refused"]);
/// println!("{}", graph.drawing());
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

/// For generated code only.
#[doc(hidden)]
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
}

impl Graph {
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
            let is_limited = phase.deadline.within().is_some() || phase.deadline.is_asked();
            if is_limited || phase.retry.is_some() {
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
            if self.phases[index].exits.ways_out > 0 {
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

    /// Whether a function of any phase says a time limit or retries.
    pub(crate) const fn has_asked_times(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            let phase = &self.phases[index];
            let asks_retry = matches!(phase.retry, Some(Retry { times: 0, .. }));
            if phase.deadline.is_asked() || asks_retry {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Whether any phase gives its data to its function.
    pub(crate) const fn has_taken_data(&self) -> bool {
        let mut index = 0;
        while index < self.phases.len() {
            if self.phases[index].saved.taken {
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

    /// Returns the index of the phase that has or had this name.
    pub(crate) fn place_ever(&self, name: &str) -> Option<usize> {
        let has = |phase: &PhaseInfo| phase.name == name;
        let had = |phase: &PhaseInfo| phase.saved.was.contains(&name);
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
        resolve(self.phases, phase.exits.all)
    }

    /// Returns the exits that `phase` can take after a failure: `failed(..)`.
    pub fn failure_exits(
        &self,
        phase: &PhaseInfo,
    ) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.exits.failed)
    }

    /// Returns the name of the edge between these phases: `to(Ring = "found")`. Returns `None` if it has no name, or if
    /// there is no such edge.
    #[must_use]
    pub fn edge_name(&self, from: &PhaseInfo, to: &PhaseInfo) -> Option<&'static str> {
        let mut named = from.exits.all.iter().zip(from.exits.names);
        let (_, name) = named.find(|(index, _)| {
            let exit = self.phases.get(usize::from(**index));
            exit.is_some_and(|exit| exit.name == to.name)
        })?;
        (!name.is_empty()).then_some(*name)
    }

    /// Whether this edge is taken only after a failure.
    fn is_for_failure(&self, from: &PhaseInfo, to: &PhaseInfo) -> bool {
        let mut plain = from.exits.all.iter().take(from.exits.plain.into());
        !plain.any(|&index| {
            let exit = self.phases.get(usize::from(index));
            exit.is_some_and(|exit| exit.name == to.name)
        })
    }

    /// Returns the phases in which the deadline set on entering `phase` goes on.
    pub fn kept_in(&self, phase: &PhaseInfo) -> impl Iterator<Item = &'static PhaseInfo> + use<> {
        resolve(self.phases, phase.deadline.keep)
    }

    /// Returns whether a fom in the phase with the index `from` can come to one of these phases by a transition.
    pub(crate) fn leads(&self, from: usize, to: &[usize]) -> bool {
        let mut seen = vec![false; self.phases.len()];
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            let exits = self.phases.get(at).map_or(&[][..], |phase| phase.exits.all);
            for index in exits.iter().copied().map(usize::from) {
                if to.contains(&index) {
                    return true;
                }
                // Only a graph written by hand can have an index beyond the slice.
                let before = seen
                    .get_mut(index)
                    .map(|seen| std::mem::replace(seen, true));
                if before == Some(false) {
                    next.push(index);
                }
            }
        }
        false
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
