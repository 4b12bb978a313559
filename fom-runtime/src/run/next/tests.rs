//! The table of the transition protocol, for each combination of its inputs.

use std::collections::{BTreeSet, VecDeque};

use super::*;
use crate::fom::Rejected;

const INTERRUPTS: [Option<Interrupt>; 4] = [
    None,
    Some(Interrupt::Late),
    Some(Interrupt::Cancelled),
    Some(Interrupt::Shutdown),
];
const BEGINNINGS: [MayBegin; 6] = [
    MayBegin::Now,
    MayBegin::Waits(WaitingFor::Timer),
    MayBegin::Waits(WaitingFor::Key),
    MayBegin::Rejected(Rejected::Shed),
    MayBegin::Rejected(Rejected::Stuck),
    MayBegin::Rejected(Rejected::Full),
];
const FUNCTIONS: [Function; 4] = [Entry::Enter, Entry::Late, Entry::Exhausted, Entry::Failed];
const THENS: [Then; 10] = [
    Then::Begin { resumed: false },
    Then::Begin { resumed: true },
    Then::Enter {
        from: 3,
        by: Entry::Enter,
    },
    Then::Enter {
        from: 3,
        by: Entry::Late,
    },
    Then::Enter {
        from: 3,
        by: Entry::Exhausted,
    },
    Then::Enter {
        from: 3,
        by: Entry::Failed,
    },
    Then::Stay,
    Then::Retry(700),
    Then::Fail,
    Then::Wait,
];
const RETRIES: [Option<u64>; 2] = [None, Some(700)];
const BOOLS: [bool; 2] = [false, true];

fn visits() -> Vec<Visit> {
    let mut all = Vec::new();
    for bits in 0..16 {
        for interrupt in INTERRUPTS {
            for retry in RETRIES {
                all.push(Visit {
                    committing: bits & 1 != 0,
                    end: bits & 2 != 0,
                    interrupt,
                    failed: bits & 4 != 0,
                    retry,
                    spent: bits & 8 != 0,
                });
            }
        }
    }
    all
}

fn errors() -> Vec<Step> {
    let mut all = Vec::new();
    for function in FUNCTIONS {
        for retry in RETRIES {
            for bits in 0..8 {
                all.push(Step::Error {
                    function,
                    retry,
                    exhausted: bits & 1 != 0,
                    way_out: bits & 2 != 0,
                    durable: bits & 4 != 0,
                });
            }
        }
    }
    all
}

fn interrupted() -> Vec<Step> {
    let mut all = Vec::new();
    for by in INTERRUPTS.into_iter().flatten() {
        for bits in 0..8 {
            all.push(Step::Interrupted {
                by,
                late: bits & 1 != 0,
                held: bits & 2 != 0,
                way_out: bits & 4 != 0,
            });
        }
    }
    all
}

fn turns() -> Vec<Step> {
    let waits = [WaitingFor::Timer, WaitingFor::Key, WaitingFor::Journal];
    let step = |what| BOOLS.map(|records| Step::Turn { what, records });
    waits.into_iter().flat_map(step).collect()
}

/// Every step, with every value that matters.
fn steps() -> Vec<Step> {
    let mut all: Vec<_> = visits().into_iter().map(Step::Visit).collect();
    all.extend(errors());
    all.extend(interrupted());
    for interrupt in INTERRUPTS {
        all.extend(BEGINNINGS.map(|may_begin| Step::New {
            interrupt,
            may_begin,
        }));
    }
    all.extend(turns());
    for then in THENS {
        all.extend(BOOLS.map(|durable| Step::Made { then, durable }));
        all.extend(BOOLS.map(|waits| Step::Written { then, waits }));
    }
    for of_phase in BOOLS {
        all.extend(BOOLS.map(|way_out| Step::Failure { of_phase, way_out }));
    }
    all
}

#[test]
fn every_combination_is_in_the_table() {
    let steps = steps();
    assert_eq!(steps.len(), 128 + 64 + 24 + 24 + 6 + 40 + 4);
    for step in &steps {
        // The fast paths and the run loop decide in the same way.
        assert_eq!(next(*step), next_cold(*step), "{step:?}");
    }
}

#[test]
fn a_fom_that_is_interrupted_never_begins_and_never_enters_a_phase() {
    for step in steps() {
        let (Step::New {
            interrupt: Some(by),
            ..
        }
        | Step::Visit(Visit {
            interrupt: Some(by),
            ..
        })) = step
        else {
            continue;
        };
        let allowed = match step {
            Step::Visit(visit) if visit.committing => Next::Wait(WaitingFor::Journal),
            Step::Visit(visit) if visit.end => Next::Finish,
            _ => Next::Interrupt(by),
        };
        assert_eq!(next(step), allowed, "{step:?}");
    }
}

#[test]
fn a_shutdown_ends_every_phase_and_a_cancel_takes_a_way_out_that_is_for_it() {
    for step in interrupted() {
        let expected = match step {
            Step::Interrupted {
                by: Interrupt::Shutdown,
                ..
            } => Next::Fail,
            Step::Interrupted {
                by: Interrupt::Cancelled,
                way_out,
                ..
            } => match way_out {
                true => Next::Call(Entry::Failed),
                false => Next::Fail,
            },
            _ => continue,
        };
        assert_eq!(next(step), expected, "{step:?}");
    }
}

#[test]
fn a_late_visit_goes_to_its_late_function_then_to_its_way_out_then_it_fails() {
    for held in BOOLS {
        for way_out in BOOLS {
            let step = |late| Step::Interrupted {
                by: Interrupt::Late,
                late,
                held,
                way_out,
            };
            let expected = match held {
                // First its gate is open again, as without a restart.
                true => Next::OpenAgain,
                false => Next::Call(Entry::Late),
            };
            assert_eq!(next(step(true)), expected);
            let expected = match way_out {
                true => Next::Call(Entry::Failed),
                false => Next::Fail,
            };
            assert_eq!(next(step(false)), expected);
        }
    }
}

#[test]
fn attempts_come_before_the_exhausted_function_and_that_before_the_way_out() {
    for step in errors() {
        let Step::Error {
            function,
            retry,
            exhausted,
            way_out,
            durable,
        } = step
        else {
            unreachable!("only errors");
        };
        let own = function == Entry::Enter;
        let expected = match (retry, durable) {
            (Some(until), true) if own => Next::Commit(Then::Retry(until)),
            (Some(until), false) if own => Next::Proceed(Then::Retry(until)),
            _ if own && exhausted => Next::Call(Entry::Exhausted),
            _ if way_out => Next::Call(Entry::Failed),
            _ => Next::Fail,
        };
        assert_eq!(next(step), expected, "{step:?}");
    }
}

#[test]
fn only_the_own_function_is_tried_again() {
    for step in errors() {
        let again = matches!(
            next(step),
            Next::Commit(Then::Retry(_)) | Next::Proceed(Then::Retry(_))
        );
        let own = matches!(
            step,
            Step::Error {
                function: Entry::Enter,
                ..
            }
        );
        assert!(own || !again, "{step:?}");
    }
}

#[test]
fn a_step_that_must_be_durable_always_waits_for_its_commit() {
    for then in THENS {
        let made = |durable| next(Step::Made { then, durable });
        assert_eq!(made(true), Next::Commit(then));
        assert_eq!(made(false), Next::Proceed(then));
        let written = |waits| next(Step::Written { then, waits });
        assert_eq!(written(true), Next::Wait(WaitingFor::Journal));
        assert_eq!(written(false), Next::Proceed(then));
    }
    for visit in visits() {
        if visit.committing {
            let waits = Next::Wait(WaitingFor::Journal);
            assert_eq!(next(Step::Visit(visit)), waits, "{visit:?}");
        }
    }
    for step in errors() {
        if let Step::Error { durable: true, .. } = step {
            assert!(!matches!(next(step), Next::Proceed(_)), "{step:?}");
        }
    }
}

#[test]
fn an_end_is_an_end_once_it_is_committed() {
    for visit in visits() {
        let ends = next(Step::Visit(visit)) == Next::Finish;
        assert_eq!(ends, visit.end && !visit.committing, "{visit:?}");
    }
}

#[test]
fn the_own_function_runs_only_with_budget_when_nothing_else_is_due() {
    for visit in visits() {
        let runs = next(Step::Visit(visit)) == Next::Call(Entry::Enter);
        assert_eq!(runs, visit == Visit::CALM, "{visit:?}");
    }
}

#[test]
fn a_spent_budget_delays_the_own_function_and_nothing_else() {
    for visit in visits() {
        let fresh = next(Step::Visit(Visit {
            spent: false,
            ..visit
        }));
        let spent = next(Step::Visit(Visit {
            spent: true,
            ..visit
        }));
        match fresh {
            Next::Call(Entry::Enter) => assert_eq!(spent, Next::Again),
            fresh => assert_eq!(spent, fresh, "{visit:?}"),
        }
    }
}

#[test]
fn a_failure_of_the_phase_takes_the_way_out_once_and_other_failures_never() {
    for of_phase in BOOLS {
        for way_out in BOOLS {
            let expected = match of_phase && way_out {
                true => Next::Call(Entry::Failed),
                false => Next::Fail,
            };
            assert_eq!(next(Step::Failure { of_phase, way_out }), expected);
        }
    }
}

#[test]
fn a_fom_begins_when_its_gate_is_open_and_never_when_it_is_rejected() {
    for may_begin in BEGINNINGS {
        let expected = match may_begin {
            MayBegin::Now => Next::Begin,
            MayBegin::Waits(what) => Next::AwaitTurn(what),
            MayBegin::Rejected(_) => Next::Fail,
        };
        let interrupt = None;
        assert_eq!(
            next(Step::New {
                interrupt,
                may_begin
            }),
            expected
        );
    }
}

#[test]
fn a_wait_that_must_survive_is_in_the_journal_first() {
    for step in turns() {
        let Step::Turn { what, records } = step else {
            unreachable!("only turns");
        };
        let expected = match records {
            true => Next::Commit(Then::Wait),
            false => Next::Wait(what),
        };
        assert_eq!(next(step), expected, "{step:?}");
    }
}

/// A fom in the model below: what the code around the table must remember between two decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fom {
    /// The action to carry out, as its place in the list of all.
    action: usize,
    /// A commit is on its way.
    pending: bool,
    /// The fom was told to end, and has seen that.
    told: bool,
    /// The number of `failed` functions that have run.
    ways_out: u8,
}

/// Returns what can happen when this action is carried out, for a fom that is kept in a journal.
fn outcomes(action: Next, fom: Fom) -> Vec<Step> {
    let way_out = fom.ways_out < 1;
    let between = || {
        let mut steps = Vec::new();
        for visit in visits() {
            // A fom that was told to end stays told.
            let told = |by| matches!(by, Some(Interrupt::Cancelled | Interrupt::Shutdown));
            let possible = (!fom.told || told(visit.interrupt))
                && visit.committing == fom.pending
                && (way_out || !visit.failed);
            if possible {
                steps.push(Step::Visit(visit));
            }
        }
        steps
    };
    let new = || {
        let interrupts = INTERRUPTS.into_iter();
        let step = |interrupt| {
            BEGINNINGS.map(|may_begin| Step::New {
                interrupt,
                may_begin,
            })
        };
        interrupts.flat_map(step).collect()
    };
    match action {
        Next::AwaitTurn(what) => BOOLS.map(|records| Step::Turn { what, records }).to_vec(),
        // The fom has not begun.
        Next::Proceed(Then::Wait) | Next::Wait(WaitingFor::Key | WaitingFor::Timer) => new(),
        Next::Begin => THENS[..2]
            .iter()
            .flat_map(|then| {
                BOOLS.map(|durable| Step::Made {
                    then: *then,
                    durable,
                })
            })
            .collect(),
        Next::Commit(then) => BOOLS.map(|waits| Step::Written { then, waits }).to_vec(),
        Next::Proceed(_) | Next::Pause(_) | Next::Again => between(),
        Next::Wait(WaitingFor::Journal) => {
            // The commit is answered, or a wake comes before.
            let mut steps = between();
            steps.extend(THENS.map(|then| Step::Written { then, waits: false }));
            steps
        }
        Next::Wait(_) => between(),
        Next::Interrupt(by) => interrupted()
            .into_iter()
            .filter(|step| {
                matches!(step, Step::Interrupted { by: other, way_out: declared, .. }
                    if *other == by && (way_out || !declared))
            })
            .collect(),
        Next::OpenAgain => BOOLS
            .map(|declared| Step::Interrupted {
                by: Interrupt::Late,
                late: true,
                held: false,
                way_out: declared && way_out,
            })
            .to_vec(),
        Next::Call(function) => {
            let made = [
                Then::Enter {
                    from: 3,
                    by: function,
                },
                Then::Stay,
            ];
            let mut steps: Vec<_> = made
                .into_iter()
                .flat_map(|then| BOOLS.map(|durable| Step::Made { then, durable }))
                .collect();
            steps.extend(errors().into_iter().filter(|step| {
                matches!(step, Step::Error { function: of, way_out: declared, .. }
                    if *of == function && (way_out || !declared))
            }));
            steps.push(Step::Failure {
                of_phase: true,
                way_out,
            });
            steps
        }
        Next::Fail | Next::Finish => Vec::new(),
    }
}

/// Goes through all states that a fom can reach, and checks each way from one decision to the next.
#[test]
fn no_way_through_the_table_skips_a_commit_or_a_cancel() {
    let actions: Vec<Next> = {
        let mut all = Vec::new();
        for step in steps() {
            if !all.contains(&next(step)) {
                all.push(next(step));
            }
        }
        all
    };
    let place = |action| {
        actions
            .iter()
            .position(|other| *other == action)
            .expect("listed")
    };
    let first = Fom {
        action: place(Next::AwaitTurn(WaitingFor::Key)),
        pending: false,
        told: false,
        ways_out: 0,
    };
    let mut seen = BTreeSet::from([first]);
    let mut todo = VecDeque::from([first]);
    while let Some(fom) = todo.pop_front() {
        for step in outcomes(actions[fom.action], fom) {
            let action = next(step);
            let mut after = Fom {
                action: place(action),
                ..fom
            };
            match step {
                Step::Written { waits, .. } => after.pending = waits,
                Step::Visit(visit) if !visit.committing => {
                    after.told |= visit.interrupt.is_some_and(|by| by != Interrupt::Late);
                }
                _ => {}
            }
            if let Step::Interrupted {
                by: Interrupt::Cancelled,
                way_out: true,
                ..
            } = step
            {
                // The fom has heard the cancel, and goes on.
                after.told = false;
            }
            if let Next::Call(function) = action {
                assert!(!after.pending, "{function:?} before the commit: {step:?}");
                assert!(!after.told, "{function:?} after a cancel: {step:?}");
                after.ways_out += u8::from(function == Entry::Failed);
                assert!(after.ways_out <= 1, "a way out is taken once: {step:?}");
            }
            if let Step::Made {
                then: Then::Enter { .. },
                ..
            } = step
            {
                // A new visit has its way out again.
                after.ways_out = 0;
            }
            if seen.insert(after) {
                todo.push_back(after);
            }
        }
    }
    for reached in [
        Next::Begin,
        Next::Finish,
        Next::Fail,
        Next::Again,
        Next::Call(Entry::Exhausted),
    ] {
        assert!(
            seen.iter().any(|fom| actions[fom.action] == reached),
            "{reached:?}"
        );
    }
}
