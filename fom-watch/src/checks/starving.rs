//! Foms that are ready for long before they run.

use std::{collections::HashMap, time::Duration};

use fom_runtime::{
    Runtime,
    machine::FomState,
    observe::{Filter, FomInfo, LocalityInfo, Page},
    time::Instant,
};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::{IDS, locality_name},
    sight::Sight,
};

/// A past delay is a warning for this number of looks.
const LOOKS: u32 = 10;
/// The number of foms that are looked at.
const MOST: usize = 64;

/// A fom is on its way until the handler of its locality takes it in, and then in the run queue.
const READY: [FomState; 2] = [FomState::Init, FomState::Ready];

#[derive(Default)]
pub(super) struct Starving {
    /// By locality.
    past: HashMap<usize, Past>,
    /// When the watch began. A fom out of a journal may have been in its phase for longer, but was not ready.
    since: Option<Instant>,
}

/// Delays that are over.
#[derive(Default)]
struct Past {
    /// How often a fom was ready for longer than the limit.
    long: u64,
    worst: Duration,
    /// For how many looks it is still shown.
    left: u32,
}

impl Starving {
    pub(super) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    pub(super) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
        is_standing: impl Fn(usize) -> bool,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        let watched = self.since.map_or(Duration::ZERO, |since| sight.now - since);
        let is_ready = |state| READY.contains(&state);
        let ready = sight.groups().iter().any(|group| {
            let oldest = group.oldest.first();
            is_ready(group.state) && oldest.is_some_and(|fom| fom.in_phase >= watch.starving)
        });
        for load in &sight.loads {
            let past = self.past.entry(load.index).or_default().look(watch, load);
            if is_standing(load.index) {
                continue;
            }
            let foms = match ready && watched >= watch.starving {
                true => waiting(runtime, watch, load.index),
                false => Vec::new(),
            };
            let now = foms.first().map(|fom| fom.times.in_phase.min(watched));
            if let Some(age) = now.max(past) {
                found.push(starvation(watch, load, age, &foms));
            }
        }
        found
    }
}

impl Past {
    /// Returns the longest delay of the last looks.
    fn look(&mut self, watch: &Watch, load: &LocalityInfo) -> Option<Duration> {
        let steps = load.measured.as_ref()?.ready.steps();
        let over = steps.iter().filter(|(bound, _)| *bound > watch.starving);
        let long: u64 = over.clone().map(|(_, count)| count).sum();
        if long > self.long {
            self.long = long;
            self.left = LOOKS;
            self.worst = over.map(|(bound, _)| *bound).max().unwrap_or_default();
        }
        self.left = self.left.checked_sub(1)?;
        Some(self.worst)
    }
}

/// Returns foms that have been ready since their submission, and have not run.
fn waiting(runtime: &Runtime, watch: &Watch, locality: usize) -> Vec<FomInfo> {
    let in_state = |state| {
        let filter = Filter::default()
            .state(state)
            .locality(locality)
            .in_phase(watch.starving);
        runtime.inspect().survey(&filter, &Page::of(MOST)).page
    };
    let mut foms: Vec<_> = READY.into_iter().flat_map(in_state).collect();
    foms.retain(|fom| !fom.begun);
    foms.sort_by_key(|fom| std::cmp::Reverse(fom.times.in_phase));
    foms
}

fn starvation(watch: &Watch, load: &LocalityInfo, age: Duration, foms: &[FomInfo]) -> Finding {
    let locality = locality_name(load.index);
    let text = match foms.len() {
        0 => format!("foms of {locality} were ready for up to {age:.1?} before they ran"),
        count => format!(
            "{count} foms of {locality} have been ready for up to {age:.1?}, and have not run"
        ),
    };
    let first = foms.first();
    let same = |of: &&FomInfo| foms.iter().all(|fom| fom.operation == of.operation);
    let place = first.filter(same).map(|fom| (fom.operation, fom.phase));
    Finding {
        kind: WarningKind::Starvation,
        level: Level::of_time(age, watch.starving),
        subject: locality,
        detail: String::new(),
        text,
        place: Place::of(place),
        ids: foms.iter().take(IDS).map(|fom| fom.id).collect(),
        foms: foms.len(),
        age,
        limit: Some(watch.starving),
        common: vec![format!("{} foms are ready in the locality", load.ready)],
        advice:
            "shorten the runs of the other foms, give the foms a higher priority, or add localities"
                .to_owned(),
    }
}
