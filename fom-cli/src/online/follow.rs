//! `fom show --follow`: asks for the fom every half second, and prints what is new.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use super::failed;
use crate::{
    client::Client,
    failure::Failure,
    output::Output,
    seen::{list, number, state, text, waiting_for, whole},
};

/// The time between two requests.
const STEP: Duration = Duration::from_millis(500);

pub(super) fn run(client: &Client, id: u64, output: &mut Output<'_>) -> Result<(), Failure> {
    let mut followed = Followed::default();
    while let Some(answer) = client.find(&format!("foms/{id}"))? {
        followed.print(&answer, output)?;
        // A reader of a pipe sees each line at once.
        output.flush()?;
        thread::sleep(STEP);
    }
    let failed = failed::find(client, &id.to_string())?;
    let why = failed.first().map(failed::Failed::why);
    match (output.is_json(), why) {
        (true, why) => output.object(&json!({"id": id, "ended": true, "failure": why}))?,
        (false, None) => output.line(&format!("{id} has ended"))?,
        (false, Some(why)) => output.line(&format!("{id} has failed: {why}"))?,
    }
    Ok(())
}

/// What was printed of a fom.
#[derive(Default)]
struct Followed {
    /// The time of the last entry of its timeline.
    last: Option<f64>,
    /// Its state in words.
    state: String,
}

impl Followed {
    fn print(&mut self, answer: &Value, output: &mut Output<'_>) -> Result<(), Failure> {
        let fom = &answer["fom"];
        let state = format!(
            "{:<16} {:<9} {}",
            text(fom, "phase"),
            state(fom),
            waits_without_times(fom)
        );
        let is_new = self.state != state;
        self.state = state;
        if output.is_json() {
            return match is_new {
                true => Ok(output.object(answer)?),
                false => Ok(()),
            };
        }
        // The recorder also knows the phases between two requests.
        for entry in list(answer, "timeline") {
            let at = number(entry, "at");
            if self.last.is_none_or(|last| at > last) {
                output.line(&format!("{at:>12.3}  {}", self::entry(entry)))?;
            }
        }
        let times = list(answer, "timeline")
            .iter()
            .map(|entry| number(entry, "at"));
        self.last = times.fold(self.last, |last, at| {
            Some(last.map_or(at, |last| last.max(at)))
        });
        if is_new {
            let now = number(answer, "now");
            output.line(&format!("{now:>12.3}  {}", self.state.trim_end()))?;
        }
        Ok(())
    }
}

/// Returns what a fom waits for, and its failed attempts, in words that stay the same while nothing happens.
fn waits_without_times(fom: &Value) -> String {
    let mut fom = fom.clone();
    fom["deadline_in"] = Value::Null;
    let last = list(&fom, "attempts").last();
    let failed = last.map(|of| {
        format!(
            "attempt {} failed: {}",
            whole(of, "number"),
            text(of, "error")
        )
    });
    fom["attempts"] = json!([]);
    let waits = Some(waiting_for(&fom)).filter(|waits| !waits.is_empty());
    let all: Vec<_> = waits.into_iter().chain(failed).collect();
    all.join("; ")
}

/// Returns an entry of the flight recorder in words.
pub(super) fn entry(of: &Value) -> String {
    let by = of["by"]
        .as_u64()
        .map(|id| format!(" by {id}"))
        .unwrap_or_default();
    match text(of, "event") {
        "transition" => {
            let (from, to) = (of["from"].as_str(), of["to"].as_str());
            let (from, to) = (from.unwrap_or("begin"), to.unwrap_or("failed"));
            format!("{from} -> {to} ({})", text(of, "cause"))
        }
        "run_begins" | "panicked" => {
            format!(
                "{} in {}",
                text(of, "event").replace('_', " "),
                text(of, "phase")
            )
        }
        event => format!("{}{by}", event.replace('_', " ")),
    }
}
