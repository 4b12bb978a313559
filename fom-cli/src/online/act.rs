//! The actions. Each has a reason, which the program keeps with the name of the user.

use std::env;

use serde_json::{Value, json};

use super::fom;
use crate::{
    args::{Act, Many, OfKey, Policy, Promote, Send},
    client::Client,
    failure::Failure,
    filter::Filter,
    output::Output,
    seen::{list, text, whole},
    words::plural,
};

/// The longest name of an actor in the API, in characters.
const ACTOR: usize = 100;

/// `fom cancel` and `fom wake`.
pub(super) fn many(
    client: &Client,
    action: &str,
    many: &Many,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    if let Some(filter) = &many.target.filter {
        return of_filter(client, action, filter, many, output);
    }
    let name = one_fom(many)?;
    let id = fom::find_one(client, name)?.ok_or_else(|| fom::missing(name))?;
    one(
        client,
        &many.act,
        json!({"action": action, "id": id}),
        output,
    )
}

/// Returns the key or the id of the only fom to act on.
pub(super) fn one_fom(many: &Many) -> Result<&str, Failure> {
    match (&many.target.fom, many.yes) {
        (Some(name), false) => Ok(name),
        _ => Err(Failure::usage(
            "`--yes` belongs to `--filter`; one fom needs none",
        )),
    }
}

/// `fom send`.
pub(super) fn send(client: &Client, send: &Send, output: &mut Output<'_>) -> Result<(), Failure> {
    let event = event(&send.event)?;
    let id = fom::find_one(client, &send.fom)?;
    let id = id.ok_or_else(|| fom::missing(&send.fom))?;
    let action = json!({"action": "send", "id": id, "event": event});
    one(client, &send.act, action, output)
}

/// `fom suspend` and `fom resume`.
pub(super) fn key(
    client: &Client,
    action: &str,
    of: &OfKey,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let action = json!({"action": action, "type": of.machine, "key": of.key});
    one(client, &of.act, action, output)
}

/// `fom policy`.
pub(super) fn policy(
    client: &Client,
    policy: &Policy,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let (admission, text) = (&policy.admission, &policy.policy);
    let action = json!({"action": "policy", "admission": admission, "policy": text});
    one(client, &policy.act, action, output)
}

/// `fom promote`.
pub(super) fn promote(
    client: &Client,
    promote: &Promote,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let (admission, of) = (&promote.admission, &promote.client);
    let action = json!({"action": "promote", "admission": admission, "client": of});
    one(client, &promote.act, action, output)
}

/// Carries out an action on one fom, one key, one admission or one entry.
pub(super) fn one(
    client: &Client,
    act: &Act,
    action: Value,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let answer = client.act(&with_reason(action, act))?;
    report(&answer, output)
}

/// Freezes the foms of a filter by a dry run, and acts on them if the user says so.
pub(super) fn of_filter(
    client: &Client,
    action: &str,
    filter: &str,
    many: &Many,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let filter = Filter::read([filter]).map_err(Failure::Usage)?;
    let dry = json!({"action": action, "filter": filter.json(), "dry_run": true});
    let frozen = client.act(&with_reason(dry, &many.act))?;
    let foms = plural(whole(&frozen, "foms"), "fom");
    if whole(&frozen, "foms") == 0 {
        return Err(Failure::new("no fom in flight matches the filter"));
    }
    if frozen["cut"] == true {
        output.note(&format!(
            "more match; this action reaches {foms}, so repeat it"
        ));
    }
    if many.yes {
        let real = json!({"action": action, "dry_run": frozen["dry_run"]});
        return one(client, &many.act, real, output);
    }
    if output.is_json() {
        return Ok(output.object(&frozen)?);
    }
    let ids = list(&frozen, "sample").iter().map(Value::to_string);
    let ids = ids.collect::<Vec<_>>().join(", ");
    let more = if whole(&frozen, "foms") > list(&frozen, "sample").len() as u64 {
        ", .."
    } else {
        ""
    };
    Ok(output.line(&format!(
        "the filter matches {foms}: {ids}{more}; with `--yes`, the command acts on them"
    ))?)
}

/// Prints what an action did.
fn report(answer: &Value, output: &mut Output<'_>) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(output.object(answer)?);
    }
    output.line(text(answer, "text"))?;
    let rest = list(answer, "rest");
    for left in rest {
        output.note(&format!(
            "left out {}: {}",
            whole(left, "id"),
            text(left, "why")
        ));
    }
    let more = whole(answer, "rest_total").saturating_sub(rest.len() as u64);
    if more > 0 {
        output.note(&format!("left out {more} more"));
    }
    Ok(())
}

fn with_reason(mut action: Value, act: &Act) -> Value {
    action["reason"] = act.reason.as_str().into();
    let user = env::var("USER").or_else(|_| env::var("LOGNAME"));
    if let Ok(user) = user {
        action["actor"] = user.chars().take(ACTOR).collect::<String>().into();
    }
    action
}

/// Reads an event. The name of one without data needs no quotes.
fn event(text: &str) -> Result<Value, Failure> {
    let is_name = |text: &str| {
        let is_letter = |letter: char| letter == '_' || letter.is_alphanumeric();
        text.starts_with(|first: char| first.is_alphabetic()) && text.chars().all(is_letter)
    };
    match serde_json::from_str(text) {
        Ok(event) => Ok(event),
        Err(_) if is_name(text) => Ok(text.into()),
        Err(error) => Err(Failure::usage(format!(
            "`{text}` is no event: {error}; write JSON such as '{{\"Say\": \"hello\"}}', or the name of an event without data"
        ))),
    }
}
