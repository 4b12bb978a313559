//! What is told and kept of a run.

use std::{env, fmt::Write as _, fs, path::PathBuf, thread};

use crate::{
    choices::trimmed,
    run::Ran,
    timeline::{diagram, lines, trace},
};

/// Returns the name of the test that runs on this thread. With `--test-threads 1`, tests run on the main thread.
pub(crate) fn test() -> Option<String> {
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main");
    name.map(str::to_owned)
}

pub(crate) fn assert_same(seed: u64, one: &Ran, other: &Ran) {
    let differs = one
        .events
        .iter()
        .zip(&other.events)
        .position(|(a, b)| a != b);
    if let Some(at) = differs {
        let lines = |ran: &Ran| lines(&ran.events[at..=at]);
        panic!(
            "seed {seed} is not deterministic: transition {at} is\n{}and in a second run\n{}{CAUSES}",
            lines(one),
            lines(other)
        );
    }
    assert!(
        one.events.len() == other.events.len()
            && one.choices == other.choices
            && other.failure.is_none(),
        "seed {seed} is not deterministic: {} transitions with {} choices, and in a second run {} with {}{}.\n{CAUSES}",
        one.events.len(),
        one.choices.len(),
        other.events.len(),
        other.choices.len(),
        match &other.failure {
            Some(failure) => format!(", which fails: {failure}"),
            None => String::new(),
        },
    );
}

pub(crate) const CAUSES: &str = "Common causes: the order of a HashMap and the home of a key, which `fom_sim::interpose!()` at the top of \
    the test makes equal; `Instant::now`; a thread, a socket or a file of your own; a static that an earlier run has changed, for which there is `explore_isolated`.";

/// Returns what to tell of a run that has failed.
pub(crate) fn told(name: &str, seed: u64, ran: &Ran) -> String {
    let failure = ran.failure.as_deref().unwrap_or_default();
    let mut text = format!("seed {seed} fails: {failure}\n\n");
    let choices = trimmed(&ran.choices);
    let set = choices.iter().filter(|choice| **choice != 0).count();
    // Writing to a string never fails.
    let _ = writeln!(
        text,
        "{} choices, {set} of them not 0: {choices:?}\n",
        choices.len()
    );
    if !ran.events.is_empty() {
        let _ = writeln!(text, "{}\n{}", lines(&ran.events), diagram(&ran.events));
    }
    let trace = file(name, seed).with_extension("json");
    if trace.exists() {
        let _ = writeln!(text, "For Perfetto: {}", trace.display());
    }
    let test = test().unwrap_or_default();
    let _ = write!(text, "Again: FOM_SIM_SEED={seed} cargo test {test}");
    text
}

/// Returns the file of a failure.
pub(crate) fn file(name: &str, seed: u64) -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    // A test runs in the folder of its package, which may be in a workspace.
    let above = here.ancestors().map(|folder| folder.join("target"));
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.or_else(|| above.into_iter().find(|target| target.is_dir()));
    let folder = target.unwrap_or_else(|| "target".into()).join("fom-sim");
    folder.join(format!("{name}-{seed}.choices"))
}

/// Keeps the choices and the trace of a failure. The report has the choices, too, so a full disk loses nothing.
pub(crate) fn keep(name: &str, seed: u64, ran: &Ran) {
    let file = file(name, seed);
    let texts: Vec<_> = trimmed(&ran.choices).iter().map(u32::to_string).collect();
    if let Some(folder) = file.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(&file, texts.join(" "));
    let _ = fs::write(file.with_extension("json"), trace(&ran.events));
}

pub(crate) fn read(text: &str) -> Option<Vec<u32>> {
    text.split_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}
