//! The example that hangs in seven ways: each command names the culprits.

use fom_inspect::Inspector;
use fom_runtime::FomId;
use fom_watch::Warned as _;
use serde_json::Value;

use crate::{
    kit::{Running, Served, TOKEN, limited},
    stuck::example::Stuck,
};

#[path = "../../../examples/stuck.rs"]
#[allow(dead_code, reason = "the example has a main function, too")]
mod example;

#[test]
fn each_culprit_is_named() {
    limited(|| {
        let stuck = Stuck::start().unwrap();
        let of = stuck.runtime.detached();
        let inspector = Inspector::new(&stuck.runtime).actions(TOKEN);
        let inspector = inspector.warnings(move || of.inspect().warnings());
        let served = Served {
            runtime: stuck.runtime.detached(),
            inspector: inspector.start().unwrap(),
        };
        listed(&served, &stuck);
        waits(&served, &stuck);
        shown(&served, &stuck);
        watched(&served, &stuck);
        framed(&served, &stuck);
        stuck.end().unwrap();
    });
}

fn listed(served: &Served, stuck: &Stuck) {
    let listed = served.done(&["list"]);
    let holder = format!("its key, held by Visit {} (key guest)", stuck.event);
    for (fom, text) in [
        (stuck.event, "an event: Ring"),
        (stuck.key, &*holder),
        (stuck.in_front, "back door"),
        (stuck.behind, "front door"),
        (stuck.dials, "the line is engaged"),
        (stuck.blocks, "blocked"),
        (stuck.spins, "running"),
    ] {
        let line = listed
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{fom} ")));
        assert!(
            line.is_some_and(|line| line.contains(text)),
            "no `{text}` of {fom} in\n{listed}"
        );
    }
    let failed = served.done(&["list", "--failed"]);
    assert!(failed.contains(&stuck.failed.to_string()), "{failed}");
    assert!(failed.contains("the bank refuses 500 cents"), "{failed}");
}

fn waits(served: &Served, stuck: &Stuck) {
    let waits = served.done(&["waits"]);
    let cycle = waits
        .lines()
        .find(|line| line.starts_with("cycle of 2 foms"));
    let cycle = cycle.unwrap_or_else(|| panic!("no cycle in\n{waits}"));
    for fom in [stuck.in_front, stuck.behind] {
        assert!(
            cycle.contains(&format!("Visit {fom} in Enter waits for")),
            "{cycle}"
        );
    }
    assert!(
        waits.contains(&format!("its key, held by Visit {}", stuck.event)),
        "{waits}"
    );
}

fn shown(served: &Served, stuck: &Stuck) {
    for (fom, text) in [
        (stuck.event, "an event: Ring"),
        (stuck.key, "its key, held by"),
        (stuck.in_front, "back door"),
        (stuck.dials, "the line is engaged"),
        (stuck.blocks, "blocked"),
        (stuck.spins, "running"),
        (stuck.failed, "the bank refuses 500 cents"),
    ] {
        let shown = served.done(&["show", &fom.to_string()]);
        assert!(shown.contains(text), "no `{text}` of {fom} in\n{shown}");
    }
}

/// The culprits, with the kind of their warning.
fn culprits(stuck: &Stuck) -> [(FomId, &'static str); 7] {
    [
        (stuck.event, "hung"),
        (stuck.key, "hung"),
        (stuck.in_front, "wait_cycle"),
        (stuck.dials, "hung"),
        (stuck.blocks, "hung"),
        (stuck.spins, "long_run"),
        (stuck.failed, "quarantine"),
    ]
}

fn watched(served: &Served, stuck: &Stuck) {
    let mut watching = Running::new(served.command().args(["watch", "--json"]));
    let mut left = culprits(stuck).to_vec();
    while !left.is_empty() {
        let news: Value = serde_json::from_str(&watching.until("\"warning\"")).unwrap();
        let warning = &news["warning"];
        let ids = warning["ids"].as_array().unwrap();
        left.retain(|(fom, kind)| {
            let is_it = warning["kind"] == *kind && ids.iter().any(|id| *id == fom.get());
            !is_it
        });
    }
}

fn framed(served: &Served, stuck: &Stuck) {
    let frame = served.done(&["top"]);
    // Each fom is in a row of the oldest foms, of the warnings, or of the localities.
    for fom in [
        stuck.event,
        stuck.key,
        stuck.in_front,
        stuck.behind,
        stuck.dials,
        stuck.blocks,
        stuck.spins,
    ] {
        let id = fom.to_string();
        let is_named = frame.split_whitespace().any(|word| word == id);
        assert!(is_named, "no {fom} in\n{frame}");
    }
    assert!(frame.contains("1 quarantined"), "{frame}");
    // The locality names the fom that never gives the thread back.
    let spins = format!(" {} for ", stuck.spins);
    assert!(frame.contains(&spins), "no `{spins}` in\n{frame}");
    let all = &served.json(&["top"])[0];
    let warnings = all["warnings"]["warnings"].as_array().unwrap();
    for (fom, kind) in culprits(stuck) {
        let is_it = |warning: &&Value| {
            let ids = warning["ids"].as_array().unwrap();
            warning["kind"] == kind && ids.iter().any(|id| *id == fom.get())
        };
        assert!(
            warnings.iter().any(|warning| is_it(&warning)),
            "no {kind} of {fom}: {all}"
        );
    }
}
