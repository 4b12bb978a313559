//! Counts of the foms in flight, and one page of them. A survey walks the memory of the foms once, and copies no fom.

mod counts;
mod filter;
mod matching;
mod page;

use std::{
    ops::ControlFlow,
    thread,
    time::{Duration, Instant as WallInstant, SystemTime},
};

use serde::Serialize;

use crate::{
    fom::{AnyRef, Header, Pool},
    id::FomId,
    instant::Instant,
    runtime::{
        Shared,
        observe::{FomInfo, fom_info},
    },
    serial,
};
use fom_protocol::FomState;

use counts::{Counts, Place, Totals};
pub use filter::Filter;
pub use matching::MatchingFom;
pub(in crate::runtime) use matching::matching;
use page::Best;
pub use page::{Cursor, CursorError, Page, Sort};

/// How long a survey goes on before it lets other threads of the processor run.
const PIECE: Duration = Duration::from_millis(1);
/// The number of foms between two looks at the time.
const STRIDE: u32 = 1024;

/// The foms that a [`Filter`] covers, as [`Inspect::survey`](crate::observe::Inspect::survey) found them. The survey
/// stops no fom, so each fom is counted as it was at its own moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Survey {
    /// The time of the wall clock at the end of the survey.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock at the begin of the survey.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// The number of foms that the filter covers.
    pub foms: usize,
    /// The same foms, counted by operation type, phase, state and wait. Sorted by type, by the order of the phases in
    /// the declaration, by state and by wait.
    pub groups: Vec<Group>,
    /// One page of them.
    pub page: Vec<FomInfo>,
    /// Where the next page begins; `None` if this is the last page.
    pub next: Option<Cursor>,
}

/// The foms of one operation type that are in the same phase and state, and wait for the same kind of thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The operation type.
    pub operation: &'static str,
    /// The phase.
    pub phase: &'static str,
    /// What the runtime does with the foms.
    #[serde(serialize_with = "serial::text")]
    pub state: FomState,
    /// The [kind](super::WaitsFor::kind) of their wait.
    pub wait: Option<&'static str>,
    /// The number of these foms.
    pub foms: usize,
    /// Those that have been in the phase longest, the longest first. As many as [`Page::oldest`] asks for.
    pub oldest: Vec<Oldest>,
}

/// A fom that has been in its phase for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Oldest {
    /// The fom.
    pub id: FomId,
    /// How long it has been in the phase.
    #[serde(serialize_with = "serial::seconds")]
    pub in_phase: Duration,
}

/// Counts the foms that the filter covers, and collects a page of them.
pub(crate) fn survey(shared: &Shared, filter: &Filter, page: &Page) -> Survey {
    let now = shared.env.clock.nanos();
    let mut best = Best::new(page);
    let mut totals = Totals::new(page.oldest);
    walk(shared, filter, now, |pool, foms| {
        let mut counts = Counts::new(page.oldest);
        foms(&mut |place, fom| {
            counts.add(place, fom.id(), fom.visit().since());
            best.offer(fom);
        });
        totals.add(pool, counts);
    });
    let groups = totals.finish(now);
    let (page, next) = best.finish();
    Survey {
        at: SystemTime::now(),
        now: Instant::from_nanos(now),
        foms: groups.iter().map(|group| group.foms).sum(),
        groups,
        page: page.iter().map(fom_info).collect(),
        next,
    }
}

/// Takes each fom of a pool that the filter covers.
type Take<'a> = dyn FnMut(Place, AnyRef) + 'a;

/// Walks the pools of the foms that a filter covers. `each` gets a pool, and what walks its foms.
fn walk(
    shared: &Shared,
    filter: &Filter,
    now: u64,
    mut each: impl FnMut(&Pool, &mut dyn FnMut(&mut Take<'_>)),
) {
    let mut pace = Pace::default();
    let homes = shared.localities.iter();
    for home in homes.filter(|home| filter.covers_locality(home.index)) {
        for pool in home.pools.all() {
            let Some(phases) = filter.phases(&pool) else {
                continue;
            };
            let is_covered = |fom: &Header| phases.get(fom.visit().index()) == Some(&true);
            each(&pool, &mut |take| {
                let _: ControlFlow<()> = pool.visit(is_covered, |fom| {
                    pace.step();
                    let place = Place::of(&fom);
                    if is_covered(&fom) && filter.covers(&fom, place.state, || place.kind(), now) {
                        take(place, fom);
                    }
                    ControlFlow::Continue(())
                });
            });
        }
    }
}

/// Lets other threads of the processor run after each piece of the walk.
struct Pace {
    left: u32,
    began: WallInstant,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            left: STRIDE,
            began: WallInstant::now(),
        }
    }
}

impl Pace {
    fn step(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.left = STRIDE;
            if self.began.elapsed() >= PIECE {
                thread::yield_now();
                self.began = WallInstant::now();
            }
        }
    }
}
