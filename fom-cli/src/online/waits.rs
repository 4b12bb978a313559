//! `fom waits`: the cycles, and then which fom waits for which.

use std::io;

use serde_json::{Value, json};

use crate::{
    client::Client,
    failure::Failure,
    output::Output,
    seen::{list, named, number, text, whole},
    words::{plural, time},
};

pub(super) fn run(client: &Client, output: &mut Output<'_>) -> Result<(), Failure> {
    let answer = client.get("waits")?;
    let (waits, cycles) = (list(&answer, "waits"), list(&answer, "deadlocks"));
    for cycle in cycles {
        match output.is_json() {
            true => output.object(&json!({"kind": "cycle", "waits": cycle["waits"]}))?,
            false => output.line(&described(cycle))?,
        }
    }
    if !output.is_json() && !waits.is_empty() {
        head(output)?;
    }
    for wait in waits {
        if output.is_json() {
            let mut object = json!({"kind": "wait"});
            for (name, value) in wait.as_object().into_iter().flatten() {
                object[name.as_str()] = value.clone();
            }
            output.object(&object)?;
        } else {
            line(wait, output)?;
        }
    }
    let all = whole(&answer, "total");
    if all > waits.len() as u64 {
        output.note(&format!("{} of {}", waits.len(), plural(all, "wait")));
    }
    Ok(())
}

/// Returns a cycle in a sentence.
fn described(cycle: &Value) -> String {
    let links = list(cycle, "waits");
    let link = |of: &Value| {
        let (id, phase) = (whole(of, "fom"), text(of, "phase"));
        format!(
            "{} {id} in {phase} waits for {}",
            named(of),
            text(&of["wait"], "text")
        )
    };
    let links: Vec<_> = links.iter().map(link).collect();
    let foms = links.len();
    format!("cycle of {foms} foms: {}", links.join("; "))
}

fn head(output: &mut Output<'_>) -> io::Result<()> {
    output.line(&format!(
        "{:>8} {:<24} {:<16} {:>12} waits for",
        "id", "operation and key", "phase", "waited"
    ))
}

fn line(of: &Value, output: &mut Output<'_>) -> io::Result<()> {
    let wait = &of["wait"];
    output.line(&format!(
        "{:>8} {:<24} {:<16} {:>12} {}",
        whole(of, "fom"),
        named(of),
        text(of, "phase"),
        time(number(wait, "waited")),
        text(wait, "text")
    ))
}
