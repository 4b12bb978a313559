//! Queues that only grow, and deadlines that most foms miss.

use fom_patterns::{
    admission::Admission,
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::{Handle, observe::WaitsFor, time::TestClock};
use fom_watch::{Warned, WarningKind};

use crate::{
    kit::{Gate, limited, secs},
    task::{Task, Word, only, submit, until_waits, warned, watched},
};

const GROWTH: WarningKind = WarningKind::Growth;

#[test]
fn a_mailbox_that_only_grows_is_named() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        // It takes no event while it blocks.
        let (_over, blocks) = crate::task::held();
        let fom = submit(&runtime, Task::Block(blocks));
        until_waits(&runtime, &fom, |wait| *wait == WaitsFor::Blocking);
        for _ in 0..8 {
            for _ in 0..20 {
                fom.send(Word::Go).unwrap();
            }
            clock.advance(secs(5));
            runtime.inspect().warnings();
        }
        let warning = only(&runtime, GROWTH);
        assert_eq!(
            (&*warning.ids, warning.phase.as_deref()),
            (&[fom.id()][..], Some("Blocking"))
        );
        assert!(warning.subject.starts_with("mailbox of Task"), "{warning}");
        assert_eq!(warning.common, ["waits for a blocking call"]);
    });
}

/// A look sees the eight longest mailboxes. Here two groups of eight take turns.
#[test]
fn mailboxes_that_take_turns_as_the_longest_are_named() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let gate = Gate::close(&runtime, 0);
        let foms: Vec<_> = (0..16).map(|_| submit(&runtime, Task::Hear)).collect();
        let send = |foms: &[Handle<Task>], words| {
            for fom in foms {
                (0..words).for_each(|_| fom.send(Word::Go).unwrap());
            }
        };
        send(&foms[8..], 20);
        for look in 0..16 {
            let group = if look % 2 == 0 {
                &foms[..8]
            } else {
                &foms[8..]
            };
            send(group, 40);
            clock.advance(secs(5));
            runtime.inspect().warnings();
        }
        // The last look saw the second group.
        let mut named: Vec<_> = warned(&runtime, GROWTH)
            .iter()
            .map(|warning| warning.ids[0])
            .collect();
        named.sort();
        let group: Vec<_> = foms[8..].iter().map(|fom| fom.id()).collect();
        assert_eq!(named, group);
        gate.open();
    });
}

#[test]
fn a_stream_and_an_admission_that_only_grow_are_named() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let intake = Admission::builder(&runtime)
            .name("front door")
            .in_flight(1)
            .build()
            .unwrap();
        let stream = KeyedStream::new(&runtime, StreamOptions::default().name("moves"));
        for _ in 0..8 {
            for _ in 0..20 {
                drop(intake.submit(Task::Rest).start().unwrap());
                stream.push(1_u32, Task::Rest).unwrap();
            }
            runtime.quiet().await;
            clock.advance(secs(5));
            runtime.inspect().warnings();
        }
        let found = warned(&runtime, GROWTH);
        let names: Vec<_> = found.iter().map(|one| &*one.subject).collect();
        assert_eq!(names, ["admission front door", "stream moves"]);
        assert_eq!(found[0].common, ["the oldest has waited for 40.0s"]);
    });
}

#[test]
fn a_queue_that_is_emptied_in_between_does_not_only_grow() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let stream = KeyedStream::new(&runtime, StreamOptions::default());
        for round in 0..20_u32 {
            // The naps of one round end before the next but one.
            for key in 0..200 {
                stream
                    .push(round * 200 + key, Task::Nap { long: false })
                    .unwrap();
            }
            runtime.quiet().await;
            clock.advance(secs(5));
            runtime.inspect().warnings();
        }
        assert_eq!(warned(&runtime, GROWTH), []);
    });
}

#[test]
fn a_deadline_that_most_foms_miss_is_told() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let run = async |all: usize, late: usize| {
            let foms: Vec<_> = (0..all).map(|_| submit(&runtime, Task::Hurry)).collect();
            runtime.quiet().await;
            for fom in &foms[late..] {
                fom.send(Word::Go).unwrap();
            }
            runtime.quiet().await;
            clock.advance(secs(11));
            for fom in foms {
                fom.await.unwrap();
            }
            runtime.quiet().await;
            clock.advance(secs(1));
            warned(&runtime, WarningKind::MissedDeadlines)
        };
        assert_eq!(run(40, 10).await, []);
        let found = run(100, 90).await;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].phase.as_deref(), found[0].foms),
            (Some("Hurrying"), 100)
        );
        assert_eq!(found[0].limit, Some(secs(10)));
        assert_eq!((&*found[0].ids, &*found[0].common), (&[][..], &[][..]));
        // Those that are there now, and what they wait for.
        let next = submit(&runtime, Task::Hurry);
        runtime.quiet().await;
        clock.advance(secs(5));
        let found = warned(&runtime, WarningKind::MissedDeadlines);
        assert_eq!(found[0].ids, [next.id()]);
        assert_eq!(found[0].common, ["waits for an event: Go"]);
    });
}
