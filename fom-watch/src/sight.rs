//! What one look sees: the listings of the runtime.

use std::time::Duration;

use fom_runtime::{
    FomId, Runtime,
    machine::{FomState, PhaseInfo},
    observe::{
        Counters, Filter, FomInfo, Group, Listing, LocalityInfo, Page, Parts, PhaseCounters, Sort,
        Survey,
    },
    time::Instant,
};

/// The number of foms that are named in each group, and of mailboxes that are looked at.
const NAMED: usize = 8;

pub(crate) struct Sight {
    pub(crate) now: Instant,
    /// `None` if this look leaves the foms out.
    survey: Option<Survey>,
    pub(crate) loads: Listing<LocalityInfo>,
    pub(crate) counters: Counters,
    pub(crate) parts: Parts,
}

impl Sight {
    pub(crate) fn of(runtime: &Runtime, now: Instant, with_foms: bool) -> Self {
        let page = Page::of(NAMED).sort(Sort::Events).oldest(NAMED);
        Self {
            now,
            survey: with_foms.then(|| runtime.inspect().survey(&Filter::default(), &page)),
            loads: runtime.inspect().loads(),
            counters: runtime.inspect().counters(),
            parts: runtime.inspect().parts(),
        }
    }

    /// Returns the number of foms in flight, if the look is about foms.
    pub(crate) fn foms(&self) -> Option<usize> {
        self.survey.as_ref().map(|survey| survey.foms)
    }

    /// Returns the groups of foms. Empty if this look leaves the foms out.
    pub(crate) fn groups(&self) -> &[Group] {
        self.survey.as_ref().map_or(&[], |survey| &survey.groups)
    }

    /// Returns the foms with the fullest mailboxes.
    pub(crate) fn mailboxes(&self) -> &[FomInfo] {
        self.survey.as_ref().map_or(&[], |survey| &survey.page)
    }

    /// Returns a phase of an operation, and its counters. Several operation types can have one name.
    pub(crate) fn phase(
        &self,
        operation: &str,
        phase: &str,
    ) -> Option<(&PhaseInfo, &PhaseCounters)> {
        let all = self.counters.operations.iter();
        let all = all.filter(|of| of.operation == operation);
        let mut phases = all.flat_map(|of| of.graph.phases().iter().zip(&of.phases));
        phases.find(|(info, _)| info.name() == phase)
    }

    /// Returns whether this fom is one that serves the requests of others, such as an active object.
    pub(crate) fn is_server(&self, id: FomId) -> bool {
        self.parts.parts.iter().any(|part| part.fom == Some(id))
    }
}

/// Returns the foms of a group that have been in their phase for longest, and how many have been there for at least this
/// time.
pub(crate) fn oldest(runtime: &Runtime, group: &Group, least: Duration) -> (Vec<FomInfo>, usize) {
    let mut filter = Filter::default()
        .operation(group.operation)
        .phase(group.phase)
        .state(group.state)
        .in_phase(least);
    if let Some(wait) = group.wait {
        filter = filter.waits_for(wait);
    }
    let found = runtime.inspect().survey(&filter, &Page::of(64));
    let counted = found.groups.iter().filter(|one| one.wait == group.wait);
    let foms = counted.map(|one| one.foms).sum();
    let mut page = found.page;
    // The filter has no word for foms that wait for nothing.
    page.retain(|fom| group.wait.is_some() || fom.waits.is_empty());
    (page, foms)
}

/// Returns what the runtime does with the foms of a group, in a word.
pub(crate) fn state(group: &Group) -> &'static str {
    match (group.state, group.wait) {
        (_, Some("journal")) => "held up by the journal",
        (_, Some("blocking")) => "blocked",
        (FomState::Ready, _) => "ready",
        (FomState::Running, _) => "running",
        (FomState::Init, _) => "on the way to their locality",
        _ => "waiting",
    }
}
