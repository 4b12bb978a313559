//! Actions on all foms of a filter: a dry run first.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fom_runtime::{FomId, observe::Filter};
use serde_json::{Value, json};

use super::{
    Done,
    request::{Action, DryRun, Request},
};
use crate::{
    problem::Problem,
    query::short,
    resources::{filter, waits_for_attempt},
    state::State,
};

/// How long a dry run can be carried out.
const VALID: Duration = Duration::from_secs(60);
/// The most foms of a dry run.
const FOMS: usize = 10_000;
/// The most dry runs at a time.
const RUNS: usize = 32;
/// The ids that the answer to a dry run shows.
const SAMPLE: usize = 20;

/// The dry runs that can be carried out, by name.
#[derive(Debug, Default)]
pub(super) struct DryRuns {
    runs: Mutex<HashMap<String, Frozen>>,
    number: AtomicU64,
    random: RandomState,
}

#[derive(Debug)]
struct Frozen {
    action: Action,
    filters: Vec<Filter>,
    ids: HashSet<FomId>,
    at: Instant,
}

impl DryRuns {
    /// Returns the dry runs that are valid.
    fn valid(&self) -> MutexGuard<'_, HashMap<String, Frozen>> {
        let runs = self.runs.lock();
        let mut runs = runs.unwrap_or_else(|poisoned| poisoned.into_inner());
        runs.retain(|_, run| run.at.elapsed() < VALID);
        runs
    }

    fn keep(&self, run: Frozen) -> String {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "{number:x}-{:06x}",
            self.random.hash_one(number) & 0xff_ffff
        );
        let mut runs = self.valid();
        if runs.len() == RUNS {
            let oldest = runs.iter().min_by_key(|(_, run)| run.at);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.map(|name| runs.remove(&name));
        }
        runs.insert(name.clone(), run);
        name
    }
}

fn is_for_many(action: Action) -> bool {
    matches!(action, Action::Cancel | Action::Wake | Action::NextAttempt)
}

/// Freezes the ids of the foms that a filter covers, if the request is a dry run.
pub(super) fn freeze(
    state: &State,
    runs: &DryRuns,
    request: &Request,
) -> Result<Option<Value>, Problem> {
    let query = match (request.filter()?, &request.dry_run) {
        (Some(query), Some(DryRun::Is(true))) => query,
        (None, Some(DryRun::Named(_)) | None | Some(DryRun::Is(false))) => return Ok(None),
        (None, Some(DryRun::Is(true))) => {
            return Err(Problem::body("a dry run needs a `filter`"));
        }
        (Some(_), _) => {
            let message = "a filter needs `\"dry_run\": true`; then name the dry run without it";
            return Err(Problem::body(message));
        }
    };
    let action = request.action;
    if !is_for_many(action) || request.id.is_some() {
        let message = "only these actions apply to all foms of a filter";
        return Err(Problem::body(message).allow(["cancel", "wake", "next_attempt"]));
    }
    let filters = filter(state, &query)?;
    let mut ids = HashSet::new();
    let mut more = false;
    for filter in &filters {
        // Only the ids are of interest.
        let _ = state.runtime.inspect().matching(filter, |fom| {
            let id = fom.id();
            more |= ids.len() == FOMS && !ids.contains(&id);
            if ids.len() < FOMS {
                ids.insert(id);
            }
            false
        });
    }
    let mut sample: Vec<_> = ids.iter().copied().collect();
    sample.sort_unstable();
    sample.truncate(SAMPLE);
    let foms = ids.len();
    let name = runs.keep(Frozen {
        action,
        filters,
        ids,
        at: Instant::now(),
    });
    Ok(Some(json!({
        "action": action.name(),
        "dry_run": name,
        "foms": foms,
        "sample": sample,
        "cut": more,
        "expires_in": VALID.as_secs_f64(),
    })))
}

/// Carries a dry run out, if the request names one: acts on the foms that still match.
pub(super) fn carry_out(
    state: &State,
    runs: &DryRuns,
    request: &Request,
) -> Result<Option<Done>, Problem> {
    let Some(DryRun::Named(name)) = &request.dry_run else {
        return Ok(None);
    };
    let run = take(runs, name, request.action)?;
    let mut left = run.ids;
    let (mut done, mut rest) = (0, Vec::new());
    for filter in &run.filters {
        for fom in state
            .runtime
            .inspect()
            .matching(filter, |fom| left.contains(&fom.id()))
        {
            left.remove(&fom.id());
            match run.action {
                Action::Cancel => fom.cancel(),
                Action::NextAttempt if !waits_for_attempt(&fom.info()) => {
                    rest.push(json!({"id": fom.id(), "why": "it waits for no attempt"}));
                    continue;
                }
                _ => fom.wake(),
            }
            done += 1;
        }
    }
    let mut gone: Vec<_> = left.into_iter().collect();
    gone.sort_unstable();
    let why = "it has ended, or no longer matches";
    rest.extend(gone.iter().map(|id| json!({"id": id, "why": why})));
    let verb = match run.action {
        Action::Cancel => "cancelled",
        Action::NextAttempt => "began the next attempt of",
        _ => "woke",
    };
    let foms = if done == 1 { "fom" } else { "foms" };
    Ok(Some(Done {
        text: format!("{verb} {done} {foms}"),
        done,
        subject: format!("dry run {name}"),
        rest,
        id: None,
    }))
}

/// Takes a dry run, which works once.
fn take(runs: &DryRuns, name: &str, action: Action) -> Result<Frozen, Problem> {
    let mut runs = runs.valid();
    match runs.get(name) {
        Some(run) if run.action != action => {
            let message = format!("`{}` is a dry run of `{}`", short(name), run.action.name());
            Err(Problem::conflict(message))
        }
        _ => runs.remove(name).ok_or_else(|| {
            let seconds = VALID.as_secs();
            let message = format!(
                "there is no dry run `{}`: each works once, within {seconds} s; make a new one",
                short(name)
            );
            Problem::conflict(message)
        }),
    }
}
