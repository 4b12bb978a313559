//! Foms: counted, listed, one alone, and found by a text.

use fom_runtime::{
    FomId, Key,
    machine::FomState,
    observe::{Cursor, Filter, FomInfo, Page, Sort, Survey},
};
use serde_json::{Value, json};

use super::{recorder, value};
use crate::{
    journal,
    problem::Problem,
    query::{Query, short},
    state::State,
};

/// The parameters that select foms, in a query and in the filter of an action: those before `sort`.
pub(crate) const FILTER: &[&str] = PARAMETERS.split_at(10).0;

const _: () = assert!(matches!(PARAMETERS[FILTER.len()].as_bytes(), b"sort"));

pub(super) const PARAMETERS: &[&str] = &[
    "type",
    "phase",
    "state",
    "wait",
    "key",
    "key_prefix",
    "locality",
    "in_phase",
    "age",
    "attempts",
    "sort",
    "limit",
    "oldest",
    "after",
];

const STATES: [(&str, FomState); 5] = [
    ("init", FomState::Init),
    ("ready", FomState::Ready),
    ("running", FomState::Running),
    ("waiting", FomState::Waiting),
    ("finished", FomState::Finished),
];

const SORTS: [(&str, Sort); 3] = [
    ("in_phase", Sort::InPhase),
    ("age", Sort::Age),
    ("id", Sort::Id),
];

/// The most foms on a page, and its default.
const LARGEST: usize = 1000;
const DEFAULT: usize = 50;
/// The most foms that a group names.
const OLDEST: usize = 20;
/// The most foms that a search returns.
const FOUND: usize = 20;

/// Returns what a query selects. The key can be a text or a number, and the API writes both alike: then there are two filters,
/// and the first one that covers a fom counts.
pub(crate) fn filter(state: &State, query: &Query) -> Result<Vec<Filter>, Problem> {
    let mut filter = Filter::default();
    if let Some(name) = query.text("type") {
        filter = filter.operation(operation(state, name)?);
    }
    if let Some(phase) = query.text("phase") {
        filter = filter.phase(phase);
    }
    if let Some(state) = query.choice("state", &STATES)? {
        filter = filter.state(state);
    }
    if let Some(kind) = query.text("wait") {
        filter = filter.waits_for(kind);
    }
    if let Some(index) = query.number("locality")? {
        filter = filter.locality(index);
    }
    if let Some(least) = query.seconds("in_phase")? {
        filter = filter.in_phase(least);
    }
    if let Some(least) = query.seconds("age")? {
        filter = filter.age(least);
    }
    if let Some(least) = query.number("attempts")? {
        filter = filter.attempts(least);
    }
    match (query.text("key"), query.text("key_prefix")) {
        (Some(_), Some(_)) => Err(Problem::query("use either `key` or `key_prefix`")),
        (Some(key), None) => {
            let keys = keys(key).into_iter();
            Ok(keys.map(|key| filter.clone().key(key)).collect())
        }
        (None, Some(prefix)) => Ok(vec![filter.key_prefix(prefix)]),
        (None, None) => Ok(vec![filter]),
    }
}

/// Returns the keys that the API writes as this text, without those of bytes and of pairs.
pub(crate) fn keys(text: &str) -> Vec<Key> {
    let number = text.parse::<u64>().ok();
    // Only `7` is written as `7`, and neither `+7` nor `07`.
    let number = number.filter(|number| number.to_string() == text);
    let text = Key::from(text);
    number.map(Key::from).into_iter().chain([text]).collect()
}

/// Returns the name of the operation of a type, which can also be that name.
fn operation(state: &State, name: &str) -> Result<&'static str, Problem> {
    let all = state.catalog.all();
    let is_operation =
        |one: &&std::sync::Arc<crate::catalog::Machine>| one.graph.operation() == name;
    match all.iter().find(is_operation) {
        Some(machine) => Ok(machine.graph.operation()),
        None => Ok(state.catalog.find(name)?.graph.operation()),
    }
}

pub(super) fn foms(state: &State, query: &Query) -> Result<Value, Problem> {
    let mut page = Page::of(query.up_to("limit", LARGEST, DEFAULT)?);
    page = page.sort(query.choice("sort", &SORTS)?.unwrap_or_default());
    page = page.oldest(query.up_to("oldest", OLDEST, 0)?);
    if let Some(cursor) = query.text("after") {
        let wrong = |_| Problem::query(format!("`after` is `{}`: pass `next`", short(cursor)));
        page = page.after(cursor.parse::<Cursor>().map_err(wrong)?);
    }
    let found = survey(state, &filter(state, query)?, &page);
    Ok(json!({
        "foms": found.foms,
        "groups": found.groups,
        "page": found.page,
        "next": found.next,
    }))
}

/// Returns the first survey that covers foms.
fn survey(state: &State, filters: &[Filter], page: &Page) -> Survey {
    let mut found = None;
    for filter in filters {
        let survey = state.runtime.inspect().survey(filter, page);
        let covers = survey.foms > 0;
        found = Some(survey);
        if covers {
            break;
        }
    }
    found.unwrap_or_else(|| state.runtime.inspect().survey(&Filter::default(), page))
}

/// Returns an id from a number.
pub(crate) fn id(number: u64) -> Option<FomId> {
    serde_json::from_value(number.into()).ok()
}

/// Returns the id of an entry in quarantine from a number.
pub(crate) fn entry(number: u64) -> Result<FomId, Problem> {
    id(number).ok_or_else(|| Problem::no_entry(number))
}

/// Returns whether a fom waits for its next attempt.
pub(crate) fn waits_for_attempt(fom: &FomInfo) -> bool {
    let mut waits = fom.waits.iter();
    waits.any(|wait| wait.on.kind() == "next attempt")
}

/// Describes a fom, or fails because it has ended.
pub(crate) fn info(state: &State, number: u64) -> Result<FomInfo, Problem> {
    let found = id(number).and_then(|id| state.runtime.operation(id));
    found.ok_or_else(|| Problem::no_fom(number))
}

pub(super) fn fom(state: &State, number: u64) -> Result<Value, Problem> {
    let info = info(state, number)?;
    let machine = state.catalog.machine_of(info.operation, info.phase);
    let name = machine.map_or_else(|_| info.operation.to_owned(), |of| of.name.clone());
    let actions = actions(state, &info);
    let timeline = recorder::timeline(state, info.id);
    let mut fom = value(&info);
    // The recorder knows the phases without a history, too.
    if info.past.history.is_empty() {
        let history = timeline.as_deref().map(recorder::history);
        fom["history"] = history.unwrap_or_default().into();
    }
    Ok(json!({"type": name, "fom": fom, "actions": actions, "timeline": timeline}))
}

/// Returns the data of a fom as of its last commit.
pub(super) fn data(state: &State, number: u64) -> Result<Value, Problem> {
    let Some(journal) = &state.data else {
        let message = "the inspector shows no data; the program allows it with `Inspector::data`";
        return Err(Problem::forbidden("data_off", message));
    };
    let id = id(number).ok_or_else(|| Problem::no_fom(number))?;
    journal::data(journal, id)
}

/// Returns the actions that apply to a fom now.
fn actions(state: &State, info: &FomInfo) -> Vec<&'static str> {
    if !state.acts {
        return Vec::new();
    }
    let mut actions = vec!["cancel", "wake"];
    if waits_for_attempt(info) {
        actions.push("next_attempt");
    }
    if let Ok(machine) = state.catalog.machine_of(info.operation, info.phase) {
        if state.types.send(machine.graph).is_some() {
            actions.push("send");
        }
        if info.key.is_some() && state.types.suspend(machine.graph).is_some() {
            actions.push("suspend");
        }
    }
    actions
}

pub(super) fn find(state: &State, query: &Query) -> Result<Value, Problem> {
    let text = query.text("q").unwrap_or_default();
    if text.is_empty() {
        return Err(Problem::query("`q` is the text to find: an id, a key or a name").allow(["q"]));
    }
    let by_id = text
        .parse()
        .ok()
        .and_then(|number| info(state, number).ok());
    let filter = Filter::default().key_prefix(text);
    let by_key = state.runtime.inspect().survey(&filter, &Page::of(FOUND));
    let more = by_key.next.is_some();
    let mut foms: Vec<FomInfo> = by_id.into_iter().collect();
    for fom in by_key.page {
        if foms.len() < FOUND && foms.iter().all(|one| one.id != fom.id) {
            foms.push(fom);
        }
    }
    Ok(json!({"q": text, "foms": foms, "machines": machines(state, text), "more": more}))
}

/// Returns the machines and phases whose names begin with this text, in any case of the letters.
fn machines(state: &State, text: &str) -> Vec<Value> {
    let text = text.to_lowercase();
    let begins = |name: &str| name.to_lowercase().starts_with(&text);
    let mut found = Vec::new();
    for machine in state.catalog.all().iter() {
        if begins(&machine.name) || begins(machine.graph.name()) {
            found.push(json!({"type": machine.name, "phase": null}));
        }
        let phases = machine.graph.phases().iter();
        for phase in phases.filter(|phase| begins(phase.name())) {
            found.push(json!({"type": machine.name, "phase": value(&phase.name())}));
        }
    }
    found.truncate(FOUND);
    found
}
