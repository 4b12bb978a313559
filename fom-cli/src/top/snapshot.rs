//! What the program answered, as a frame shows it.

use serde_json::Value;

use super::fetch::Answers;
use crate::{
    seen::{attempt, holders, list, named, number, state, text, waiting_for, warning_name, whole},
    words::time,
};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) program: Program,
    pub(super) machines: Vec<Machine>,
    /// The machine of the phases.
    pub(super) machine: String,
    pub(super) phases: Vec<Phase>,
    /// The foms that are longest in their phases.
    pub(super) foms: Vec<Fom>,
    pub(super) localities: Vec<Locality>,
    /// `None` if the program does not watch, or could not answer.
    pub(super) warnings: Option<Vec<Warning>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) pid: u64,
    /// How long it runs, in seconds.
    pub(super) now: f64,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
    pub(super) quarantine: Option<u64>,
    pub(super) incidents: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) in_flight: u64,
    /// Whether no fom has run yet.
    pub(super) is_unused: bool,
    /// By second, over the last 10 s.
    pub(super) started: Option<f64>,
    pub(super) ended: Option<f64>,
    pub(super) failing: Option<f64>,
    /// Since the start.
    pub(super) failed: u64,
    pub(super) late: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) foms: u64,
    pub(super) entered: Option<f64>,
    pub(super) left: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// How long its oldest fom is in it.
    pub(super) oldest: Option<f64>,
    /// Whether that is longer than the deadline, or than nearly all foms before it.
    pub(super) is_late: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fom {
    pub(super) id: u64,
    pub(super) named: String,
    pub(super) phase: String,
    pub(super) state: String,
    pub(super) in_phase: f64,
    pub(super) waits: String,
    /// What its own view shows.
    pub(super) detail: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Locality {
    pub(super) index: u64,
    /// The share of busy time in the last two seconds.
    pub(super) busy: Option<f64>,
    pub(super) foms: u64,
    pub(super) ready: u64,
    /// The fom that runs, and how long it does.
    pub(super) running: Option<(u64, f64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Warning {
    /// What tells it from others.
    pub(super) name: String,
    pub(super) level: String,
    pub(super) kind: String,
    pub(super) ids: Vec<u64>,
    pub(super) text: String,
    pub(super) detail: Vec<String>,
}

impl Snapshot {
    pub(super) fn of(answers: &Answers) -> Self {
        let oldest = oldest_by_phase(answers);
        let phases = list(&answers.machine, "phases").iter();
        // Nothing is in an end.
        let phases = phases.filter(|phase| phase["end"] != true);
        let warnings = answers.warnings["warnings"].as_array();
        let mut machines: Vec<_> = list(&answers.summary, "machines")
            .iter()
            .map(machine)
            .collect();
        // The program is linked with more machines than it runs.
        machines.sort_by_key(|of| of.is_unused);
        Self {
            program: program(&answers.summary),
            machines,
            machine: text(&answers.machine, "type").to_owned(),
            phases: phases.map(|of| phase(of, &oldest)).collect(),
            foms: list(&answers.foms, "page").iter().map(fom).collect(),
            localities: list(&answers.localities, "localities")
                .iter()
                .map(locality)
                .collect(),
            warnings: warnings.map(|all| all.iter().map(warning).collect()),
        }
    }
}

fn program(of: &Value) -> Program {
    Program {
        name: text(of, "program").to_owned(),
        pid: whole(of, "pid"),
        now: number(of, "now"),
        in_flight: whole(of, "in_flight"),
        queued: whole(of, "queued"),
        quarantine: of["quarantine"].as_u64(),
        incidents: whole(of, "incidents"),
    }
}

fn machine(of: &Value) -> Machine {
    let rate = |name: &str| of["rates"][name]["10s"].as_f64();
    Machine {
        name: text(of, "type").to_owned(),
        in_flight: whole(of, "in_flight"),
        is_unused: whole(of, "in_flight") == 0 && whole(of, "ended") == 0,
        started: rate("started"),
        ended: rate("ended"),
        failing: rate("failed"),
        failed: whole(of, "failed"),
        late: whole(of, "late"),
    }
}

/// Returns the phases of the machine with the time of their oldest foms.
fn oldest_by_phase(answers: &Answers) -> Vec<(String, f64)> {
    let operation = text(&answers.machine, "operation");
    let groups = list(&answers.foms, "groups").iter();
    let groups = groups.filter(|group| text(group, "operation") == operation);
    groups
        .filter_map(|group| {
            let oldest = list(group, "oldest").first()?;
            Some((text(group, "phase").to_owned(), number(oldest, "in_phase")))
        })
        .collect()
}

fn phase(of: &Value, oldest: &[(String, f64)]) -> Phase {
    let name = text(of, "phase");
    let here = oldest.iter().filter(|(phase, _)| phase == name);
    let oldest = here.map(|(_, time)| *time).reduce(f64::max);
    let within = of["deadline"]["within"].as_f64();
    let limit = within.or_else(|| of["p999"].as_f64());
    Phase {
        name: name.to_owned(),
        foms: whole(of, "foms"),
        entered: of["rates"]["in"]["10s"].as_f64(),
        left: of["rates"]["out"]["10s"].as_f64(),
        p50: of["p50"].as_f64(),
        p99: of["p99"].as_f64(),
        oldest,
        is_late: oldest
            .zip(limit)
            .is_some_and(|(oldest, limit)| oldest > limit),
    }
}

fn fom(of: &Value) -> Fom {
    let state = state(of);
    let waits = waiting_for(of);
    Fom {
        id: whole(of, "id"),
        named: named(of),
        phase: text(of, "phase").to_owned(),
        state: state.to_owned(),
        in_phase: number(of, "in_phase"),
        // A fom that waits for nothing runs, or is ready to.
        waits: if waits.is_empty() {
            state.to_owned()
        } else {
            waits
        },
        detail: fom_detail(of),
    }
}

fn fom_detail(of: &Value) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} {} in {}, {}",
            named(of),
            whole(of, "id"),
            text(of, "phase"),
            state(of)
        ),
        format!(
            "in its phase for {}, submitted {} ago, in locality {}, {} bytes",
            time(number(of, "in_phase")),
            time(number(of, "age")),
            whole(of, "locality"),
            whole(of, "bytes")
        ),
    ];
    for wait in list(of, "waits") {
        let waited = time(number(wait, "waited"));
        lines.push(format!("waits for {}, for {waited}", text(wait, "text")));
        lines.extend(
            holders(wait)
                .into_iter()
                .map(|name| format!("  held by {name}")),
        );
    }
    lines.extend(list(of, "attempts").iter().map(attempt));
    lines.push(String::new());
    lines.push(format!(
        "`fom show {0}` has all of it, `fom cancel {0}` ends it",
        whole(of, "id")
    ));
    lines
}

fn locality(of: &Value) -> Locality {
    let measured = &of["measured"];
    let running = measured["running_fom"].as_u64();
    Locality {
        index: whole(of, "index"),
        busy: list(of, "busy").last().and_then(Value::as_f64),
        foms: whole(of, "foms"),
        ready: whole(of, "ready"),
        running: running.zip(measured["running"].as_f64()),
    }
}

fn warning(of: &Value) -> Warning {
    let common = list(of, "common").iter().filter_map(Value::as_str);
    let mut detail = vec![format!("{}: {}", text(of, "level"), text(of, "text"))];
    let ids: Vec<_> = list(of, "ids").iter().filter_map(Value::as_u64).collect();
    if !ids.is_empty() {
        let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
        detail.push(format!("foms: {}", ids.join(", ")));
    }
    detail.extend(common.map(str::to_owned));
    let advice = text(of, "advice");
    if !advice.is_empty() {
        detail.push(String::new());
        detail.push(format!("advice: {advice}"));
    }
    Warning {
        name: warning_name(of),
        level: text(of, "level").to_owned(),
        kind: text(of, "kind").replace('_', " "),
        ids,
        text: text(of, "text").to_owned(),
        detail,
    }
}
