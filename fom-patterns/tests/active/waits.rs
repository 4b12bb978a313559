//! Active objects: the ways to wait for a call, and the places where waiting is refused.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::{sync::mpsc, thread};

use fom_patterns::{
    active::{ActiveCallError, CallSet},
    prelude::*,
};
use fom_runtime::time::{Instant, TestClock};

use crate::kit::{self, Gate, limited, many, one, secs};

#[derive(Default)]
struct Door {
    open: bool,
    itself: Option<DoorProxy>,
}

#[active]
impl Door {
    pub fn open(&mut self) {
        self.open = true;
    }

    #[when(self.open)]
    pub fn pass(&mut self, who: u64) -> u64 {
        self.open = false;
        who
    }

    pub fn echo(&self, who: u64) -> u64 {
        who
    }

    /// Gives the object a proxy of itself, which keeps the object alive.
    pub fn meet(&mut self, itself: DoorProxy) {
        self.itself = Some(itself);
    }

    pub fn call_itself(&mut self) -> Result<u64, ActiveCallError> {
        let itself = self.itself.as_ref().unwrap();
        itself.echo(1).wait()
    }

    pub async fn await_itself(&mut self) -> Result<u64, ActiveCallError> {
        let itself = self.itself.as_ref().unwrap();
        itself.echo(1).await
    }

    pub fn call_other(&mut self, other: DoorProxy) -> Result<u64, ActiveCallError> {
        other.echo(1).wait()
    }

    pub async fn await_other(&mut self, other: DoorProxy) -> Result<u64, ActiveCallError> {
        other.pass(1).await
    }

    pub fn forget(&mut self) {
        self.itself = None;
    }
}

/// AO-01: a timed get takes nothing away: the call continues, and can be asked again. Both limits use the runtime's
/// clock.
#[test]
fn a_timed_get_can_be_repeated() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let mut call = door.pass(7);
        let (at, waits) = mpsc::channel();
        let waiter = thread::spawn(move || {
            at.send(()).unwrap();
            let relative = call.wait_within(secs(2)).is_none();
            let absolute = call.wait_until(Instant::START + secs(3)).is_none();
            at.send(()).unwrap();
            (relative, absolute, call.wait())
        });
        waits.recv().unwrap();
        while waits.try_recv().is_err() {
            clock.advance(secs(1));
            runtime.quiet().await;
        }
        door.open().await.unwrap();
        assert_eq!(waiter.join().unwrap().2.unwrap(), 7);
    });
}

/// AO-01: copies share one outcome.
#[test]
fn copies_share_one_outcome() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let call = door.echo(3).shared();
        assert_eq!(call.clone().await.unwrap(), 3);
        assert_eq!(call.await.unwrap(), 3);
    });
}

/// AO-04: a set gives outcomes in the order of their arrival, each once. It may wait with a deadline, and continues
/// after the deadline.
#[test]
fn a_set_gives_outcomes_as_they_come() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(2, &clock).build().unwrap();
        let doors = [(); 3].map(|()| Door::default().activate(&runtime).unwrap());
        let mut calls: CallSet<u64> = (0..).zip(&doors).map(|(n, door)| door.pass(n)).collect();
        let mut seen = Vec::new();
        for n in [2, 0] {
            doors[n].open().await.unwrap();
            let (number, who) = calls.next().await.unwrap();
            seen.push((number, who.unwrap()));
        }
        assert_eq!(seen, [(2, 2), (0, 0)]);
        assert_eq!(calls.len(), 1);
        {
            let mut late = Box::pin(calls.next_within(secs(4)));
            assert!(kit::poll_once(late.as_mut()).await.is_pending());
            runtime.quiet().await;
            clock.advance(secs(4));
            assert!(late.await.is_err());
        }
        doors[1].open().await.unwrap();
        let waited = thread::spawn(move || {
            let last = calls.wait_next();
            (
                last.map(|(number, who)| (number, who.unwrap())),
                calls.wait_next().is_none(),
            )
        });
        assert_eq!(waited.join().unwrap(), (Some((1, 1)), true));
    });
}

/// AO-07: an outcome is delivered into the locality that the caller names, with the data of the locality at hand.
#[test]
fn an_outcome_is_delivered_into_a_locality() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).locality_data(|_| Ok::<_, BoxError>(0_u64));
        let runtime = runtime.build().unwrap();
        let door = Door::default().activation().place(Placement::Locality(0));
        let door = door.start(&runtime).unwrap();
        let (tell, told) = tokio::sync::oneshot::channel();
        door.echo(4).then(&runtime, 1, move |local, who| {
            *local.data::<u64>() += who.unwrap();
            tell.send(local.index()).unwrap();
        });
        assert_eq!(told.await.unwrap(), 1);
        let counted = runtime.each(|local| *local.data::<u64>()).await.unwrap();
        assert_eq!(counted, [0, 4]);
    });
}

/// AO-07: a fom that awaits a call continues at home; listings say what the fom waits for.
struct Visitor(DoorProxy);

#[fom(operation(Visitor), transient)]
enum Visit {
    #[phase(start, to(Gone))]
    Knock,
    #[phase(end)]
    Gone { home: usize },
}

impl VisitTransitions for Visitor {
    async fn knock(&mut self, cx: &mut Cx<'_>) -> Result<VisitAfterKnock, BoxError> {
        self.0.pass(1).await?;
        let home = cx.locality();
        assert_eq!(
            Runtime::current().map(|runtime| runtime.in_flight()),
            Some(2)
        );
        Ok(VisitAfterKnock::Gone { home })
    }
}

/// AO-07: see `Visitor`.
#[test]
fn a_fom_awaits_a_call_at_home() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let door = Door::default().activation().place(Placement::Locality(0));
        let door = door.start(&runtime).unwrap();
        let visit = runtime.submit(Visitor(door.clone()));
        let visit = visit.place(Placement::Locality(1)).start().unwrap();
        runtime.quiet().await;
        let listed = runtime.operations().foms;
        let visitor = listed.iter().find(|fom| fom.operation == "Visitor");
        let waits = visitor.unwrap().waiting_for();
        assert_eq!(waits.as_deref(), Some("an answer of an active object"));
        door.open().await.unwrap();
        let VisitEnd::Gone { home } = visit.await.unwrap().end;
        assert_eq!(home, 1);
    });
}

/// Traps 17 and 18: an object that waits for itself, blocking or not, gets an error at once, and nothing hangs.
#[test]
fn an_object_does_not_wait_for_itself() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        door.meet(door.clone()).await.unwrap();
        assert!(matches!(
            door.call_itself().await.unwrap(),
            Err(ActiveCallError::OwnObject)
        ));
        assert!(matches!(
            door.await_itself().await.unwrap(),
            Err(ActiveCallError::OwnObject)
        ));
        // The request of the refused wait is gone.
        assert_eq!(door.queued(), 0);
        door.forget().await.unwrap();
        drop(door);
        runtime.idle().await;
    });
}

/// Traps 17 and 32: a call never blocks a handler thread, neither in a method nor in a message to a locality.
#[test]
fn a_handler_does_not_wait() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let other = Door::default().activate(&runtime).unwrap();
        assert!(matches!(
            door.call_other(other.clone()).await.unwrap(),
            Err(ActiveCallError::OnHandler)
        ));
        let posted = {
            let other = other.clone();
            runtime.call(0, move |_| other.echo(1).wait())
        };
        assert!(matches!(
            posted.await.unwrap(),
            Err(ActiveCallError::OnHandler)
        ));
        // Taking an answer that is already there is no wait.
        let answered = other.echo(5);
        runtime.quiet().await;
        let taken = runtime.call(0, move |_| answered.wait());
        assert_eq!(taken.await.unwrap().unwrap(), 5);
    });
}

/// Traps 17 and 32: in a blocking section the thread is no handler, and may wait for an object of the same locality.
struct Blocker(DoorProxy);

#[fom(operation(Blocker), transient)]
enum Blocking {
    #[phase(start, blocking, to(Through))]
    Wait,
    #[phase(end)]
    Through { who: u64 },
}

impl BlockingTransitions for Blocker {
    fn wait(&mut self, _: &mut BlockingCx<'_>) -> Result<BlockingAfterWait, BoxError> {
        let who = self.0.echo(8).wait()?;
        Ok(BlockingAfterWait::Through { who })
    }
}

/// Traps 17 and 32: see `Blocker`.
#[test]
fn a_blocking_section_may_wait() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let ended = runtime.submit(Blocker(door)).await.unwrap();
        assert!(matches!(ended.end, BlockingEnd::Through { who: 8 }));
    });
}

/// A method that awaits another object holds up the requests of its own object, and nothing else in its locality.
#[test]
fn a_method_may_await_another_object() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let other = Door::default().activate(&runtime).unwrap();
        let passes = door.await_other(other.clone());
        let behind = door.echo(2);
        runtime.quiet().await;
        assert!(!behind.is_ready());
        let listed = runtime.operations().foms;
        let waits: Vec<_> = listed
            .iter()
            .map(|fom| fom.waiting_for().unwrap())
            .collect();
        assert_eq!(waits[0], "an answer of another active object");
        assert!(waits[1].starts_with("the guard of `pass`"), "{waits:?}");
        other.open().await.unwrap();
        assert_eq!(passes.await.unwrap().unwrap(), 1);
        assert_eq!(behind.await.unwrap(), 2);
    });
}

/// A request that comes while nothing else runs is seen at any moment: no call is lost between a look and the sleep.
#[test]
fn no_call_is_lost() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let door = Door::default().activate(&runtime).unwrap();
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let door = door.clone();
                thread::spawn(move || {
                    (0..500).for_each(|n| {
                        assert_eq!(door.echo(n + caller).wait().unwrap(), n + caller)
                    });
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        let gate = Gate::close(&runtime, door.locality());
        let last = door.echo(1);
        gate.open();
        assert_eq!(last.await.unwrap(), 1);
    });
}
