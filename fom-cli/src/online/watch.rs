//! `fom watch`: asks for the warnings every second, and prints what is new.

use std::{
    collections::{HashMap, HashSet},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    client::Client,
    failure::Failure,
    output::Output,
    seen::{list, text, warning_name, whole},
};

/// The time between two requests. The watcher of a program looks once a second.
const STEP: Duration = Duration::from_secs(1);

/// What a program without warnings is told.
const UNWATCHED: &str = "the program does not watch, so only its incidents come; `Builder::watch` and `Inspector::warnings` add \
                         warnings";

pub(super) fn run(client: &Client, output: &mut Output<'_>) -> Result<(), Failure> {
    let mut known = Known::default();
    let (mut is_first, mut is_busy) = (true, false);
    loop {
        match client.get("warnings") {
            // The listing of the program takes long. The next one may not.
            Err(Failure::Refused { code, message }) if code == "busy" || code == "panicked" => {
                if !std::mem::replace(&mut is_busy, true) {
                    output.note(&message);
                }
            }
            answered => {
                let answer = answered?;
                is_busy = false;
                if std::mem::take(&mut is_first) && answer["warnings"].is_null() {
                    output.note(UNWATCHED);
                }
                for news in known.read(&answer) {
                    match output.is_json() {
                        true => output.object(&news.json())?,
                        false => print(&news, output)?,
                    }
                }
                // A reader of a pipe sees each line at once.
                output.flush()?;
            }
        }
        thread::sleep(STEP);
    }
}

/// What the command has printed.
#[derive(Debug, Default)]
struct Known {
    /// The warnings that were there at the last look, with what makes them new.
    warnings: HashMap<String, (String, Value)>,
    /// The numbers of the incidents that the program listed at the last look.
    incidents: HashMap<String, u64>,
}

/// What is new at a look.
#[derive(Debug, PartialEq)]
enum News {
    /// A warning that was not there, or that is now more severe, or that came back.
    Warning(Value),
    /// A warning whose condition has ended.
    Over(Value),
    /// An incident that happened, or happened again.
    Incident(Value),
}

impl News {
    fn json(&self) -> Value {
        match self {
            Self::Warning(warning) => json!({"news": "warning", "warning": warning}),
            Self::Over(warning) => json!({"news": "over", "warning": warning}),
            Self::Incident(incident) => json!({"news": "incident", "incident": incident}),
        }
    }
}

impl Known {
    /// Returns what is new in an answer.
    fn read(&mut self, answer: &Value) -> Vec<News> {
        let mut news = Vec::new();
        let mut there = HashSet::new();
        for warning in list(answer, "warnings") {
            let (mut name, state) = (warning_name(warning), state(warning));
            // The program's own warnings can have no detail.
            while there.contains(&name) {
                name.push('+');
            }
            let before = self
                .warnings
                .insert(name.clone(), (state.clone(), warning.clone()));
            if before.is_none_or(|(before, _)| before != state) {
                news.push(News::Warning(warning.clone()));
            }
            there.insert(name);
        }
        let mut over = Vec::new();
        self.warnings.retain(|name, (_, warning)| {
            let stays = there.contains(name);
            if !stays {
                over.push(News::Over(warning.take()));
            }
            stays
        });
        news.extend(over);
        // The program forgets its oldest incidents, and counts one that it has forgotten from the start.
        let before = std::mem::take(&mut self.incidents);
        for incident in list(answer, "incidents") {
            let (name, count) = (incident_name(incident), whole(incident, "count"));
            if before.get(&name) != Some(&count) {
                news.push(News::Incident(incident.clone()));
            }
            self.incidents.insert(name, count);
        }
        news
    }
}

/// Returns what tells an incident from others.
fn incident_name(of: &Value) -> String {
    let (kind, subject, text) = (text(of, "kind"), text(of, "subject"), text(of, "text"));
    format!("{kind}\n{subject}\n{text}")
}

/// Returns what makes a warning new, although it was there.
fn state(warning: &Value) -> String {
    format!("{} {}", text(warning, "level"), warning["times"])
}

fn print(news: &News, output: &mut Output<'_>) -> std::io::Result<()> {
    match news {
        News::Incident(incident) => {
            let (subject, text) = (text(incident, "subject"), text(incident, "text"));
            output.line(&format!("incident: {subject}: {text}"))
        }
        News::Over(warning) => output.line(&format!("over: {}", title(warning))),
        News::Warning(warning) => {
            output.line(&format!("{}: {}", text(warning, "level"), title(warning)))?;
            let ids: Vec<_> = list(warning, "ids").iter().map(Value::to_string).collect();
            if !ids.is_empty() {
                output.line(&format!("  foms: {}", ids.join(", ")))?;
            }
            for line in list(warning, "common").iter().filter_map(Value::as_str) {
                output.line(&format!("  {line}"))?;
            }
            match text(warning, "advice") {
                "" => Ok(()),
                advice => output.line(&format!("  advice: {advice}")),
            }
        }
    }
}

fn title(warning: &Value) -> String {
    let (kind, text) = (
        text(warning, "kind").replace('_', " "),
        text(warning, "text"),
    );
    match kind.is_empty() {
        true => text.to_owned(),
        false => format!("{kind}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(level: &str, text: &str) -> Value {
        json!({"kind": "hung", "subject": "Visit in Wait", "level": level, "text": text, "times": 1, "ids": [3]})
    }

    #[test]
    fn a_warning_is_new_once_for_each_level_and_over_at_its_end() {
        let mut known = Known::default();
        let (first, later) = (warning("warning", "60 s"), warning("warning", "61 s"));
        let severe = warning("severe", "240 s");
        let look = |of: &[&Value]| json!({"warnings": of, "incidents": []});
        assert_eq!(known.read(&look(&[&first])), [News::Warning(first)]);
        assert_eq!(known.read(&look(&[&later])), []);
        assert_eq!(
            known.read(&look(&[&severe])),
            [News::Warning(severe.clone())]
        );
        assert_eq!(known.read(&look(&[])), [News::Over(severe)]);
    }

    #[test]
    fn the_end_of_one_of_two_warnings_about_a_subject_is_told_of_that_one() {
        let mut known = Known::default();
        let detailed = |detail: &str| {
            let mut warning = warning("warning", detail);
            warning["detail"] = detail.into();
            warning
        };
        let (ready, waits) = (detailed("ready"), detailed("waiting: event"));
        let look = |of: &[&Value]| json!({"warnings": of, "incidents": []});
        assert_eq!(known.read(&look(&[&ready, &waits])).len(), 2);
        assert_eq!(known.read(&look(&[&waits])), [News::Over(ready)]);
    }

    #[test]
    fn an_incident_is_new_when_it_happens_again() {
        let mut known = Known::default();
        let look = |count: u64| {
            let incident =
                json!({"kind": "machine", "subject": "link", "text": "down", "count": count});
            json!({"warnings": null, "incidents": [incident]})
        };
        assert_eq!(known.read(&look(1)).len(), 1);
        assert_eq!(known.read(&look(1)).len(), 0);
        assert_eq!(known.read(&look(2)).len(), 1);
    }

    #[test]
    fn an_incident_that_the_program_forgot_is_new_again() {
        let mut known = Known::default();
        let look = |text: &str| {
            let incident = json!({"kind": "machine", "subject": "link", "text": text, "count": 1});
            json!({"warnings": null, "incidents": [incident]})
        };
        assert_eq!(known.read(&look("down")).len(), 1);
        assert_eq!(known.read(&look("slow")).len(), 1);
        assert_eq!(known.read(&look("down")).len(), 1);
        assert_eq!(known.incidents.len(), 1);
    }
}
