//! Deadlines that most foms miss.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use fom_runtime::{
    Runtime,
    observe::{EdgeCounter, Filter, OperationCounters, Page, TransitionCause},
    time::Instant,
};

use crate::{
    Level, WarningKind,
    board::{Finding, Place},
    checks::{IDS, similar},
    sight::Sight,
};

/// The time that the check looks back, and the time between two samples.
const WINDOW: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(10);
/// The least number of foms that left the phase in that time, and the share that missed the deadline.
const LEAST: u64 = 20;
const SHARE: f64 = 0.5;

/// A phase, by the names of its operation type and its own.
type PhaseName = (&'static str, &'static str);

/// The earlier counts of each phase with a deadline. Types with one name count as one type.
#[derive(Default)]
pub(super) struct Late(HashMap<PhaseName, VecDeque<Sample>>);

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    left: u64,
    late: u64,
}

impl Sample {
    fn add(&mut self, other: Self) {
        self.left += other.left;
        self.late += other.late;
    }
}

impl Late {
    pub(super) fn check(&mut self, runtime: &Runtime, sight: &Sight) -> Vec<Finding> {
        let mut counts: BTreeMap<PhaseName, (Sample, Option<Duration>)> = BTreeMap::new();
        for of in &sight.counters.operations {
            for (info, counted) in of.graph.phases().iter().zip(&of.phases) {
                let deadline = info.deadline();
                if deadline.within().is_none() && !deadline.is_asked() {
                    continue;
                }
                let place = (of.operation, counted.phase);
                let one = sample(of, counted.phase, sight.now);
                let all = counts.entry(place);
                all.and_modify(|(all, _)| all.add(one))
                    .or_insert((one, deadline.within()));
            }
        }
        let mut found = Vec::new();
        for (place, (now, within)) in counts {
            let before = self.before(place, now);
            let (left, late) = (now.left - before.left, now.late - before.late);
            if left >= LEAST && late as f64 > left as f64 * SHARE {
                found.push(missed(runtime, place, left, late, within));
            }
        }
        found
    }

    /// Returns the counts at the begin of the window, and keeps those of now.
    fn before(&mut self, place: PhaseName, now: Sample) -> Sample {
        let samples = self.0.entry(place).or_default();
        if samples.is_empty() {
            // Nothing was counted before the first look.
            samples.push_back(Sample {
                left: 0,
                late: 0,
                ..now
            });
        }
        if samples.back().is_none_or(|last| now.at - last.at >= STEP) {
            samples.push_back(now);
        }
        while samples
            .get(1)
            .is_some_and(|next| now.at - next.at >= WINDOW)
        {
            samples.pop_front();
        }
        samples.front().copied().unwrap_or(now)
    }
}

fn sample(of: &OperationCounters, phase: &str, at: Instant) -> Sample {
    let leaves = |edge: &&EdgeCounter| edge.from == Some(phase);
    let is_late = |edge: &&EdgeCounter| {
        let cause = edge.cause;
        cause == TransitionCause::Late || cause == TransitionCause::Failed("late")
    };
    let edges = of.edges.iter().filter(leaves);
    Sample {
        at,
        left: edges.clone().map(|edge| edge.count).sum(),
        late: edges.filter(is_late).map(|edge| edge.count).sum(),
    }
}

fn missed(
    runtime: &Runtime,
    place: PhaseName,
    left: u64,
    late: u64,
    within: Option<Duration>,
) -> Finding {
    let (operation, phase) = place;
    // Those that missed it are gone. Those that come may miss it for the same reason.
    let filter = Filter::default().operation(operation).phase(phase);
    let there = runtime.inspect().survey(&filter, &Page::of(IDS)).page;
    let share = late as f64 / left as f64;
    let level = match share {
        share if share >= 0.95 => Level::Critical,
        share if share >= 0.75 => Level::Severe,
        _ => Level::Warning,
    };
    let deadline = within.map_or_else(String::new, |within| format!(" of {within:?}"));
    Finding {
        kind: WarningKind::MissedDeadlines,
        level,
        subject: format!("{operation} in {phase}"),
        detail: String::new(),
        text: format!(
            "{late} of the last {left} foms that left {phase} of {operation} missed its deadline{deadline}"
        ),
        place: Place::of(Some(place)),
        ids: there.iter().map(|fom| fom.id).collect(),
        foms: usize::try_from(late).unwrap_or(usize::MAX),
        age: WINDOW,
        limit: within,
        common: similar::common(runtime, &there),
        advice: "see why the answer comes late; a longer `within`, or `within = \"adaptive\"`, follows a slow partner".to_owned(),
    }
}
