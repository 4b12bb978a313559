//! Phases with locks where there is a journal: held over the commit, taken again after a restart.

mod held;
mod kit;

use fom_runtime::{LockMode, LockSet, LongLock, LongLocks, Shutdown, TestClock, prelude::*};
use held::Held;
use kit::{Log, limited, one, secs};
use serde::{Deserialize, Serialize};

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

/// LK-02: the transition out of a phase with locks is committed before they are given back: nobody sees what may be undone.
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

/// LK-02: after a restart whoever stands in a phase with locks takes them again before its function runs, and after what is opened
/// again: one has the lock, the others wait for it.
#[test]
fn taken_again_after_a_restart() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let names = ["one", "two", "three"];
        {
            let locks = LongLocks::new("account");
            let runtime = runtime(&journal, &locks, &log);
            for name in names {
                // The runtime goes on with it.
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
