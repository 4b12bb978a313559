//! Foms that run again and again, and make no step.

use std::collections::HashMap;

use fom_runtime::{FomId, Runtime, observe::LocalityInfo, time::Instant};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::similar,
    sight::Sight,
};

/// The looks in a row that must see the same fom.
const LOOKS: u32 = 3;
/// The share of all runs that are without a step.
const SHARE: f64 = 0.9;

/// What the last looks saw, by locality.
#[derive(Default)]
pub(super) struct Storms(HashMap<usize, Seen>);

struct Seen {
    at: Instant,
    runs: u64,
    idle_runs: u64,
    fom: Option<FomId>,
    /// The looks in a row with a storm of this fom.
    looks: u32,
}

impl Storms {
    pub(super) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        for load in &sight.loads {
            if let Some((id, rate)) = self.look(watch, sight, load) {
                found.extend(storm(runtime, watch, id, rate));
            }
        }
        found
    }

    /// Returns the fom with a storm, and its runs a second.
    fn look(&mut self, watch: &Watch, sight: &Sight, load: &LocalityInfo) -> Option<(FomId, f64)> {
        let measured = load.measured.as_ref()?;
        let now = Seen {
            at: sight.now,
            runs: load.runs,
            idle_runs: measured.idle_runs,
            fom: measured.idle_fom,
            looks: 0,
        };
        let before = self.0.insert(load.index, now)?;
        let now = self.0.get_mut(&load.index)?;
        let time = (now.at - before.at).as_secs_f64();
        let (idle, runs) = (now.idle_runs - before.idle_runs, now.runs - before.runs);
        let rate = idle as f64 / time.max(f64::MIN_POSITIVE);
        let is_storm = time > 0.0
            && rate >= watch.storm as f64
            && idle as f64 >= runs as f64 * SHARE
            && now.fom == before.fom;
        let id = now.fom?;
        if !is_storm || sight.is_server(id) {
            return None;
        }
        now.looks = before.looks + 1;
        (now.looks >= LOOKS).then_some((id, rate))
    }
}

fn storm(runtime: &Runtime, watch: &Watch, id: FomId, rate: f64) -> Option<Finding> {
    // It may have ended just now.
    let fom = runtime.operation(id)?;
    let common = similar::common(runtime, std::slice::from_ref(&fom));
    Some(Finding {
        kind: WarningKind::WakeStorm,
        level: Level::of(rate, watch.storm as f64),
        subject: format!("{} in {}", fom.operation, fom.phase),
        detail: id.to_string(),
        text: format!(
            "{} {id} in {} runs {rate:.0} times a second, and makes no step",
            fom.operation, fom.phase
        ),
        place: Place::of(Some((fom.operation, fom.phase))),
        ids: vec![id],
        foms: 1,
        age: fom.times.in_phase,
        limit: None,
        common,
        advice: "a future that is not ready must wake its task only when something has changed"
            .to_owned(),
    })
}
