//! A new release on the journal of the previous one. Parked foms go on, or are quarantined as they are, and the rest runs
//! (PR-05, PR-09).

use fom_durable::{
    journal::{
        Batch, Damage, EntryId, Journal, JournalError, JournalStats, MemoryJournal, Recover,
        Recovery,
    },
    prelude::*,
};
use fom_runtime::{
    error::{BoxError, BuildError},
    snapshot::{RestoreError, Saved},
};

/// What the calls of the releases have in common: they ring until they are answered.
macro_rules! release {
    ($name:ident($($key:tt)*) { $($field:ident: $type:ty),* } $ring:ident($($was:tt)*) { $($data:tt)* } = $first:expr) => {
        mod $name {
            use fom_durable::prelude::*;
            use fom_runtime::error::BoxError;
            use serde::{Deserialize, Serialize};

            #[derive(Serialize, Deserialize)]
            pub(super) struct Call { $(pub(super) $field: $type),* }

            #[derive(Serialize, Deserialize)]
            pub(super) enum CallEvent {
                Answer,
            }

            #[fom(operation(Call), event(CallEvent) $($key)*)]
            pub(super) enum Route {
                #[phase(start, sync, to($ring))]
                Locate,
                #[phase(sync, to(Over), on(Answer) $($was)*)]
                $ring { $($data)* },
                #[phase(end)]
                Over,
            }

            release!(@transitions $ring $first);
        }
    };
    (@transitions Ring $first:expr) => {
        impl RouteTransitions for Call {
            fn locate(&mut self, _: &mut Cx<'_, CallEvent>) -> Result<RouteAfterLocate, BoxError> {
                Ok($first)
            }
            fn ring(&mut self, _: &mut Cx<'_, CallEvent>, _: &mut u64, _: CallEvent) -> Result<RouteAfterRing, BoxError> {
                Ok(RouteAfterRing::Over)
            }
        }
    };
    (@transitions Alert $first:expr) => {
        impl RouteTransitions for Call {
            fn locate(&mut self, _: &mut Cx<'_, CallEvent>) -> Result<RouteAfterLocate, BoxError> {
                Ok($first)
            }
            fn alert(&mut self, cx: &mut Cx<'_, CallEvent>, millis: &mut u64, _: CallEvent) -> Result<RouteAfterAlert, BoxError> {
                cx.resource::<super::Heard>().0.lock().unwrap().push((self.user.clone(), *millis));
                Ok(RouteAfterAlert::Over)
            }
        }
    };
}

/// The users that answered, and after how long.
#[derive(Clone, Default)]
struct Heard(std::sync::Arc<std::sync::Mutex<Vec<(String, u64)>>>);

release!(first() { callee: String } Ring() { seconds: u64 } = RouteAfterLocate::Ring { seconds: 32 });
release!(second(, version = 2, migrate(v1(super::to_second))) { user: String }
    Alert(, was = "Ring") { millis: u64 } = RouteAfterLocate::Alert { millis: 1 });
// A careless release: it forgets the first release's name of its phase, and that there are parked calls.
release!(careless() { user: String } Alert() { millis: u64 } = RouteAfterLocate::Alert { millis: 1 });

fn to_second(saved: &mut Saved) -> Result<(), BoxError> {
    if saved.phase() == "Ring" {
        let seconds: u64 = saved.take("seconds")?;
        saved.put("millis", &(seconds * 1_000))?;
    }
    let first::Call { callee } = saved.operation()?;
    if callee == "nobody" {
        return Err("nobody is no user".into());
    }
    saved.set_operation(&second::Call { user: callee })?;
    Ok(())
}

fn runtime<O: fom_runtime::Persistent>(journal: &MemoryJournal, heard: &Heard) -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(heard.clone())
        .journal_with(journal.clone())
        .operation::<O>()
        .build()
        .unwrap()
}

/// Two calls that ring in the first release; one of them cannot be migrated.
fn parked() -> MemoryJournal {
    let journal = MemoryJournal::new();
    let runtime = runtime::<first::Call>(&journal, &Heard::default());
    for callee in ["ada", "nobody"] {
        let call = first::Call {
            callee: callee.into(),
        };
        let handle = runtime.submit(call).key(callee).start().unwrap();
        handle.reached([first::RouteKind::Ring]).wait();
    }
    drop(runtime);
    journal
}

/// A call that the migration carries over goes on where it was. A call that it refuses is quarantined with the reason,
/// and stays in the journal.
#[test]
fn parked_foms_go_on_in_the_next_release() {
    let (journal, heard) = (parked(), Heard::default());
    for _ in 0..2 {
        let runtime = runtime::<second::Call>(&journal, &heard);
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1);
        assert!(
            matches!(&quarantined[0].reason, RestoreError::MigrationFailed { .. }),
            "{}",
            quarantined[0].reason
        );
        if let Some(ada) = runtime.find::<second::Call>("ada") {
            assert_eq!(ada.phase(), "Alert");
            let over = ada.reached([second::RouteKind::Over]);
            ada.send(second::CallEvent::Answer).unwrap();
            over.wait();
        }
    }
    assert_eq!(*heard.0.lock().unwrap(), [("ada".to_owned(), 32_000)]);
}

/// A release that can read nothing loses nothing: the next release, or the previous one, finds all as it was.
#[test]
fn a_release_that_strands_foms_loses_none() {
    let journal = parked();
    {
        let runtime = runtime::<careless::Call>(&journal, &Heard::default());
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 2);
        for quarantined in quarantined {
            assert!(
                matches!(quarantined.reason, RestoreError::UnknownPhase { .. }),
                "{}",
                quarantined.reason
            );
        }
        assert!(runtime.find::<careless::Call>("ada").is_none());
        // The rest runs.
        let call = careless::Call { user: "bob".into() };
        let handle = runtime.submit(call).start().unwrap();
        handle.reached([careless::RouteKind::Alert]).wait();
        handle.cancel();
        handle.wait().unwrap_err();
    }
    let runtime = runtime::<first::Call>(&journal, &Heard::default());
    assert!(runtime.quarantine().list().is_empty());
    for callee in ["ada", "nobody"] {
        let fom = runtime.find::<first::Call>(callee).expect("it is back");
        let over = fom.reached([first::RouteKind::Over]);
        fom.send(first::CallEvent::Answer).unwrap();
        over.wait();
    }
}

/// An older release refuses what a newer release wrote, and says so (PR-09).
#[test]
fn an_older_release_does_not_touch_what_a_newer_one_wrote() {
    let journal = MemoryJournal::new();
    {
        let runtime = runtime::<second::Call>(&journal, &Heard::default());
        let call = second::Call { user: "ada".into() };
        let handle = runtime.submit(call).start().unwrap();
        handle.reached([second::RouteKind::Alert]).wait();
    }
    let runtime = runtime::<first::Call>(&journal, &Heard::default());
    let quarantined = runtime.quarantine().list();
    assert!(
        matches!(&quarantined[..], [one] if matches!(one.reason, RestoreError::NewerVersion { .. })),
        "{quarantined:?}"
    );
}

/// Foms that a newer release only brought back are unchanged: after a rollback they run, and those that the newer
/// release moved are quarantined. When the newer release runs again, all run.
#[test]
fn a_rollback_strands_only_what_the_newer_release_moved() {
    let journal = MemoryJournal::new();
    let keys = ["ada", "bob", "eve"];
    {
        let runtime = runtime::<first::Call>(&journal, &Heard::default());
        for callee in keys {
            let call = first::Call {
                callee: callee.into(),
            };
            let handle = runtime.submit(call).key(callee).start().unwrap();
            handle.reached([first::RouteKind::Ring]).wait();
        }
    }
    {
        let runtime = runtime::<second::Call>(&journal, &Heard::default());
        assert!(runtime.quarantine().list().is_empty());
        let call = second::Call { user: "new".into() };
        let new = runtime.submit(call).key("new").start().unwrap();
        new.reached([second::RouteKind::Alert]).wait();
        let ada = runtime.find::<second::Call>("ada").unwrap();
        let over = ada.reached([second::RouteKind::Over]);
        ada.send(second::CallEvent::Answer).unwrap();
        over.wait();
    }
    {
        let runtime = runtime::<first::Call>(&journal, &Heard::default());
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1, "{quarantined:?}");
        assert_eq!(
            (quarantined[0].key.clone(), quarantined[0].version),
            (Some("new".into()), Some(2))
        );
        assert!(runtime.find::<first::Call>("ada").is_none());
        for key in ["bob", "eve"] {
            assert_eq!(runtime.find::<first::Call>(key).unwrap().phase(), "Ring");
        }
    }
    let runtime = runtime::<second::Call>(&journal, &Heard::default());
    assert!(runtime.quarantine().list().is_empty());
    for key in ["bob", "eve", "new"] {
        assert_eq!(runtime.find::<second::Call>(key).unwrap().phase(), "Alert");
    }
}

/// A journal that reports damage for one of its entries.
struct Damaged(MemoryJournal, EntryId);

impl Journal for Damaged {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let damage = Damage::new("here", 0, 8, "for a test");
        to.damaged(self.1, damage);
        let (id, mut rest) = (self.1, MemoryJournal::new());
        let mut batch = Batch::new();
        for kept in self.0.ids().into_iter().filter(|kept| *kept != id) {
            batch.put(kept, &self.0.entry(kept).unwrap());
        }
        batch.end_group();
        rest.commit(&batch)?;
        let found = rest.recover(to)?;
        self.0 = rest;
        Ok(found)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.commit(batch)
    }

    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

/// One damaged place does not strand a whole type: where the schema is lost, this release's own schema is the same.
/// Without the head it is not known which ids are used: an error.
#[test]
fn a_damaged_schema_strands_no_fom_and_a_damaged_head_is_an_error() {
    let journal = parked();
    let heads: Vec<_> = journal
        .ids()
        .into_iter()
        .filter(|id| *id < EntryId::HEAD)
        .collect();
    let [head, schema] = heads[..] else {
        panic!("a head and a schema: {heads:?}")
    };
    let build = |id| {
        let builder = Runtime::builder().localities(1).pin(false);
        let builder = builder.resource(Heard::default());
        let builder = builder.journal_with(Damaged(journal.fork(), id));
        builder.operation::<first::Call>().build()
    };
    let runtime = build(schema).unwrap();
    assert!(runtime.quarantine().list().is_empty());
    assert!(runtime.find::<first::Call>("ada").is_some());
    assert_eq!(runtime.operations().incidents.len(), 1);
    let refused = build(head).unwrap_err();
    assert!(
        matches!(
            &refused,
            BuildError::Journal(error)
                if matches!(error.downcast_ref(), Some(JournalError::Damaged(_)))
        ),
        "{refused}"
    );
}
