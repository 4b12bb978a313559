//! Phases with locks and a journal: held over the commit, taken again after a restart.

use fom_durable::prelude::*;
use fom_patterns::lock::{LockMode, LockSet, LongLock, LongLocks};
use fom_runtime::{Cause, config::Shutdown, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, held::Held, limited, many, one, secs, task::until};

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    account: u64,
}

#[derive(Debug)]
enum Word {
    Go,
}

#[fom(operation(Entry), event(Word))]
enum Booking {
    #[phase(start, to(Write), sync)]
    Begin,
    #[phase(to(Tell), sync, on(Go), locks)]
    Write,
    #[phase(to(Done), sync, on(Go))]
    Tell,
    #[phase(end)]
    Done,
}

impl Entry {
    fn lock(&self, cx: &Cx<'_, Word>) -> LongLock {
        cx.resource::<LongLocks>().of(self.account)
    }
}

impl BookingTransitions for Entry {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        Ok(())
    }
    fn write_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&self.lock(cx))
    }
    fn write(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<BookingAfterWrite, BoxError> {
        assert_eq!(self.lock(cx).held_by(cx), Some(LockMode::Write));
        cx.resource::<Log>()
            .put(format_args!("{} writes", self.name));
        Ok(BookingAfterWrite::Tell)
    }
    fn tell(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<BookingAfterTell, BoxError> {
        Ok(BookingAfterTell::Done)
    }
    fn resume(&mut self, cx: &mut Cx<'_, Word>, _: &mut Booking) -> Result<(), BoxError> {
        assert_eq!(self.lock(cx).held_by(cx), None);
        cx.resource::<Log>()
            .put(format_args!("{} is back", self.name));
        Ok(())
    }
}

fn runtime(journal: &Held, locks: &LongLocks, log: &Log) -> Runtime {
    let builder = one(&TestClock::new()).resource(locks.clone());
    let builder = builder.resource(log.clone());
    builder.journal_with(journal.clone()).build().unwrap()
}

fn entry(name: &str) -> Entry {
    Entry {
        name: name.to_owned(),
        account: 7,
    }
}

/// LK-02: the transition out of a phase with locks is committed before the locks are released. No other fom sees a
/// state that may be undone.
#[test]
fn held_until_the_transition_is_committed() {
    limited(|| async {
        let (journal, locks, log) = (Held::default(), LongLocks::new("account"), Log::default());
        let runtime = runtime(&journal, &locks, &log);
        let lock = locks.of(7);
        let first = runtime.submit(entry("first")).start().unwrap();
        let second = runtime.submit(entry("second")).start().unwrap();
        runtime.quiet().await;
        assert_eq!((lock.stats().holders, lock.stats().waiters), (1, 1));
        let asked = journal.asked();
        journal.hold_commits(true);
        first.send(Word::Go).unwrap();
        second.send(Word::Go).unwrap();
        journal.wait_for_asked(asked + 1);
        assert_eq!(log.take(), ["first writes"]);
        assert_eq!((lock.stats().holders, lock.stats().waiters), (1, 1));
        journal.hold_commits(false);
        runtime.quiet().await;
        assert_eq!(log.take(), ["second writes"]);
        assert_eq!((lock.stats().holders, lock.stats().waiters), (0, 0));
        for fom in [first, second] {
            fom.send(Word::Go).unwrap();
            fom.await.unwrap();
        }
    });
}

/// Does two things under one lock, each when it is told to.
#[derive(Serialize, Deserialize)]
struct Rename {
    name: String,
}

#[fom(operation(Rename), event(Word))]
enum Renaming {
    #[phase(start, to(Link), sync, on(Go))]
    Look,
    #[phase(to(Unlink), sync, on(Go), locks)]
    Link,
    #[phase(to(Renamed), sync, on(Go), locks)]
    Unlink,
    #[phase(end)]
    Renamed,
}

impl Rename {
    fn lock(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&cx.resource::<LongLocks>().of(7))
    }

    fn note(&self, cx: &Cx<'_, Word>, does: &str) {
        cx.resource::<Log>()
            .put(format_args!("{} {does}", self.name));
    }
}

impl RenamingTransitions for Rename {
    fn look(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<RenamingAfterLook, BoxError> {
        Ok(RenamingAfterLook::Link)
    }
    fn link_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        self.lock(cx)
    }
    fn link(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<RenamingAfterLink, BoxError> {
        self.note(cx, "links");
        Ok(RenamingAfterLink::Unlink)
    }
    fn unlink_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        self.lock(cx)
    }
    fn unlink(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<RenamingAfterUnlink, BoxError> {
        self.note(cx, "unlinks");
        Ok(RenamingAfterUnlink::Renamed)
    }
}

/// LK-02: a lock that is kept from phase to phase is kept over a restart. No fom gets in between, although other foms
/// come back, too, are older, and stand in another locality.
#[test]
fn kept_over_a_restart() {
    for (localities, resident) in [(1, usize::MAX), (1, 1), (4, usize::MAX), (4, 2)] {
        limited(move || async move {
            let (journal, log) = (Held::default(), Log::default());
            let build = |locks: &LongLocks| {
                let builder = many(localities, &TestClock::new()).resource(locks.clone());
                let builder = builder.resource(log.clone()).resident(resident);
                builder.journal_with(journal.clone()).build().unwrap()
            };
            let others = ["other 1", "other 2", "other 3", "other 4"];
            {
                let locks = LongLocks::new("inode");
                let runtime = build(&locks);
                let start = |name: &str| {
                    let rename = Rename {
                        name: name.to_owned(),
                    };
                    runtime.submit(rename).key(name).start().unwrap()
                };
                let older = others.map(start);
                let holder = start("holder");
                holder.send(Word::Go).unwrap();
                holder.reached([RenamingKind::Link]).await;
                holder.send(Word::Go).unwrap();
                holder.reached([RenamingKind::Unlink]).await;
                for fom in &older {
                    fom.send(Word::Go).unwrap();
                    fom.reached([RenamingKind::Link]).await;
                }
                runtime.quiet().await;
                assert_eq!(
                    (locks.of(7).stats().holders, locks.of(7).stats().waiters),
                    (1, 4)
                );
                assert_eq!(log.take(), ["holder links"]);
                runtime.shutdown(Shutdown::Now, secs(10)).await;
            }
            let locks = LongLocks::new("inode");
            let runtime = build(&locks);
            for name in others {
                let fom = runtime.find::<Rename>(name).unwrap();
                fom.send(Word::Go).unwrap();
                fom.send(Word::Go).unwrap();
            }
            runtime.quiet().await;
            assert!(log.take().is_empty());
            let holder = runtime.find::<Rename>("holder").unwrap();
            holder.send(Word::Go).unwrap();
            runtime.idle().await;
            let lines = log.take();
            assert_eq!(lines[0], "holder unlinks");
            assert_eq!(lines.len(), 9);
            for pair in lines[1..].chunks(2) {
                let name = pair[0].strip_suffix(" links").unwrap();
                assert_eq!(pair[1], format!("{name} unlinks"));
            }
        });
    }
}

/// LK-02: a step that could not be committed keeps its locks until it is: no other fom sees a state that may be undone.
/// The fom that goes on in its place has the locks without a gap.
#[test]
fn kept_while_the_journal_fails() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let locks = LongLocks::new("inode");
        let runtime = one(&TestClock::new())
            .resource(locks.clone())
            .resource(log.clone())
            .journal_with(journal.clone())
            .build()
            .unwrap();
        let start = |name: &str| {
            let name = name.to_owned();
            let fom = runtime.submit(Rename { name: name.clone() }).key(name);
            fom.start().unwrap()
        };
        let (first, second) = (start("first"), start("second"));
        for fom in [first.fom(), second.fom()] {
            fom.send(Word::Go).unwrap();
            fom.reached([RenamingKind::Link]).await;
        }
        runtime.quiet().await;
        second.send(Word::Go).unwrap();
        let is_kept = async |does| {
            runtime.quiet().await;
            assert_eq!(log.take(), [does]);
            let stats = locks.of(7).stats();
            assert_eq!((stats.holders, stats.waiters, stats.writes), (1, 1, 1));
        };
        let works_again = |shown_by| {
            journal.fail(false);
            // The next commit shows that the journal works.
            drop(start(shown_by));
            until("nothing is in quarantine", || {
                runtime.quarantine().list().is_empty()
            });
        };
        // The step from one phase with the lock to the other.
        journal.fail(true);
        first.send(Word::Go).unwrap();
        let failed = first.await.unwrap_err();
        assert!(matches!(failed.cause, Cause::Journal(_)));
        is_kept("first links").await;
        works_again("third");
        let first = runtime.find::<Rename>("first").unwrap();
        runtime.quiet().await;
        assert_eq!(first.phase(), "Unlink");
        // The step to the end.
        journal.fail(true);
        first.send(Word::Go).unwrap();
        first.reached([]).await;
        is_kept("first unlinks").await;
        works_again("fourth");
        // The committer gives the lock up after it has emptied the list, so a quiet runtime does not show it.
        second.reached([RenamingKind::Unlink]).await;
        assert_eq!(log.take(), ["second links"]);
        second.send(Word::Go).unwrap();
        second.await.unwrap();
        assert_eq!(log.take(), ["second unlinks"]);
        assert_eq!(locks.of(7).stats().holders, 0);
    });
}

/// LK-02: after a restart a fom in a phase with locks takes them again before its function runs, and after its
/// resources are reopened. One fom has the lock, the others wait for it.
#[test]
fn taken_again_after_a_restart() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let names = ["one", "two", "three"];
        {
            let locks = LongLocks::new("account");
            let runtime = runtime(&journal, &locks, &log);
            for name in names {
                // The runtime goes on with the fom.
                drop(runtime.submit(entry(name)).key(name).start().unwrap());
            }
            runtime.quiet().await;
            assert_eq!(locks.of(7).stats().waiters, 2);
            runtime.shutdown(Shutdown::Now, secs(10)).await;
            assert!(locks.is_empty());
        }
        let locks = LongLocks::new("account");
        let runtime = runtime(&journal, &locks, &log);
        runtime.quiet().await;
        let mut back = log.take();
        back.sort();
        assert_eq!(back, ["one is back", "three is back", "two is back"]);
        let lock = locks.of(7);
        assert_eq!((lock.stats().holders, lock.stats().waiters), (1, 2));
        for name in names {
            let fom = runtime.find::<Entry>(name).unwrap();
            fom.send(Word::Go).unwrap();
        }
        runtime.quiet().await;
        assert_eq!(log.take().len(), 3);
        assert_eq!((lock.stats().holders, lock.stats().writes), (0, 3));
        for name in names {
            let fom = runtime.find::<Entry>(name).unwrap();
            assert_eq!(fom.phase(), "Tell");
            fom.send(Word::Go).unwrap();
        }
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 0);
    });
}
