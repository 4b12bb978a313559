//! Foms that have been in one phase for too long, whatever the runtime does with them.

use std::time::Duration;

use fom_runtime::{
    Runtime,
    machine::Hung,
    observe::{FomInfo, Group},
};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::{IDS, similar},
    sight::{self, Sight},
};

/// With fewer measured times, the limit does not follow from them.
const MEASURED: u64 = 100;
/// The share of the measured times, and how often it is allowed.
const SHARE: f64 = 0.999;
const TIMES: u32 = 8;
pub(super) fn check(runtime: &Runtime, watch: &Watch, sight: &Sight) -> Vec<Finding> {
    let groups = sight.groups().iter();
    groups
        .filter_map(|group| of_group(runtime, watch, sight, group))
        .collect()
}

/// Returns the limit of a phase, and whether it is declared. `None`: a fom may stay for any time.
fn limit(watch: &Watch, sight: &Sight, operation: &str, phase: &str) -> Option<(Duration, bool)> {
    let (least, first) = watch.hung;
    let Some((info, counted)) = sight.phase(operation, phase) else {
        return Some((first, false));
    };
    let declared = info.deadline();
    let within = declared.within().unwrap_or_default();
    match declared.hung() {
        Hung::After(limit) => Some((limit, true)),
        Hung::Never => None,
        _ => {
            let measured = match counted.times.quantile(SHARE) {
                Some(time) if counted.times.count() >= MEASURED => least.max(time * TIMES),
                _ => first,
            };
            Some((measured.max(within), false))
        }
    }
}

fn of_group(runtime: &Runtime, watch: &Watch, sight: &Sight, group: &Group) -> Option<Finding> {
    let (limit, is_declared) = limit(watch, sight, group.operation, group.phase)?;
    if group.oldest.first()?.in_phase < limit {
        return None;
    }
    let (mut infos, mut foms) = sight::oldest(runtime, group, limit);
    if !is_declared {
        // A deadline that a function said at run time, and that has not passed, ends the stay by itself.
        let before = infos.len();
        let passed = |fom: &FomInfo| fom.times.deadline_in.is_none_or(|left| left.is_zero());
        infos.retain(passed);
        // A fom can have moved between its count and its description.
        foms = foms.saturating_sub(before - infos.len());
    }
    let age = infos.first()?.times.in_phase;
    let common = similar::common(runtime, &infos);
    let advice = match sight::state(group) {
        "ready" => "see what runs in the locality of the fom; other foms have a higher priority, or one never gives the thread back".to_owned(),
        _ => similar::advice(infos.first(), &common),
    };
    let state = sight::state(group);
    let one = if foms == 1 { "fom has" } else { "foms have" };
    Some(Finding {
        kind: WarningKind::Hung,
        level: Level::of_time(age, limit),
        subject: format!("{} in {}", group.operation, group.phase),
        detail: match group.wait {
            Some(wait) => format!("{state}: {wait}"),
            None => state.to_owned(),
        },
        text: format!(
            "{foms} {one} been in {} of {} for up to {age:.0?}, {state}",
            group.phase, group.operation
        ),
        place: Place::of(Some((group.operation, group.phase))),
        ids: infos.iter().take(IDS).map(|fom| fom.id).collect(),
        foms,
        age,
        limit: Some(limit),
        common,
        advice,
    })
}
