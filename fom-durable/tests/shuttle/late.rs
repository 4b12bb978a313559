//! Deadlines that pass during a commit. The timer of a visit fires before the step that leaves the visit is answered,
//! or as soon as the next visit begins.

use serde::{Deserialize, Serialize};

use super::{disk::mark, *};

/// Waits for four words, two of them in one visit, with a deadline for each visit.
#[derive(Serialize, Deserialize)]
struct Order {
    mark: String,
    steps: usize,
    late: usize,
}

#[fom(operation(Order), event(Word))]
enum Buying {
    #[phase(
        start,
        sync,
        on(Go),
        within = "1s",
        late,
        keep(Second),
        to(Second, Late)
    )]
    First,
    #[phase(sync, on(Go), within = "2s", late, to(Third, Late))]
    Second,
    #[phase(sync, on(Go), within = "1s", late, to(Paid, Late))]
    Third,
    #[phase(end)]
    Paid,
    #[phase(end)]
    Late,
}

impl Order {
    /// Called when a function runs: the journal must have the step before it.
    fn step(&mut self, cx: &Cx<'_, Word>) {
        let kept = cx.resource::<Disk>().mark_of(cx.id());
        assert_eq!(kept, Some(self.steps), "what was acknowledged");
        assert_eq!(self.late, 0, "it was late, and went on");
        self.steps += 1;
        self.mark = mark(self.steps);
    }

    fn late(&mut self, cx: &Cx<'_, Word>) {
        self.step(cx);
        self.late += 1;
    }
}

impl BuyingTransitions for Order {
    fn first(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<BuyingAfterFirst, BoxError> {
        self.step(cx);
        Ok(BuyingAfterFirst::Second)
    }

    fn first_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<BuyingAfterFirst, BoxError> {
        self.late(cx);
        Ok(BuyingAfterFirst::Late)
    }

    fn second(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<BuyingAfterSecond, BoxError> {
        self.step(cx);
        Ok(match self.steps {
            2 => BuyingAfterSecond::Stay,
            _ => BuyingAfterSecond::Third,
        })
    }

    fn second_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<BuyingAfterSecond, BoxError> {
        self.late(cx);
        Ok(BuyingAfterSecond::Late)
    }

    fn third(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<BuyingAfterThird, BoxError> {
        self.step(cx);
        Ok(BuyingAfterThird::Paid)
    }

    fn third_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<BuyingAfterThird, BoxError> {
        self.late(cx);
        Ok(BuyingAfterThird::Late)
    }
}

/// Words arrive and deadlines pass during commits, which may fail. Each function runs only when the journal has the
/// step before it. The visit ends once, and the handle agrees with the journal.
fn late(faults: usize) {
    check(1500, move || {
        let disk = Disk::failing(faults);
        let clock = TestClock::new();
        let bench = disk.bench(1, |builder| builder.clock(&clock));
        let order = Order {
            mark: mark(0),
            steps: 0,
            late: 0,
        };
        let order = bench.runtime.submit(order).key("order").start().unwrap();
        let sends = {
            let fom = FomRef::clone(&order);
            thread::spawn(move || {
                for _ in 0..4 {
                    // The fom may have ended.
                    let _ = fom.send(Word::Go);
                }
            })
        };
        let passes = {
            let clock = clock.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    clock.advance(Duration::from_secs(1));
                }
            })
        };
        let id = order.id();
        match order.wait() {
            Ok(ended) => {
                let Order { steps, late, .. } = ended.operation;
                match ended.end {
                    BuyingEnd::Paid => assert_eq!((steps, late), (4, 0)),
                    BuyingEnd::Late => assert!(late == 1 && (1..=4).contains(&steps)),
                }
            }
            Err(failure) => end_after_failed_commit(&bench, &disk, id, "order", &failure),
        }
        passes.join().unwrap();
        sends.join().unwrap();
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn deadlines_meet_commits() {
    late(0);
}

#[test]
fn deadlines_meet_commits_that_fail() {
    late(1);
}
