//! A locality with a handler that blocks: other threads serve it, and the core comes back.

use super::*;

/// Foms that block run beside foms that do not: all end, and no two threads are ever in a locality together.
///
/// Seeded: a handler that never gives the core to a returning thread, or sleeps although a thread returns; `regain`
/// without its poke; a call for a follower that is only a notification, and is lost when none is idle yet (all of them:
/// deadlock).
fn hand_over(localities: usize) {
    check(4000, move || {
        let bench = Bench::new(localities, MOST);
        let foms =
            [2, 0, 1].map(|sections| bench.runtime.submit(Work { sections }).start().unwrap());
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 5 + 1 + 3);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn hand_over_in_one_locality() {
    hand_over(1);
}

#[test]
fn hand_over_in_two_localities() {
    hand_over(2);
}

/// Blocks this many times, with nothing in between.
struct Blocks(usize);

#[fom(operation(Blocks), transient)]
enum Blocking {
    #[phase(start, sync, to(Done))]
    Block,
    #[phase(end)]
    Done,
}

impl BlockingTransitions for Blocks {
    fn block(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..self.0 {
            section(cx, thread::yield_now)?;
        }
        visit(cx);
        Ok(())
    }
}

/// At most one thread may stand beside the handler: a thread that blocks waits until the one before is back, and gives
/// it the core. There is never a second thread in a section, since then no thread would serve the locality.
#[test]
fn at_the_most_enter_waits() {
    check(8000, || {
        let bench = Bench::new(1, Followers { most: 1, ..MOST });
        let foms = [2, 1].map(|sections| bench.runtime.submit(Blocks(sections)).start().unwrap());
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2);
        bench.end(Some(Shutdown::Drain));
    });
}

/// The only handler blocks until a fom that is submitted later has run: a follower serves that fom.
///
/// Seeded: a push to a locality without a handler that calls no follower; `vacate` before the core is in the slot; a
/// sender that wakes before it puts the word in (deadlock).
#[test]
fn submitted_while_the_handler_blocks() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let gate = Arc::new(Gate::default());
        let blocks = {
            let gate = Arc::clone(&gate);
            task(move || gate.wait())
        };
        let blocked = bench.runtime.submit(blocks).start().unwrap();
        let opens = task(move || gate.open());
        let opener = bench.runtime.submit(opens).start().unwrap();
        for fom in [blocked, opener] {
            fom.send(Word::Go).unwrap();
            fom.wait().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}

/// Foms that block until others have run: there is always a thread left.
///
/// Seeded: `reserve` that makes no thread (deadlock).
#[test]
fn a_fom_waits_for_another_with_its_thread() {
    check(4000, || {
        let bench = Bench::new(1, MOST);
        let parents = [(), ()].map(|()| {
            bench
                .runtime
                .submit(Parent(Placement::Here))
                .start()
                .unwrap()
        });
        for parent in parents {
            parent.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2 * (2 + 3));
        bench.end(Some(Shutdown::Drain));
    });
}

/// `quiet` answers when every fom waits and none blocks.
///
/// Seeded: `quiet` that is answered while a fom is in a section.
#[test]
fn quiet_against_a_section() {
    check(3000, || {
        let bench = Bench::new(2, MOST);
        let foms = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        block_on(bench.runtime.quiet());
        for fom in foms {
            assert_eq!((fom.state(), fom.phase()), (FomState::Waiting, "Wait"));
            fom.send(Word::Go).unwrap();
            fom.wait().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}
