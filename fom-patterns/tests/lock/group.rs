//! A group of phases with `locks`: the locks are asked for once, and held from the first phase of the group to the last.

use fom_patterns::{
    lock::{LockSet, LongLock},
    prelude::*,
};
use fom_runtime::time::TestClock;

use crate::kit::{Log, limited, one};

enum Word {
    Go,
}

struct Move {
    name: &'static str,
    account: LongLock,
    log: Log,
}

#[fom(
    operation(Move),
    event(Word),
    transient,
    group(Booking, phases(Take, Put), locks)
)]
enum Moving {
    #[phase(start, sync, on(Go), to(Take))]
    Wait,
    #[phase(sync, on(Go), to(Put))]
    Take,
    #[phase(on(Go), to(Told))]
    Put { cents: u32 },
    #[phase(sync, on(Go), to(Done))]
    Told,
    #[phase(end)]
    Done,
}

impl MovingTransitions for Move {
    fn wait(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<MovingAfterWait, BoxError> {
        Ok(MovingAfterWait::Take)
    }
    fn take(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<MovingAfterTake, BoxError> {
        self.log.put(format_args!("{} takes", self.name));
        Ok(MovingAfterTake::Put { cents: 7 })
    }
    async fn put(&mut self, cx: &mut Cx<'_, Word>, cents: &mut u32) -> Result<(), BoxError> {
        cx.event().await;
        self.log.put(format_args!("{} puts {cents}", self.name));
        Ok(())
    }
    fn told(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<MovingAfterTold, BoxError> {
        Ok(MovingAfterTold::Done)
    }
    fn booking_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&self.account)
    }
}

#[test]
fn the_locks_of_a_group_are_held_from_its_first_phase_to_its_last() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (account, log) = (LongLock::new("account"), Log::default());
        let start = |name| {
            let (account, log) = (account.clone(), log.clone());
            let handle = runtime.submit(Move { name, account, log }).start().unwrap();
            handle.send(Word::Go).unwrap();
            handle
        };
        let first = start("first");
        runtime.quiet().await;
        let second = start("second");
        second.send(Word::Go).unwrap();
        runtime.quiet().await;
        // Between the two phases of the group, the other fom does not get the lock.
        first.send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!((first.phase(), second.phase()), ("Put", "Take"));
        assert_eq!(log.take(), ["first takes"]);
        // Behind the group it does.
        first.send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!((first.phase(), second.phase()), ("Told", "Put"));
        assert_eq!(log.take(), ["first puts 7", "second takes"]);
    });
}
