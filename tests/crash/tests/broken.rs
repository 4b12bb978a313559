//! A journal that breaks its promises is found, whatever way it breaks them: else the harness would show nothing. What no journal can
//! break is in `rules.rs`.

use std::{path::PathBuf, time::Duration};

use fom_crash::{Broken, Means, Options, Report, run};

fn killed(broken: Broken, kills: u64) -> Report {
    stopped(Means::Kill, broken, kills)
}

fn stopped(means: Means, broken: Broken, kills: u64) -> Report {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let directory = directory.join(format!("crash-{means}-{broken}"));
    // An earlier run may have left one, since it was to find something.
    let _ = std::fs::remove_dir_all(&directory);
    let options = Options {
        child: env!("CARGO_BIN_EXE_crash").into(),
        directory: directory.clone(),
        kills,
        at_least: Duration::ZERO,
        seed: 11,
        broken,
        means,
        progress: false,
    };
    let report = run(&options).unwrap();
    let _ = std::fs::remove_dir_all(&directory);
    report
}

fn rules(report: &Report) -> Vec<&'static str> {
    let mut rules: Vec<_> = report.violations.iter().map(|found| found.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// That something is found. Which rule it breaks first is by chance, since the run ends there: what each finds is in `rules.rs`.
fn finds(broken: Broken) -> Vec<&'static str> {
    let report = killed(broken, 60);
    let found = rules(&report);
    assert!(!found.is_empty(), "{report}");
    assert!(!found.contains(&"unreadable"), "{report}\n{found:?}");
    found
}

/// The journal as it is keeps its promises over a few kills, and the checker has seen something of all that it looks at.
#[test]
fn a_whole_journal_keeps_its_promises() {
    let report = killed(Broken::Not, 12);
    assert!(
        report.violations.is_empty(),
        "{report}\n{:#?}",
        report.violations
    );
    assert!(report.killed() >= 10, "{report}");
    assert!(report.counts.transitions > 100, "{report}");
    assert!(report.counts.resumed > 10, "{report}");
    assert!(report.counts.locks > 0, "{report}");
    assert!(report.counts.late > 0, "{report}");
}

/// One that acknowledges the last batch before it is written loses acknowledged transitions.
#[test]
fn a_journal_that_loses_is_found() {
    finds(Broken::Loses);
}

/// One that writes an old batch again has foms go steps a second time, or come back from the dead.
#[test]
fn a_journal_that_repeats_is_found() {
    finds(Broken::Repeats);
}

/// One that changes the order of batches has the older state win.
#[test]
fn a_journal_that_reorders_is_found() {
    finds(Broken::Reorders);
}

/// One that gives an entry under the id of another has two operations with one id.
#[test]
fn a_journal_that_reuses_ids_is_found() {
    finds(Broken::ReusesIds);
}

/// One that keeps halves of groups loses what was sent with a transition.
#[test]
fn a_journal_that_keeps_halves_is_found() {
    finds(Broken::Halves);
}

/// One that gives back what was there first.
#[test]
fn a_journal_that_forgets_is_found() {
    finds(Broken::Forgets);
}

/// The journal loses a file between two lives: the newest segment, another one, the manifest.
#[test]
fn a_lost_file_is_found() {
    finds(Broken::LosesNewest);
    finds(Broken::LosesAnother);
    finds(Broken::LosesManifest);
}

/// The unbroken journal keeps its promises over a few power cuts, failing disks and full disks.
#[test]
fn promises_are_kept_by_whatever_it_is_stopped() {
    for means in [Means::PowerCut, Means::FailingDisk, Means::FullDisk] {
        let report = stopped(means, Broken::Not, 8);
        assert!(
            report.violations.is_empty(),
            "{report}\n{:#?}",
            report.violations
        );
        assert!(report.killed() >= 6, "{means}: {report}");
    }
}

/// Foms whose locks do not know of each other: nothing else is wrong then.
#[test]
fn locks_that_are_none_are_found() {
    let found = finds(Broken::TwoLocks);
    let rules = [
        "a lock is had by one",
        "a lock is given back by what is committed",
    ];
    assert!(found.iter().all(|rule| rules.contains(rule)), "{found:?}");
}
