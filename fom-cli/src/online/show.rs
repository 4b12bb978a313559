//! `fom show`.

use std::io;

use serde_json::Value;

use super::{failed, follow, fom};
use crate::{
    args::Follow,
    client::Client,
    failure::Failure,
    output::Output,
    seen::{attempt, holders, list, number, state, text, whole},
    words::time,
};

pub(super) fn run(client: &Client, show: &Follow, output: &mut Output<'_>) -> Result<(), Failure> {
    if show.follow {
        let id = fom::find_one(client, &show.fom)?;
        return follow::run(client, id.ok_or_else(|| fom::missing(&show.fom))?, output);
    }
    let mut found = 0;
    for fom in fom::find(client, &show.fom)? {
        let id = whole(&fom, "id");
        // It may have ended meanwhile.
        let Some(mut answer) = client.find(&format!("foms/{id}"))? else {
            continue;
        };
        let family = client.find(&format!("foms/{id}/family"))?;
        // A program that does not carry parents knows no children.
        if let Some(family) = family.filter(|family| family["children"].is_array()) {
            answer["family"] = family;
        }
        found += 1;
        match output.is_json() {
            true => output.object(&answer)?,
            false => print(&answer, output)?,
        }
    }
    for failed in failed::find(client, &show.fom)? {
        found += 1;
        match output.is_json() {
            true => output.object(&failed.json())?,
            false => print_failed(&failed, output)?,
        }
    }
    match found {
        0 => Err(fom::missing(&show.fom)),
        _ => Ok(()),
    }
}

/// Prints each property on a line of its own, and the lists below.
fn print(answer: &Value, output: &mut Output<'_>) -> io::Result<()> {
    let fom = &answer["fom"];
    for name in ["id", "operation", "key", "phase"] {
        property(name, &fom[name], output)?;
    }
    property("state", &state(fom).into(), output)?;
    let times = [
        ("in phase", "in_phase"),
        ("age", "age"),
        ("deadline in", "deadline_in"),
    ];
    for (name, field) in times {
        if let Some(seconds) = fom[field].as_f64() {
            property(name, &time(seconds).into(), output)?;
        }
    }
    let events = (number(fom, "events") > 0.0).then_some("events");
    for name in ["locality", "bytes"].into_iter().chain(events) {
        property(name, &fom[name], output)?;
    }
    family(&answer["family"], output)?;
    waits(list(fom, "waits"), output)?;
    attempts(list(fom, "attempts"), output)?;
    let now = number(answer, "now");
    let ago = |of: &Value| time((now - number(of, "at")).max(0.0));
    let history = list(fom, "history").iter();
    let history = history.map(|of| format!("{} entered {} ago", text(of, "phase"), ago(of)));
    below("history", history, output)?;
    let timeline = list(answer, "timeline").iter();
    let timeline = timeline.map(|of| format!("{:>12} ago  {}", ago(of), follow::entry(of)));
    below("timeline", timeline, output)?;
    let actions = list(answer, "actions").iter().filter_map(Value::as_str);
    let commands: Vec<_> = actions.map(command).collect();
    match commands.is_empty() {
        true => Ok(()),
        false => property("commands", &commands.join(", ").into(), output),
    }
}

fn family(family: &Value, output: &mut Output<'_>) -> io::Result<()> {
    property("parent", &family["parent"], output)?;
    let child = |of: &Value| {
        format!(
            "{} {} in {}",
            text(of, "operation"),
            of["id"],
            text(of, "phase")
        )
    };
    below(
        "children",
        list(family, "children").iter().map(child),
        output,
    )
}

/// Returns the command for an action of the API.
fn command(action: &str) -> &str {
    match action {
        "next_attempt" => "retry",
        action => action,
    }
}

fn waits(waits: &[Value], output: &mut Output<'_>) -> io::Result<()> {
    let mut lines = Vec::new();
    for wait in waits {
        let waited = time(number(wait, "waited"));
        lines.push(format!("{}, for {waited}", text(wait, "text")));
        // The text names the first one.
        let others = holders(wait).into_iter().skip(1);
        lines.extend(others.map(|name| format!("  also held by {name}")));
    }
    below("waits for", lines, output)
}

fn attempts(attempts: &[Value], output: &mut Output<'_>) -> io::Result<()> {
    below("attempts", attempts.iter().map(attempt), output)
}

fn print_failed(failed: &failed::Failed, output: &mut Output<'_>) -> io::Result<()> {
    let entry = &failed.entry;
    for name in ["id", "operation", "key", "phase"] {
        property(name, &entry[name], output)?;
    }
    property("state", &failed.state().into(), output)?;
    property("why", &failed.why().into(), output)?;
    // An entry of the quarantine has the failure of its operation inside.
    let failure = match &entry["failure"] {
        Value::Null => entry,
        inside => inside,
    };
    let path = list(failure, "path").iter().filter_map(Value::as_str);
    below("path", path.map(str::to_owned), output)?;
    attempts(list(failure, "attempts"), output)
}

fn property(name: &str, value: &Value, output: &mut Output<'_>) -> io::Result<()> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => output.line(&format!("{name:<13} {text}")),
        value => output.line(&format!("{name:<13} {value}")),
    }
}

/// Prints lines below their name, if there are any.
fn below(
    name: &str,
    lines: impl IntoIterator<Item = String>,
    output: &mut Output<'_>,
) -> io::Result<()> {
    for (place, line) in lines.into_iter().enumerate() {
        if place == 0 {
            output.line(name)?;
        }
        output.line(&format!("  {line}"))?;
    }
    Ok(())
}
