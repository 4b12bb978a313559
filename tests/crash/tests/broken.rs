//! The harness finds a journal that breaks its promises, in each way to break them; otherwise the harness would prove
//! nothing. `rules.rs` has what no journal can break.

use std::{path::PathBuf, time::Duration};

use fom_crash::{Broken, Means, Options, Report, run};

fn killed(broken: Broken, kills: u64) -> Report {
    stopped(Means::Kill, broken, kills)
}

fn stopped(means: Means, broken: Broken, kills: u64) -> Report {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let directory = directory.join(format!("crash-{means}-{broken}"));
    // An earlier run may have left a directory, since it had to find a violation.
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

/// Requires that the run finds a violation. The rule that breaks first is random, since the run ends there. `rules.rs`
/// checks each rule.
fn finds(broken: Broken) -> Vec<&'static str> {
    let report = killed(broken, 60);
    let found = rules(&report);
    assert!(!found.is_empty(), "{report}");
    assert!(!found.contains(&"unreadable"), "{report}\n{found:?}");
    found
}

/// The unbroken journal keeps its promises over a few kills, and the checker has seen some of everything that it
/// checks.
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

/// A journal that acknowledges the last batch before the write loses acknowledged transitions.
#[test]
fn a_journal_that_loses_is_found() {
    finds(Broken::Loses);
}

/// A journal that writes an old batch again makes foms repeat steps, or come back after their end.
#[test]
fn a_journal_that_repeats_is_found() {
    finds(Broken::Repeats);
}

/// With a journal that swaps batches, the older state wins.
#[test]
fn a_journal_that_reorders_is_found() {
    finds(Broken::Reorders);
}

/// A journal that returns an entry under the id of another gives two operations one id.
#[test]
fn a_journal_that_reuses_ids_is_found() {
    finds(Broken::ReusesIds);
}

/// A journal that keeps halves of groups loses what was sent with a transition.
#[test]
fn a_journal_that_keeps_halves_is_found() {
    finds(Broken::Halves);
}

/// A journal that returns the first version of an entry.
#[test]
fn a_journal_that_forgets_is_found() {
    finds(Broken::Forgets);
}

/// The journal loses a file between two lives: the newest segment, another one, or the manifest.
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

/// Half of the foms have locks of their own. Nothing else is wrong in that run.
#[test]
fn locks_that_are_none_are_found() {
    let found = finds(Broken::TwoLocks);
    let rules = [
        "a lock is had by one",
        "a lock is given back by what is committed",
    ];
    assert!(found.iter().all(|rule| rules.contains(rule)), "{found:?}");
}
