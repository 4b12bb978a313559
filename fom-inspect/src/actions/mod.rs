//! What clients do to the program. Each action is recorded as an incident.

mod bulk;
mod request;
mod single;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard},
};

use fom_runtime::observe::IncidentKind;
use serde_json::{Value, json};

use crate::{
    journal,
    problem::{Answered, Problem},
    resources::entry,
    state::State,
};

use bulk::DryRuns;
use request::{Action, Request};

/// The number of downloaded entries that the inspector remembers. Only such an entry can be discarded.
const DOWNLOADS: usize = 10_000;

/// The actions of an inspector.
#[derive(Debug)]
pub(crate) struct Actions {
    state: Arc<State>,
    dry_runs: DryRuns,
    /// The entries of the quarantine that were downloaded.
    downloaded: Mutex<HashSet<u64>>,
}

/// The result of an action.
struct Done {
    /// What was done, in a sentence without a subject.
    text: String,
    /// The number of foms, keys or entries that it was done to.
    done: usize,
    /// The part of the program that it was done to.
    subject: String,
    /// Those that were left out, with the reason.
    rest: Vec<Value>,
    /// The id of a new fom.
    id: Option<u64>,
}

impl Done {
    fn one(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            done: 1,
            subject: subject.into(),
            rest: Vec::new(),
            id: None,
        }
    }
}

/// The most foms in `rest` of an answer.
const REST: usize = 1000;

/// What an action can wait for.
pub(crate) enum WaitsFor {
    Journal,
    /// Code of the program, which may never return.
    Program,
    Nothing,
}

/// A request that can be carried out.
pub(crate) struct Prepared {
    request: Request,
    peer: String,
}

impl Prepared {
    /// Returns what the action waits for.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        match self.request.action {
            Action::Discard => WaitsFor::Journal,
            // Events and operations are read, and policies run, by code of the program.
            Action::Send | Action::Resubmit | Action::Policy | Action::Promote => WaitsFor::Program,
            _ => WaitsFor::Nothing,
        }
    }
}

impl Actions {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self {
            state,
            dry_runs: DryRuns::default(),
            downloaded: Mutex::default(),
        }
    }

    fn downloaded(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.downloaded
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Remembers that a client has the bytes of an entry.
    pub(crate) fn has_downloaded(&self, id: u64) {
        let mut downloaded = self.downloaded();
        if downloaded.len() == DOWNLOADS {
            downloaded.clear();
        }
        downloaded.insert(id);
    }

    pub(crate) fn read(body: &[u8], peer: &str) -> Result<Prepared, Problem> {
        let request = Request::read(body)?;
        let peer = peer.to_owned();
        Ok(Prepared { request, peer })
    }

    /// Carries out an action. It may call code of the program, and a discard waits for the journal.
    pub(crate) fn act(&self, prepared: &Prepared) -> Answered {
        let request = &prepared.request;
        if let Some(answer) = self.frozen(request)? {
            return Ok(answer);
        }
        let done = match bulk::carry_out(&self.state, &self.dry_runs, request)? {
            Some(done) => done,
            None if request.action == Action::Discard => self.discard(request.id()?)?,
            None => single::act(&self.state, request)?,
        };
        Ok(self.record(prepared, done))
    }

    /// Answers a dry run.
    fn frozen(&self, request: &Request) -> Result<Option<Value>, Problem> {
        bulk::freeze(&self.state, &self.dry_runs, request)
    }

    fn discard(&self, number: u64) -> Result<Done, Problem> {
        let id = entry(number)?;
        journal::bytes(&self.state.runtime, id)?;
        if !self.downloaded().contains(&number) {
            let message = format!("download journal/{number} first: nothing else has its bytes");
            return Err(Problem::conflict(message));
        }
        let text = journal::discard(&self.state.runtime, id)?;
        self.downloaded().remove(&number);
        Ok(Done::one(format!("entry {number}"), text))
    }

    /// Records an action, and makes its answer.
    fn record(&self, prepared: &Prepared, mut done: Done) -> Value {
        let request = &prepared.request;
        let (actor, reason) = (request.actor(&prepared.peer), request.reason());
        let text = format!("{actor} {}: {reason}", done.text);
        let runtime = &self.state.runtime;
        runtime.report(IncidentKind::Action, done.subject.clone(), text);
        let total = done.rest.len();
        done.rest.truncate(REST);
        let mut answer = json!({
            "action": request.action.name(),
            "done": done.done,
            "text": done.text,
            "rest": done.rest,
            "rest_total": total,
        });
        if let Some(id) = done.id {
            answer["id"] = id.into();
        }
        answer
    }
}
