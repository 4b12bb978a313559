//! A release is rolled back while its own records are in the journal. What it wrote waits for it, with all that is
//! behind it, and the rest runs (PR-09).

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Builder,
    error::RefusedReason,
    snapshot::{RestoreError, Saved},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one};

/// What a step is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Word {
    /// The step may go on.
    Go,
    /// A number to remember.
    Note(u32),
}

macro_rules! release {
    ($name:ident { $field:ident: $type:ty } $($key:tt)*) => {
        mod $name {
            use super::*;

            #[derive(Debug, Serialize, Deserialize)]
            pub(super) struct Step {
                pub(super) $field: $type,
            }

            #[fom(operation(Step), event(Word) $($key)*)]
            pub(super) enum Stepping {
                #[phase(start, to(Check), on(Go))]
                Hold,
                #[phase(to(Over), on(Note))]
                Check,
                #[phase(end)]
                Over,
            }

            impl SteppingTransitions for Step {
                async fn hold(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    cx.resource::<Log>().put(format_args!("{} holds", self.$field));
                    cx.event().await;
                    Ok(())
                }
                async fn check(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    let note = cx.event().await;
                    cx.resource::<Log>().put(format_args!("{} has {note:?}", self.$field));
                    Ok(())
                }
            }
        }
    };
}

release!(old { name: String });
release!(
    new { title: String },
    version = 2,
    migrate(v1(super::to_second))
);

fn to_second(saved: &mut Saved) -> Result<(), BoxError> {
    let old::Step { name: title } = saved.operation()?;
    Ok(saved.set_operation(&new::Step { title })?)
}

fn old(name: &str) -> old::Step {
    let name = name.to_owned();
    old::Step { name }
}

fn new(title: &str) -> new::Step {
    let title = title.to_owned();
    new::Step { title }
}

/// Posts steps of the running release behind others, and sends something to the fom that has the key.
#[derive(Serialize, Deserialize)]
struct Dispatch {
    of_new: bool,
    key: String,
    names: Vec<String>,
    note: Option<u32>,
}

#[fom(operation(Dispatch))]
enum Posting {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostingTransitions for Dispatch {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let key = self.key.as_str();
        for name in &self.names {
            match self.of_new {
                false => drop(cx.outbox().submit(old(name)).key(key).queue().post()?),
                true => drop(cx.outbox().submit(new(name)).key(key).queue().post()?),
            }
        }
        if let Some(note) = self.note {
            cx.outbox().send::<old::Step>(key, Word::Note(note))?;
        }
        Ok(())
    }
}

fn post(of_new: bool, key: &str, names: &[&str], note: Option<u32>) -> Dispatch {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    let key = key.to_owned();
    Dispatch {
        of_new,
        key,
        names,
        note,
    }
}

fn on(journal: &MemoryJournal, log: &Log) -> Builder {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    builder.resource(log.clone())
}

/// What both releases have left. With the key `a`: a step that the new release has led on, behind it two that the old
/// one had posted. With `b`: a step and one behind it that the old release has never seen.
async fn upgraded(log: &Log) -> MemoryJournal {
    let journal = MemoryJournal::new();
    {
        let runtime = on(&journal, log).operation::<old::Step>().build().unwrap();
        drop(runtime.submit(old("a1")).key("a").start().unwrap());
        runtime.quiet().await;
        let behind = post(false, "a", &["a2", "a3"], None);
        runtime.submit(behind).await.unwrap();
        runtime.quiet().await;
    }
    let runtime = on(&journal, log).operation::<new::Step>().build().unwrap();
    assert!(runtime.quarantine().list().is_empty());
    let first = runtime.find::<new::Step>("a").unwrap();
    first.send(Word::Go).unwrap();
    drop(runtime.submit(new("b1")).key("b").start().unwrap());
    runtime.quiet().await;
    assert_eq!(first.phase(), "Check");
    let behind = post(true, "b", &["b2"], None);
    runtime.submit(behind).await.unwrap();
    runtime.quiet().await;
    assert_eq!(log.take(), ["a1 holds", "a1 holds", "b1 holds"]);
    drop(runtime);
    journal
}

/// Goes on with the fom that has the key, and returns what is logged: its last words, and the first of the next.
async fn next(runtime: &Runtime, log: &Log, key: &str) -> Vec<String> {
    let fom = runtime.find::<new::Step>(key).unwrap();
    fom.send(Word::Go).unwrap();
    fom.send(Word::Note(0)).unwrap();
    fom.reached([]).await;
    runtime.quiet().await;
    log.take()
}

/// The record is listed, the foms behind it do not overtake it, and the rest runs. All goes on in order when the new
/// release is back.
#[test]
fn what_a_newer_release_wrote_waits_for_it_with_all_behind_it() {
    limited(async || {
        let log = Log::default();
        let journal = upgraded(&log).await;
        {
            let runtime = on(&journal, &log).operation::<old::Step>();
            let runtime = runtime.build().unwrap();
            runtime.quiet().await;
            let quarantined = runtime.quarantine().list();
            assert_eq!(quarantined.len(), 3, "a1, b1 and b2: {quarantined:?}");
            for (quarantined, key) in quarantined.iter().zip(["a", "b", "b"]) {
                assert!(
                    matches!(quarantined.reason, RestoreError::NewerVersion { .. }),
                    "{quarantined}"
                );
                assert_eq!(
                    (quarantined.version, &quarantined.key),
                    (Some(2), &Some(key.into()))
                );
                let (_, phase) = new::Step::restore(&quarantined.snapshot().unwrap()).unwrap();
                let is_first = matches!(phase, new::Stepping::Check);
                assert_eq!(is_first, key == "a");
            }
            // No fom takes the key behind its back: neither those that wait in the journal, nor a new one that queues
            // or asks for it.
            let queued = runtime.submit(old("a4")).key("a").queue().start().unwrap();
            let queued_b = runtime.submit(old("b3")).key("b").queue().start().unwrap();
            let refused = runtime.submit(old("a5")).key("a").start().unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::KeyInUse);
            // What is sent to the fom waits with it.
            let note = post(false, "a", &[], Some(1));
            runtime.submit(note).await.unwrap();
            runtime.quiet().await;
            assert_eq!(runtime.quarantine().list().len(), 4);
            assert!(log.take().is_empty());
            let keys = runtime.operations().keys;
            let of_a = keys.iter().find(|info| info.key == "a".into()).unwrap();
            assert_eq!(of_a.holders, [quarantined[0].id]);
            assert_eq!(of_a.waiting.len(), 3);
            // The rest runs.
            let other = runtime.submit(old("x")).key("x").start().unwrap();
            other.send(Word::Go).unwrap();
            other.send(Word::Note(9)).unwrap();
            other.await.unwrap();
            assert_eq!(log.take(), ["x holds", "x has Note(9)"]);
            drop((queued, queued_b));
        }
        let runtime = on(&journal, &log).operation::<new::Step>();
        let runtime = runtime.build().unwrap();
        assert!(
            runtime.quarantine().list().is_empty(),
            "{:?}",
            runtime.quarantine().list()
        );
        runtime.quiet().await;
        let mut lines = log.take();
        lines.sort();
        assert_eq!(lines, ["a1 has Note(1)", "a2 holds", "b1 holds"]);
        assert_eq!(
            next(&runtime, &log, "a").await,
            ["a2 has Note(0)", "a3 holds"]
        );
        assert_eq!(
            next(&runtime, &log, "b").await,
            ["b1 has Note(0)", "b2 holds"]
        );
        // What waited behind them is there, too.
        assert_eq!(
            next(&runtime, &log, "a").await,
            ["a3 has Note(0)", "a4 holds"]
        );
        assert_eq!(
            next(&runtime, &log, "b").await,
            ["b2 has Note(0)", "b3 holds"]
        );
        assert_eq!(next(&runtime, &log, "a").await, ["a4 has Note(0)"]);
        assert_eq!(next(&runtime, &log, "b").await, ["b3 has Note(0)"]);
        runtime.idle().await;
    });
}

/// A user that does not wait for the new release discards the record, or retries it where it can be read. Then the foms
/// behind it have their turn.
#[test]
fn those_behind_it_have_their_turn_when_it_goes() {
    limited(async || {
        let log = Log::default();
        let journal = upgraded(&log).await;
        let runtime = on(&journal, &log).operation::<old::Step>();
        let runtime = runtime.build().unwrap();
        let first = runtime.quarantine().list().remove(0);
        runtime.quarantine().retry(first.id).unwrap_err();
        runtime.quiet().await;
        assert!(log.take().is_empty(), "it is as it was");
        runtime.quarantine().discard(first.id).await.unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["a2 holds"]);
        let second = runtime.find::<old::Step>("a").unwrap();
        second.cancel();
        runtime.quiet().await;
        assert_eq!(log.take(), ["a3 holds"]);
    });
}
