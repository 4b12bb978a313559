//! Operations in quarantine.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use fom_runtime::{Runtime, snapshot::Quarantined, time::Instant};

use crate::{
    Level, WarningKind,
    board::{Finding, Place},
    checks::IDS,
};

/// The list has up to some ten thousand entries, so it is not read in each look.
const EVERY: Duration = Duration::from_secs(10);
/// The number of operations of one phase that is a first level.
const FEW: f64 = 10.0;

/// What the last look at the quarantine found, and when the next one is due.
#[derive(Default)]
pub(super) struct Quarantine {
    due: Option<Instant>,
    found: Vec<Finding>,
}

impl Quarantine {
    pub(super) fn check(&mut self, runtime: &Runtime, now: Instant) -> Vec<Finding> {
        if self.due.is_none_or(|due| now >= due) {
            self.due = Some(now + EVERY);
            let mut groups: BTreeMap<String, Vec<Quarantined>> = BTreeMap::new();
            for one in runtime.inspect().quarantined() {
                groups.entry(subject(&one)).or_default().push(one);
            }
            self.found = groups.into_iter().filter_map(finding).collect();
        }
        self.found.clone()
    }
}

fn subject(of: &Quarantined) -> String {
    let operation = of.operation.as_deref().unwrap_or("an unknown operation");
    match &of.phase {
        Some(phase) => format!("{operation} in {phase}"),
        None => operation.to_owned(),
    }
}

fn finding((subject, all): (String, Vec<Quarantined>)) -> Option<Finding> {
    let last = all.last()?;
    let foms = all.len();
    let ages = all.iter().filter_map(|one| Some(one.failure.as_ref()?.age));
    let place = Place {
        operation: last.operation.clone().map(Cow::Owned),
        phase: last.phase.clone().map(Cow::Owned),
    };
    let are = if foms == 1 { "is" } else { "are" };
    Some(Finding {
        kind: WarningKind::Quarantine,
        level: Level::of(foms as f64, FEW),
        text: format!("{foms} of {subject} {are} in quarantine, and will not run"),
        subject,
        detail: String::new(),
        place,
        ids: all.iter().take(IDS).map(|one| one.id).collect(),
        foms,
        age: ages.max().unwrap_or_default(),
        limit: None,
        common: common(&all, last),
        advice: "remove the cause, then retry or discard the operation: `runtime.quarantine()` of `fom-durable`".to_owned(),
    })
}

fn cause(of: &Quarantined) -> Option<&str> {
    of.failure.as_ref().map(|failure| &*failure.cause)
}

/// Returns what the operations have in common, in sentences.
fn common(all: &[Quarantined], last: &Quarantined) -> Vec<String> {
    let mut common = Vec::new();
    if all.iter().all(|one| one.reason == last.reason) {
        common.push(format!("the reason: {}", last.reason));
    }
    if let Some(text) = cause(last)
        && all.iter().all(|one| cause(one) == Some(text))
    {
        common.push(format!("the cause: {text}"));
    }
    if let Some(key) = &last.key
        && all.iter().all(|one| one.key.as_ref() == Some(key))
    {
        common.push(format!("key {key}"));
    }
    common.push(format!("the last one: {last}"));
    common
}
