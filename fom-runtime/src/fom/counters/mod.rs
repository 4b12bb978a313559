//! Counters: how often the foms of a type took each edge of their machine, and how long they were in each phase.
//!
//! Each locality has cells of its own. Only its handler writes them, with plain stores, so counting takes no lock. Edges
//! that few foms take are an exception: they are in a list with a lock, because the cause is part of the edge.
//!
//! The time of a visit is the locality's time as of a few steps ago, as [`budget`](crate::fom::hand) describes.

mod histogram;

use std::{
    any::TypeId,
    collections::HashMap,
    iter,
    sync::{Arc, OnceLock},
};

use crossbeam_utils::CachePadded;
use fom_protocol::{
    count,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

pub(crate) use self::histogram::{NONE, Steps, bound};
use crate::{
    clock::passed,
    fom::{Header, TransitionCause},
    graph::Graph,
};

/// The counters of all operation types of a runtime.
#[derive(Default)]
pub(crate) struct Counters(RwLock<HashMap<TypeId, Arc<TypeCounters>>>);

impl Counters {
    /// Returns the counters of an operation type. `localities`: the number of localities.
    pub(crate) fn of(
        &self,
        of: TypeId,
        graph: &'static Graph,
        localities: usize,
    ) -> Arc<TypeCounters> {
        if let Some(found) = self.0.read().get(&of) {
            return Arc::clone(found);
        }
        let mut types = self.0.write();
        let made = || Arc::new(TypeCounters::new(graph, localities));
        Arc::clone(types.entry(of).or_insert_with(made))
    }

    /// Returns the counters of each type of which a transition was counted.
    pub(crate) fn all(&self) -> Vec<Arc<TypeCounters>> {
        self.0.read().values().cloned().collect()
    }
}

/// In the table of the exits: no declared exit.
const UNDECLARED: u16 = u16::MAX;

/// The counters of one operation type.
pub(crate) struct TypeCounters {
    pub(crate) graph: &'static Graph,
    places: Arc<[u16]>,
    localities: Box<[OnceLock<Arc<CachePadded<LocalCounters>>>]>,
}

/// The counters of one operation type in one locality.
pub(crate) struct LocalCounters {
    /// The foms that were in the phase when the count began, by phase.
    pub(crate) found: Box<[AtomicU64]>,
    /// The foms that started in the phase, by phase.
    pub(crate) started: Box<[AtomicU64]>,
    /// The attempts that failed and are followed by another, by phase.
    pub(crate) retries: Box<[AtomicU64]>,
    /// The place of each declared exit in `exits`, by `from * phases + to`; or [`UNDECLARED`].
    places: Arc<[u16]>,
    /// The exits that the function of a phase returned.
    exits: Box<[Exit]>,
    times: Box<[Steps]>,
    rare: Mutex<Vec<(Edge, Taken)>>,
}

/// The counts of an exit. Its handler writes them.
#[derive(Default)]
struct Exit {
    count: AtomicU64,
    /// The sum of the times that the foms were in the phase, in nanoseconds.
    nanos: AtomicU64,
}

/// How often foms took an edge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) count: u64,
    /// The sum of the times that these foms were in the phase which they left, in nanoseconds.
    pub(crate) nanos: u64,
}

impl std::ops::AddAssign for Taken {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.nanos = self.nanos.saturating_add(more.nanos);
    }
}

/// An edge of a machine, by the indexes of its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// `None` for a begin.
    pub(crate) from: Option<usize>,
    /// `None` for the standard failed outcome.
    pub(crate) to: Option<usize>,
    pub(crate) cause: TransitionCause,
}

/// What a count must know of the visit that a transition ends.
#[derive(Clone, Copy)]
pub(crate) struct LastVisit {
    is_counted: bool,
    since: u64,
}

impl LastVisit {
    /// Returns the current visit, which is about to end.
    #[inline]
    pub(crate) fn of(fom: &Header) -> Self {
        let visit = fom.visit();
        Self {
            is_counted: visit.is_counted(),
            since: visit.since(),
        }
    }

    /// Returns when the visit began.
    pub(crate) fn since(self) -> u64 {
        self.since
    }
}

impl TypeCounters {
    fn new(graph: &'static Graph, localities: usize) -> Self {
        let phases = graph.phases();
        let mut places = vec![UNDECLARED; phases.len() * phases.len()];
        let exits = phases.iter().enumerate().flat_map(|(from, phase)| {
            let exits = phase.exit_indexes().iter();
            exits.map(move |to| from * phases.len() + usize::from(*to))
        });
        for (place, exit) in exits.enumerate() {
            places[exit] = place as u16;
        }
        Self {
            graph,
            places: places.into(),
            localities: (0..localities).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the counters of a locality.
    pub(crate) fn at(&self, locality: usize) -> &Arc<CachePadded<LocalCounters>> {
        self.localities[locality].get_or_init(|| Arc::new(CachePadded::new(self.made())))
    }

    #[cold]
    fn made(&self) -> LocalCounters {
        let phases = self.graph.phases();
        let cells = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        let exits = phases.iter().map(|phase| phase.exit_indexes().len()).sum();
        LocalCounters {
            found: cells(phases.len()),
            started: cells(phases.len()),
            retries: cells(phases.len()),
            places: Arc::clone(&self.places),
            exits: (0..exits).map(|_| Exit::default()).collect(),
            times: phases.iter().map(|_| Steps::default()).collect(),
            rare: Mutex::default(),
        }
    }

    /// Returns the localities that have counted a transition, with their indexes.
    pub(crate) fn localities(&self) -> impl Iterator<Item = (usize, &LocalCounters)> {
        let cells = self.localities.iter().enumerate();
        cells.filter_map(|(index, cell)| Some((index, &***cell.get()?)))
    }

    /// Returns the edges of the machine, and those rare ones that were taken, with the counts of one locality.
    pub(crate) fn edges(&self, of: &LocalCounters) -> Vec<(Edge, Taken)> {
        let phases = self.graph.phases().iter().enumerate();
        let starts = phases.clone().map(|(to, _)| Edge {
            from: None,
            to: Some(to),
            cause: TransitionCause::Started,
        });
        let exit = |from, to: &u16| Edge {
            from: Some(from),
            to: Some(usize::from(*to)),
            cause: TransitionCause::Returned,
        };
        let exits = phases.flat_map(|(from, phase)| {
            let to = phase.exit_indexes().iter();
            to.map(move |to| exit(from, to))
        });
        let counted = |count: &AtomicU64, nanos: u64| Taken {
            count: count.load(Ordering::Acquire),
            nanos,
        };
        let started = of.started.iter().map(|count| counted(count, 0));
        let left = of.exits.iter();
        let left = left.map(|exit| counted(&exit.count, exit.nanos.load(Ordering::Relaxed)));
        let mut edges: Vec<_> = iter::zip(starts.chain(exits), started.chain(left)).collect();
        edges.extend(of.rare.lock().iter().copied());
        edges
    }
}

impl LocalCounters {
    /// Returns the times in a phase.
    pub(crate) fn times(&self, phase: usize) -> &Steps {
        &self.times[phase]
    }

    #[cold]
    #[inline(never)]
    fn add_rare(&self, edge: Edge, nanos: u64) {
        let mut rare = self.rare.lock();
        let more = Taken { count: 1, nanos };
        match rare.iter_mut().find(|(of, _)| *of == edge) {
            Some((_, taken)) => *taken += more,
            None => rare.push((edge, more)),
        }
    }

    /// Returns the cells of an exit, if the phase declares it.
    #[inline]
    fn exit(&self, from: usize, to: usize) -> Option<&Exit> {
        let place = self.places[from * self.times.len() + to];
        (place != UNDECLARED).then(|| &self.exits[usize::from(place)])
    }

    /// Counts that a fom leaves the phase at `from`. Returns how long it was there, in nanoseconds.
    #[inline]
    fn leave(&self, from: usize, visit: LastVisit, now: u64) -> u64 {
        if !visit.is_counted {
            count(&self.found[from], 1);
        }
        let nanos = passed(now, visit.since);
        self.times[from].add(nanos);
        nanos
    }
}

/// Returns the cells of the fom's type and locality.
#[inline(always)]
fn cells(fom: &Header) -> &LocalCounters {
    fom.pool().counters(fom.home_index())
}

/// Counts the transition that has just led the fom into its phase. Only the handler of the fom's locality calls this.
#[inline(always)]
pub(crate) fn count_transition(
    fom: &Header,
    last: LastVisit,
    from: Option<usize>,
    to: usize,
    cause: TransitionCause,
    now: u64,
) {
    if let (Some(from), TransitionCause::Returned) = (from, cause) {
        return count_returned(fom, last, from, to, now);
    }
    let here = cells(fom);
    fom.visit().set_counted();
    match from {
        None if cause == TransitionCause::Started => count(&here.started[to], 1),
        from => {
            let nanos = from.map_or(0, |from| here.leave(from, last, now));
            let to = Some(to);
            here.add_rare(Edge { from, to, cause }, nanos);
        }
    }
}

/// As [`count_transition`], for an exit that the function of the phase returned.
#[inline(always)]
pub(crate) fn count_returned(fom: &Header, last: LastVisit, from: usize, to: usize, now: u64) {
    let here = cells(fom);
    fom.visit().set_counted();
    let nanos = here.leave(from, last, now);
    match here.exit(from, to) {
        Some(exit) => {
            count(&exit.nanos, nanos);
            count(&exit.count, 1);
        }
        None => {
            let edge = Edge {
                from: Some(from),
                to: Some(to),
                cause: TransitionCause::Returned,
            };
            here.add_rare(edge, nanos);
        }
    }
}

/// Counts a failure. A fom that has begun fails on the handler of its locality.
#[cold]
pub(crate) fn count_failure(fom: &Header, cause: &'static str, now: u64) {
    let here = cells(fom);
    let from = fom.flags.has_begun().then(|| fom.visit().index());
    let nanos = from.map_or(0, |from| here.leave(from, LastVisit::of(fom), now));
    let edge = Edge {
        from,
        to: None,
        cause: TransitionCause::Failed(cause),
    };
    here.add_rare(edge, nanos);
}

/// Counts an attempt at the phase that failed and is followed by another. Only the handler of the fom's locality calls
/// this.
#[cold]
pub(crate) fn count_retry(fom: &Header) {
    count(&cells(fom).retries[fom.visit().index()], 1);
}

/// Returns whether the fom is in a phase, in this locality, and is not counted there.
pub(crate) fn is_uncounted(fom: &Header, locality: usize) -> bool {
    fom.home_index() == locality && fom.flags.has_begun() && !fom.visit().is_counted()
}

/// Counts a fom that was in its phase when the count began. Only the handler of the fom's locality calls this.
pub(crate) fn count_found(fom: &Header) {
    let here = cells(fom);
    count(&here.found[fom.visit().index()], 1);
    fom.visit().set_counted();
}
