//! What some foms have in common, and what to do about it.

use std::time::Duration;

use fom_runtime::{
    Runtime,
    observe::{FomInfo, KeyInfo, WaitsFor},
};

/// The foms came into their phase within this time.
const TOGETHER: Duration = Duration::from_secs(1);

/// Returns what the foms have in common, in sentences.
pub(super) fn common(runtime: &Runtime, foms: &[FomInfo]) -> Vec<String> {
    let Some(first) = foms.first() else {
        return Vec::new();
    };
    let mut common = Vec::new();
    let same = |of: &dyn Fn(&FomInfo) -> Option<String>| {
        let one = of(first)?;
        foms.iter()
            .all(|fom| of(fom).as_ref() == Some(&one))
            .then_some(one)
    };
    if let Some(wait) = same(&FomInfo::waiting_for) {
        common.push(format!("waits for {wait}"));
    } else if let Some(kind) = same(&|fom| Some(fom.waits.first()?.on.kind().to_owned())) {
        common.push(format!(
            "all wait for one kind of thing: {kind}; the first for {}",
            waits(first)
        ));
    }
    common.extend(holder(runtime, foms));
    let error = |fom: &FomInfo| fom.past.attempts.last().map(|last| last.error.clone());
    if let Some(error) = same(&error) {
        let attempts = foms
            .iter()
            .map(|fom| fom.past.attempt)
            .max()
            .unwrap_or_default();
        common.push(format!(
            "{attempts} attempts failed, the last with: {error}"
        ));
    }
    if let Some(key) = same(&|fom| fom.key.as_ref().map(ToString::to_string)) {
        common.push(format!("key {key}"));
    }
    if foms.len() > 1 {
        if let Some(locality) = same(&|fom| Some(fom.home.locality.to_string())) {
            common.push(format!("locality {locality}"));
        }
        let last = foms
            .iter()
            .map(|fom| fom.times.in_phase)
            .min()
            .unwrap_or_default();
        if first.times.in_phase.saturating_sub(last) <= TOGETHER {
            common.push("came into the phase within one second".to_owned());
        }
    }
    common
}

fn waits(fom: &FomInfo) -> String {
    fom.waiting_for().unwrap_or_default()
}

/// Returns what the fom does that holds up all of these, or some.
fn holder(runtime: &Runtime, foms: &[FomInfo]) -> Option<String> {
    let waits = foms.iter().flat_map(|fom| &fom.waits);
    let holder = waits.flat_map(|wait| wait.holders()).next();
    if let Some(holder) = holder {
        let Some(id) = holder.fom else {
            return Some(format!("the holder is {}", holder.name));
        };
        return Some(match runtime.operation(id) {
            Some(info) => does(&info),
            None => format!("the holder, {}, is not in flight any more", holder.name),
        });
    }
    let turns = foms.iter().any(|fom| {
        let mut waits = fom.waits.iter();
        waits.any(|wait| matches!(wait.on, WaitsFor::Turn { .. }))
    });
    turns.then(|| no_holder(runtime, foms)).flatten()
}

/// Describes what a holder does.
fn does(info: &FomInfo) -> String {
    let name = match &info.key {
        Some(key) => format!("{} {} (key {key})", info.operation, info.id),
        None => format!("{} {}", info.operation, info.id),
    };
    let place = format!(
        "the holder {name} has been in {} for {:.0?}",
        info.phase, info.times.in_phase
    );
    match info.waiting_for() {
        Some(wait) => format!("{place}, and waits for {wait}"),
        None => format!("{place}, and is {}", info.state),
    }
}

/// Describes why foms wait for a key that no fom in flight has.
fn no_holder(runtime: &Runtime, foms: &[FomInfo]) -> Option<String> {
    let waits = |key: &KeyInfo| foms.iter().any(|fom| key.waiting.contains(&fom.id));
    let key = runtime.inspect().keys().into_iter().find(waits)?;
    if key.suspended > 0 {
        return Some(format!("key {} is suspended", key.key));
    }
    let quarantined = key
        .holders
        .iter()
        .find(|id| runtime.operation(**id).is_none())?;
    Some(format!(
        "the holder {} {quarantined} (key {}) is in quarantine",
        key.operation, key.key
    ))
}

/// Returns what to do about foms that wait for this kind of thing.
pub(super) fn advice(fom: Option<&FomInfo>, common: &[String]) -> String {
    let text = |words: &str| words.to_owned();
    let has = |word: &str| common.iter().any(|line| line.contains(word));
    if has("is in quarantine") {
        return text(
            "look at the operation in quarantine; retry or discard it, and the key is free",
        );
    }
    if has("is suspended") {
        return text("resume the key, by dropping its `SuspendedKey`");
    }
    let Some(wait) = fom.and_then(|fom| fom.waits.first()) else {
        return text(
            "see what the function of the phase does; a stack trace of the thread shows it",
        );
    };
    match &wait.on {
        WaitsFor::Event { takes: [] } => {
            text("the phase takes no event; only a wake, a cancel or a deadline ends its wait")
        }
        WaitsFor::Event { .. } => {
            text("find out why the sender does not send; a `within` ends the wait without it")
        }
        WaitsFor::NextAttempt { .. } => {
            text("remove the cause of the error; `Runtime::wake` starts the next attempt now")
        }
        WaitsFor::Turn { .. } => text("see what the holder of the key waits for, or cancel it"),
        WaitsFor::Journal => text("see whether the disk of the journal is slow or full"),
        WaitsFor::Blocking => text("give the blocking call a time limit of its own"),
        WaitsFor::Fom => text("look at the fom that it waits for"),
        WaitsFor::Resource(_) => {
            text("see why the resource does not answer; a `within` ends the wait")
        }
        WaitsFor::Timer => {
            text("if the long sleep is meant, write `hung = \"never\"` at the phase")
        }
        WaitsFor::Package { .. } if !wait.holders().is_empty() => {
            text("see what the holder waits for, or cancel it")
        }
        _ => text("see why what it waits for does not come; a `within` ends the wait"),
    }
}
