//! Foms that wait for each other in a cycle.

use std::collections::HashSet;

use fom_runtime::{FomId, Runtime, observe::Deadlock};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    sight::Sight,
};

/// Kinds of waits that are for no other fom.
const ALONE: &[&str] = &[
    "event",
    "timer",
    "next attempt",
    "gate",
    "resource",
    "journal",
    "blocking",
    "future",
];

/// The cycles that the last look saw.
#[derive(Default)]
pub(super) struct Cycles(HashSet<Vec<FomId>>);

impl Cycles {
    pub(super) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
    ) -> Vec<Finding> {
        // A look without foms knows nothing of cycles.
        if sight.foms().is_none() {
            return Vec::new();
        }
        let may_be = sight.groups().iter().any(|group| {
            let is_long = group
                .oldest
                .first()
                .is_some_and(|fom| fom.in_phase >= watch.every);
            is_long && group.wait.is_some_and(|wait| !ALONE.contains(&wait))
        });
        if !may_be {
            self.0.clear();
            return Vec::new();
        }
        let all = runtime.inspect().deadlocks();
        let seen: HashSet<_> = all.iter().map(ids).collect();
        // A cycle that resolves by itself is seen once.
        let stays = |cycle: &&Deadlock| self.0.contains(&ids(cycle));
        let found = all
            .iter()
            .filter(stays)
            .map(|cycle| finding(watch, cycle))
            .collect();
        self.0 = seen;
        found
    }
}

fn ids(cycle: &Deadlock) -> Vec<FomId> {
    let mut ids: Vec<_> = cycle.waits.iter().map(|wait| wait.fom).collect();
    ids.sort_unstable();
    ids
}

fn finding(watch: &Watch, cycle: &Deadlock) -> Finding {
    let first = cycle.waits.first();
    let age = cycle.waits.iter().map(|wait| wait.wait.waited).min();
    let age = age.unwrap_or_default();
    let text = cycle.to_string();
    Finding {
        kind: WarningKind::WaitCycle,
        level: Level::of_time(age, watch.hung.0),
        subject: first.map_or_else(String::new, |wait| format!("{} {}", wait.operation, wait.fom)),
        detail: ids(cycle).iter().map(FomId::to_string).collect::<Vec<_>>().join(", "),
        text: format!("{} foms wait for each other: {text}", cycle.waits.len()),
        place: Place::of(first.map(|wait| (wait.operation, wait.phase))),
        ids: cycle.waits.iter().map(|wait| wait.fom).collect(),
        foms: cycle.waits.len(),
        age,
        limit: None,
        common: cycle.waits.iter().map(|wait| format!("{wait} waits for {}", wait.wait)).collect(),
        advice: "cancel one of them now; to prevent it, take the locks in one order, or together as a `LockSet`".to_owned(),
    }
}
