//! Foms that wait for each other, and for a holder that does not let go.

use fom_patterns::lock::LongLock;
use fom_runtime::time::TestClock;
use fom_watch::{Warned, WarningKind};

use crate::{
    kit::{limited, secs},
    task::{Task, Word, only, submit, until, warned, watched},
};

#[test]
fn a_cycle_of_locks_is_told_with_all_its_foms() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let (one, two) = (LongLock::new("one"), LongLock::new("two"));
        let first = submit(&runtime, Task::Lock(one.clone(), two.clone()));
        let second = submit(&runtime, Task::Lock(two, one));
        runtime.quiet().await;
        first.send(Word::Go).unwrap();
        second.send(Word::Go).unwrap();
        runtime.quiet().await;
        for _ in 0..3 {
            clock.advance(secs(1));
            runtime.inspect().warnings();
        }
        let warning = only(&runtime, WarningKind::WaitCycle);
        let mut ids = warning.ids.clone();
        ids.sort_unstable();
        assert_eq!(ids, [first.id(), second.id()]);
        assert!(
            warning.text.contains("one") && warning.text.contains("two"),
            "{warning}"
        );
        first.cancel();
        let _ = first.await;
        runtime.quiet().await;
        clock.advance(secs(1));
        assert_eq!(warned(&runtime, WarningKind::WaitCycle), []);
    });
}

/// With so many foms, most looks leave them out.
#[test]
fn a_cycle_is_told_although_the_looks_between_see_no_foms() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let (one, two) = (LongLock::new("one"), LongLock::new("two"));
        let first = submit(&runtime, Task::Lock(one.clone(), two.clone()));
        let second = submit(&runtime, Task::Lock(two, one));
        let _others: Vec<_> = (0..100_000).map(|_| submit(&runtime, Task::Rest)).collect();
        runtime.quiet().await;
        first.send(Word::Go).unwrap();
        second.send(Word::Go).unwrap();
        runtime.quiet().await;
        until(|| {
            clock.advance(secs(1));
            !warned(&runtime, WarningKind::WaitCycle).is_empty()
        });
    });
}

#[test]
fn a_fom_behind_a_lock_is_told_what_its_holder_waits_for() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let (one, two) = (LongLock::new("one"), LongLock::new("two"));
        let holder = submit(&runtime, Task::Lock(one.clone(), two.clone()));
        runtime.quiet().await;
        let _waits = submit(&runtime, Task::Lock(one, two));
        runtime.quiet().await;
        clock.advance(secs(301));
        let hung = warned(&runtime, WarningKind::Hung);
        let common: Vec<_> = hung
            .iter()
            .flat_map(|warning| warning.common.clone())
            .collect();
        let of_holder = format!("the holder Task {}", holder.id());
        let named = common.iter().find(|line| line.starts_with(&of_holder));
        assert!(
            named.is_some_and(|line| line.ends_with("an event: Go")),
            "{common:?}"
        );
    });
}

#[test]
fn a_fom_behind_a_key_is_told_which_fom_has_it() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let queue = || runtime.submit(Task::Hear).key("a").queue().start().unwrap();
        let (holder, waits) = (queue(), queue());
        runtime.quiet().await;
        clock.advance(secs(301));
        let hung = warned(&runtime, WarningKind::Hung);
        let of_waiter = hung.iter().find(|warning| warning.ids == [waits.id()]);
        let common = &of_waiter.unwrap().common;
        let of_holder = format!("the holder Task {} (key a)", holder.id());
        assert!(
            common.iter().any(|line| line.starts_with(&of_holder)),
            "{common:?}"
        );
    });
}
