//! The graph of an operation: its phases and the edges between them, as constant data.
//!
//! `#[fom]` writes one [`Graph`] per machine. Everything that draws, lists or checks a machine reads only the graph. So
//! a drawing cannot differ from what runs.

mod check;
mod deadline;
mod draw;
mod groups;
mod join;
mod json;
mod lanes;
mod needs;
mod phase;
mod renamed;
mod secrets;
#[cfg(test)]
mod tests;

pub use deadline::{Adaptive, Deadline, Hung};
pub(crate) use join::{Joined, Parts, versions};
use needs::Needs;
pub(crate) use phase::OnCancel;
pub use phase::{Mode, PhaseInfo, Retry};
use renamed::Around;
pub(crate) use secrets::Secrets;

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
    pub(crate) secrets: Secrets,
    /// Only for a layer: the parts of its operation's name, which contains the name of the inner operation.
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
            secrets: Secrets::new(&[]),
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

    /// Sets the names of the fields that no tool shows.
    #[must_use]
    pub const fn hiding(mut self, names: &'static [&'static str]) -> Self {
        self.secrets = Secrets::new(names);
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

    /// Returns the version of the saved data: `#[fom(version = ..)]`. Default: 1.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the names of former phases. No phase may have these names again.
    #[must_use]
    pub const fn retired(&self) -> &'static [&'static str] {
        self.retired
    }

    /// Returns the names of the fields that no tool shows: `#[fom(secret(..))]`.
    pub fn secrets(&self) -> impl Iterator<Item = &'static str> + use<> {
        let secrets = self.secrets;
        (0..).map_while(move |index| secrets.get(index))
    }

    /// Returns all phases, in the order of their declaration.
    #[must_use]
    pub const fn phases(&self) -> &'static [PhaseInfo] {
        self.phases
    }

    /// Returns the view that says what the phases need of the run.
    pub(crate) const fn needs(&self) -> Needs<'_> {
        Needs(self.phases)
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

    /// Whether this edge is taken only after a failure: the phase names `to` in `failed(..)`, but not in `to(..)`.
    #[must_use]
    pub fn is_for_failure(&self, from: &PhaseInfo, to: &PhaseInfo) -> bool {
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
