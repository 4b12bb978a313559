//! Actions on one fom, one key or one entry.

use std::sync::Arc;

use fom_runtime::{Key, extension::CommandError, observe::FomInfo};

use super::{
    Done,
    request::{Action, KeyText, Request},
};
use crate::{
    catalog::Machine,
    journal,
    problem::Problem,
    query::short,
    resources::{entry, id, info, keys, waits_for_attempt},
    state::State,
    types::{NotSent, Receiver},
};

pub(super) fn act(state: &State, request: &Request) -> Result<Done, Problem> {
    match request.action {
        Action::Cancel => cancel(state, request),
        Action::Wake => wake(state, request),
        Action::NextAttempt => next_attempt(state, request),
        Action::Resubmit => resubmit(state, request),
        Action::Retry => retry(state, request),
        Action::Suspend => suspend(state, request),
        Action::Resume => resume(state, request),
        Action::Send => send(state, request),
        Action::Policy => to_admission(state, request, "policy", &request.policy),
        Action::Promote => to_admission(state, request, "client", &request.client),
        // The caller carries it out.
        Action::Discard => Err(Problem::conflict("a discard waits for the journal")),
    }
}

/// Returns a fom in words, without its phase.
fn name(fom: &FomInfo) -> String {
    match &fom.key {
        Some(key) => format!(
            "{} {} (key {})",
            fom.operation,
            fom.id,
            short(&key.to_string())
        ),
        None => format!("{} {}", fom.operation, fom.id),
    }
}

fn cancel(state: &State, request: &Request) -> Result<Done, Problem> {
    let number = request.id()?;
    let fom = info(state, number)?;
    if !state.runtime.cancel(fom.id) {
        return Err(Problem::no_fom(number));
    }
    let text = format!("cancelled {} in {}", name(&fom), fom.phase);
    Ok(Done::one(name(&fom), text))
}

fn wake(state: &State, request: &Request) -> Result<Done, Problem> {
    let number = request.id()?;
    let fom = info(state, number)?;
    if !state.runtime.wake(fom.id) {
        return Err(Problem::no_fom(number));
    }
    let text = format!("woke {} in {}", name(&fom), fom.phase);
    Ok(Done::one(name(&fom), text))
}

fn next_attempt(state: &State, request: &Request) -> Result<Done, Problem> {
    let number = request.id()?;
    let fom = info(state, number)?;
    if !waits_for_attempt(&fom) {
        let waits = fom.waiting_for().unwrap_or_else(|| "nothing".into());
        let message = format!("{} waits for no attempt, but for {waits}", name(&fom));
        return Err(Problem::conflict(message));
    }
    if !state.runtime.wake(fom.id) {
        return Err(Problem::no_fom(number));
    }
    let text = format!("began the next attempt of {} in {}", name(&fom), fom.phase);
    Ok(Done::one(name(&fom), text))
}

fn resubmit(state: &State, request: &Request) -> Result<Done, Problem> {
    let number = request.id()?;
    let mut failures = state.runtime.inspect().failures().into_iter();
    let found = failures.find(|failed| failed.id.get() == number);
    let missing = || Problem::not_found(format!("no failure has the id {number}; see `failures`"));
    let failed = found.ok_or_else(missing)?;
    let subject = format!("{} {}", failed.operation, failed.id);
    let Some(snapshot) = &failed.snapshot else {
        let message = format!("{subject} has no snapshot: it cannot be submitted again");
        return Err(Problem::conflict(message));
    };
    let machine = state.catalog.machine_of(failed.operation, failed.phase)?;
    let Some(resubmit) = state.types.resubmit(machine.graph) else {
        return Err(unnamed(state, &machine, "persistent"));
    };
    let new = resubmit(&state.runtime, snapshot, failed.key.as_ref()).map_err(Problem::conflict)?;
    let text = format!("submitted {subject} again in {}, as {new}", failed.phase);
    Ok(Done {
        id: Some(new.get()),
        ..Done::one(subject, text)
    })
}

/// The program did not name the type to its inspector.
fn unnamed(state: &State, machine: &Machine, call: &str) -> Problem {
    let operation = machine.graph.operation();
    let message =
        format!("the program does not allow it; `Inspector::{call}::<{operation}>()` does");
    let can = |one: &Arc<Machine>| match call {
        "persistent" => state.types.resubmit(one.graph).is_some(),
        "event" => state.types.send(one.graph).is_some(),
        _ => state.types.suspend(one.graph).is_some(),
    };
    let all = state.catalog.all();
    let allowed = all.iter().filter(|one| can(one));
    Problem::conflict(message).allow(allowed.map(|one| one.name.clone()))
}

fn retry(state: &State, request: &Request) -> Result<Done, Problem> {
    let number = request.id()?;
    let text = journal::retry(&state.runtime, entry(number)?)?;
    Ok(Done::one(format!("entry {number}"), text))
}

/// A key of an operation type.
struct KeyOf {
    machine: Arc<Machine>,
    key: Key,
    text: String,
}

/// Returns the key that a request names: that of a fom, or one with its type.
fn key_of(state: &State, request: &Request) -> Result<KeyOf, Problem> {
    if let Some(number) = request.id {
        let fom = info(state, number)?;
        let machine = state.catalog.machine_of(fom.operation, fom.phase)?;
        let missing = || Problem::conflict(format!("{} has no key", name(&fom)));
        let key = fom.key.clone().ok_or_else(missing)?;
        let text = key.to_string();
        return Ok(KeyOf { machine, key, text });
    }
    let (Some(name), Some(key)) = (&request.name, &request.key) else {
        let action = request.action.name();
        let message = format!("`{action}` needs `type` and `key`, or the `id` of a fom");
        return Err(Problem::body(message));
    };
    let machine = state.catalog.find(name)?;
    let text = key.text();
    let key = match key {
        KeyText::Number(number) => Key::from(*number),
        KeyText::Text(text) => known(state, &machine, text),
    };
    Ok(KeyOf { machine, key, text })
}

/// Returns the key with this text that foms wait for, also a number or a pair. Otherwise the text itself is the key.
fn known(state: &State, machine: &Machine, text: &str) -> Key {
    let is_it = |key: &fom_runtime::observe::KeyInfo| {
        key.operation == machine.graph.operation() && !key.is_serial && key.key.to_string() == text
    };
    let found = state.runtime.inspect().keys().into_iter().find(is_it);
    found.map_or_else(|| Key::from(text), |found| found.key)
}

fn suspend(state: &State, request: &Request) -> Result<Done, Problem> {
    let KeyOf { machine, key, text } = key_of(state, request)?;
    let Some(suspend) = state.types.suspend(machine.graph) else {
        return Err(unnamed(state, &machine, "operation"));
    };
    let operation = machine.graph.operation();
    let subject = format!("{operation} key {}", short(&text));
    let suspend = || suspend(&state.runtime, key);
    if !state.suspended.suspend(operation, &text, suspend) {
        let message = format!("{subject} is suspended already");
        return Err(Problem::conflict(message));
    }
    let text = format!("suspended {subject}");
    Ok(Done::one(subject, text))
}

fn resume(state: &State, request: &Request) -> Result<Done, Problem> {
    let KeyOf { machine, text, .. } = key_of(state, request)?;
    let operation = machine.graph.operation();
    let subject = format!("{operation} key {}", short(&text));
    if !state.suspended.resume(operation, &text) {
        let message = format!("the inspector has not suspended {subject}");
        return Err(Problem::conflict(message));
    }
    let text = format!("resumed {subject}");
    Ok(Done::one(subject, text))
}

/// Gives an admission the command with the name of the action.
fn to_admission(
    state: &State,
    request: &Request,
    needs: &str,
    argument: &Option<String>,
) -> Result<Done, Problem> {
    let command = request.action.name();
    let (Some(name), Some(argument)) = (&request.admission, argument) else {
        let message = format!("`{command}` needs `admission`, a name, and `{needs}`, a text");
        return Err(Problem::body(message));
    };
    let extension = state.runtime.extension();
    let done = extension.command("admission", name, command, argument);
    let done = done.map_err(|error| match error {
        CommandError::NoPart { .. } => Problem::not_found(error.to_string()),
        _ => Problem::conflict(error.to_string()),
    })?;
    let subject = format!("admission {}", short(name));
    let text = format!("{done} in {subject}");
    Ok(Done::one(subject, text))
}

fn send(state: &State, request: &Request) -> Result<Done, Problem> {
    let missing = |what: &str| Problem::body(format!("`send` needs {what}"));
    let event = request.event.clone();
    let event = event.ok_or_else(|| missing("`event`, as serde's JSON of the event type"))?;
    let machine = match (&request.name, request.id) {
        (Some(name), _) => state.catalog.find(name)?,
        (None, Some(number)) => {
            let fom = info(state, number)?;
            state.catalog.machine_of(fom.operation, fom.phase)?
        }
        (None, None) => return Err(missing("`type` and `key`, or `id`")),
    };
    let Some(send) = state.types.send(machine.graph) else {
        return Err(unnamed(state, &machine, "event"));
    };
    let receivers: Vec<_> = match (request.id.and_then(id), &request.key) {
        (Some(id), None) => vec![Receiver::Id(id)],
        (None, Some(KeyText::Number(key))) => vec![Receiver::Key(Key::from(*key))],
        (None, Some(KeyText::Text(key))) => keys(key).into_iter().map(Receiver::Key).collect(),
        _ => return Err(missing("either `id` or `key`")),
    };
    let operation = machine.graph.operation();
    for receiver in receivers {
        match send(&state.runtime, &receiver, event.clone()) {
            Ok(id) => {
                let subject = format!("{operation} {id}");
                let text = format!("sent {} to {subject}", short(&event.to_string()));
                return Ok(Done::one(subject, text));
            }
            Err(NotSent::NoFom) => {}
            Err(NotSent::Unreadable(error)) => {
                let message = format!("`event` is no event of {operation}: {error}");
                return Err(Problem::body(message));
            }
            Err(NotSent::Ended) => return Err(Problem::conflict("the fom has ended")),
            Err(NotSent::Full) => {
                let message = "the mailbox of the fom is full; send the event later";
                return Err(Problem::conflict(message));
            }
        }
    }
    let message = format!("no {operation} in flight has this id or key");
    Err(Problem::not_found(message))
}
