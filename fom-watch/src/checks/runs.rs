//! Runs that take too long, and blocking that was not announced.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant as WallInstant},
};

use fom_runtime::{
    FomId, Runtime,
    observe::{FomInfo, LocalityInfo},
    time::Instant,
};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::locality_name,
    sight::Sight,
    threads::{self, Doing},
};

/// A suspicion must last for this real time. A clock that jumps is not enough.
const LASTS: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_millis(5);

/// For each locality with mail that it does not take: its runs, and since when.
#[derive(Default)]
pub(super) struct Runs(HashMap<usize, (u64, Instant)>);

impl Runs {
    pub(super) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
    ) -> Vec<Finding> {
        let mut suspects: Vec<(&LocalityInfo, Duration, Option<FomInfo>)> = Vec::new();
        for load in &sight.loads {
            if let Some((running, id)) = run(load) {
                self.0.remove(&load.index);
                if running >= watch.long_run {
                    suspects.push((load, running, runtime.operation(id)));
                }
            } else if let Some(age) = self.stands(load, sight.now)
                && age >= watch.long_run
            {
                suspects.push((load, age, None));
            }
        }
        // An announced section may last. The phase's own limit is for that.
        let is_announced = |fom: &Option<FomInfo>| fom.as_ref().is_some_and(|fom| fom.blocked);
        suspects.retain(|(_, _, fom)| !is_announced(fom));
        let until = WallInstant::now() + LASTS;
        while !suspects.is_empty() && WallInstant::now() < until {
            thread::sleep(STEP);
            let now = runtime.inspect().loads();
            suspects.retain(|(load, ..)| is_same(load, &now[load.index]));
        }
        let found = suspects.into_iter();
        found
            .map(|(load, age, fom)| long(watch, load, age, fom))
            .collect()
    }

    /// Returns how long a locality has not taken its mail, although it runs no fom.
    fn stands(&mut self, load: &LocalityInfo, now: Instant) -> Option<Duration> {
        if !load.has_mail {
            self.0.remove(&load.index);
            return None;
        }
        let (runs, since) = self.0.entry(load.index).or_insert((load.runs, now));
        if *runs != load.runs {
            (*runs, *since) = (load.runs, now);
        }
        Some(now - *since)
    }
}

/// Returns the current run of a locality, and its fom.
fn run(load: &LocalityInfo) -> Option<(Duration, FomId)> {
    let measured = load.measured.as_ref()?;
    Some((measured.running?, measured.running_fom?))
}

/// Returns whether the locality stands as it did before.
fn is_same(before: &LocalityInfo, now: &LocalityInfo) -> bool {
    match (run(before), run(now)) {
        (Some((earlier, one)), Some((later, other))) => one == other && later >= earlier,
        (None, None) => now.has_mail && now.runs == before.runs,
        _ => false,
    }
}

fn long(watch: &Watch, load: &LocalityInfo, age: Duration, fom: Option<FomInfo>) -> Finding {
    let locality = locality_name(load.index);
    let what = match &fom {
        Some(fom) => format!("{} {} in {}", fom.operation, fom.id, fom.phase),
        None => "a job or a part".to_owned(),
    };
    let (kind, text, advice) = match threads::look(load.index) {
        Doing::Sleeps => (
            WarningKind::UnannouncedBlocking,
            format!("{what} blocks {locality} for {age:.0?}, and has not announced it"),
            "call `cx.block()` before the call that blocks, or make the phase `blocking`",
        ),
        Doing::Runs => (
            WarningKind::LongRun,
            format!("{what} has run for {age:.0?} in {locality}, which does nothing else"),
            "divide the work, await in between, or make the phase `blocking`",
        ),
        Doing::Unknown => (
            WarningKind::LongRun,
            format!("{what} has run for {age:.0?} in {locality}, which does nothing else"),
            "if it computes, divide the work; if it blocks, call `cx.block()` before",
        ),
    };
    let held = load.foms.saturating_sub(usize::from(fom.is_some()));
    Finding {
        kind,
        level: Level::of_time(age, watch.long_run),
        subject: locality,
        detail: String::new(),
        text,
        place: Place::of(fom.as_ref().map(|fom| (fom.operation, fom.phase))),
        ids: fom.iter().map(|fom| fom.id).collect(),
        foms: usize::from(fom.is_some()),
        age,
        limit: Some(watch.long_run),
        common: vec![format!(
            "{held} other foms of the locality stand still, {} of them ready",
            load.ready
        )],
        advice: advice.to_owned(),
    }
}
