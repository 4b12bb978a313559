//! Leader and helpers: the leader is woken once, however its helpers end.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fom_patterns::{prelude::*, team::Team};
use fom_runtime::{FomId, error::RefusedReason, machine::FomState, time::TestClock};

use crate::kit::task::{LIMIT, Task, limit, quick, task, until};

/// A helper that ends in the given way.
struct Helper(How);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Well,
    InFailure,
    ByError,
    ByPanic,
    Late,
    Cancelled,
    CancelledInQueue,
}

const WAYS: [How; 7] = [
    How::Well,
    How::InFailure,
    How::ByError,
    How::ByPanic,
    How::Late,
    How::Cancelled,
    How::CancelledInQueue,
];

#[fom(operation(Helper), event(Go), transient)]
enum Helping {
    #[phase(start, sync, to(Work, Wait), on(Now))]
    Ready,
    #[phase(sync, to(Done, Failed))]
    Work,
    /// Waits until its time is over, or it is cancelled.
    #[phase(to(Done), within = "1s")]
    Wait,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Failed,
}

#[derive(Debug)]
enum Go {
    Now,
}

impl HelpingTransitions for Helper {
    fn ready(&mut self, _: &mut Cx<'_, Go>, event: Go) -> Result<HelpingAfterReady, BoxError> {
        let Go::Now = event;
        Ok(match self.0 {
            How::Late | How::Cancelled => HelpingAfterReady::Wait,
            _ => HelpingAfterReady::Work,
        })
    }

    fn work(&mut self, _: &mut Cx<'_, Go>) -> Result<HelpingAfterWork, BoxError> {
        match self.0 {
            How::InFailure => Ok(HelpingAfterWork::Failed),
            How::ByError => Err("it cannot be done".into()),
            How::ByPanic => panic!("it cannot be thought of"),
            _ => Ok(HelpingAfterWork::Done),
        }
    }

    async fn wait(&mut self, _: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

fn three(clock: &TestClock) -> Runtime {
    let builder = Runtime::builder().localities(3).pin(false);
    builder.clock(clock.clone()).build().unwrap()
}

/// A generator with the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % below as u64) as usize
    }
}

/// Waits for all of a team, and counts the polls.
async fn counted(team: &mut Team, polls: &AtomicUsize) {
    let mut all = pin!(team.all());
    std::future::poll_fn(|cx| {
        polls.fetch_add(1, SeqCst);
        all.as_mut().poll(cx)
    })
    .await;
}

fn is(how: How, outcome: &Result<Ended<Helper>, Failure<Helper>>) -> bool {
    match (how, outcome) {
        (How::Well, Ok(ended)) => matches!(ended.end, HelpingEnd::Done),
        (How::InFailure, Ok(ended)) => matches!(ended.end, HelpingEnd::Failed),
        (_, Err(failure)) => match how {
            How::ByError => matches!(failure.cause, Cause::Error(_)),
            How::ByPanic => matches!(failure.cause, Cause::Panicked(_)),
            How::Late => matches!(failure.cause, Cause::Late { .. }),
            How::Cancelled | How::CancelledInQueue => matches!(failure.cause, Cause::Cancelled),
            How::Well | How::InFailure => false,
        },
        _ => false,
    }
}

/// FL-10, trap 40: its helpers end in any ways, orders and localities. The leader goes on exactly once, when all have
/// ended, and then finds every outcome. 60 random schedules.
#[test]
fn a_leader_is_woken_once_by_the_last() {
    let _limit = limit();
    for seed in 1..=60 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (seed << 20));
        let clock = TestClock::new();
        let runtime = three(&clock);
        let ways: Vec<_> = (0..1 + random.below(12))
            .map(|_| WAYS[random.below(WAYS.len())])
            .collect();
        let polls = Arc::new(AtomicUsize::new(0));
        let (tell, helpers) = std::sync::mpsc::channel::<FomRef<Helper>>();
        let leader = {
            let (ways, polls) = (ways.clone(), Arc::clone(&polls));
            let first = random.below(3);
            task(move |cx| {
                Box::pin(async move {
                    let mut team = cx.team();
                    let mut helpers = Vec::new();
                    for (n, how) in ways.iter().enumerate() {
                        let submission = cx.submit(Helper(*how));
                        let at = Placement::Locality((first + n) % 3);
                        let helper = team.start(submission.place(at)).unwrap();
                        tell.send(helper.fom().clone()).unwrap();
                        helpers.push(helper);
                    }
                    drop(tell);
                    counted(&mut team, &polls).await;
                    assert_eq!(team.left(), []);
                    for (how, helper) in ways.into_iter().zip(helpers) {
                        assert!(helper.state() == FomState::Finished);
                        assert!(is(how, &helper.await), "{how:?}");
                    }
                })
            })
        };
        let leader = runtime.submit(leader).start().unwrap();
        let mut helpers: Vec<_> = helpers.iter().zip(ways).collect();
        // In any order.
        while !helpers.is_empty() {
            let (helper, how) = helpers.swap_remove(random.below(helpers.len()));
            if how == How::CancelledInQueue {
                helper.cancel();
                continue;
            }
            helper.send(Go::Now).unwrap();
            if how == How::Cancelled {
                helper.cancel();
            } else if how == How::Late {
                helper.reached([HelpingKind::Wait]).wait();
            }
            if random.below(3) == 0 {
                clock.advance(Duration::from_secs(1));
            }
        }
        clock.advance(Duration::from_secs(1));
        leader.wait().unwrap();
        let polls = polls.load(SeqCst);
        // One poll when the leader begins to wait, one when all have ended; a single poll if they had ended before.
        assert!((1..=2).contains(&polls), "seed {seed}: {polls} polls");
    }
}

/// FL-10: the first helper that ends wakes its leader, the others follow one by one, in the order of their ends.
#[test]
fn a_leader_takes_its_helpers_as_they_end() {
    let _limit = limit();
    let runtime = three(&TestClock::new());
    let (tell, helpers) = std::sync::mpsc::channel::<FomRef<Helper>>();
    let (say, said) = std::sync::mpsc::channel();
    let leader = task(move |cx| {
        Box::pin(async move {
            let mut team = cx.team();
            for how in [How::Well, How::ByPanic, How::InFailure] {
                let helper = team.start(cx.submit(Helper(how))).unwrap();
                tell.send(helper.fom().clone()).unwrap();
            }
            while let Some(place) = team.next().await {
                say.send(place).unwrap();
            }
        })
    });
    let leader = runtime.submit(leader).start().unwrap();
    let helpers: Vec<_> = (0..3).map(|_| helpers.recv().unwrap()).collect();
    for place in [1, 2, 0] {
        helpers[place].send(Go::Now).unwrap();
        assert_eq!(said.recv_timeout(LIMIT).unwrap(), place);
    }
    leader.wait().unwrap();
}

/// FL-10: a refused helper is returned, is not waited for, and leaves nothing behind. Trap 40.
#[test]
fn a_refused_helper_is_not_waited_for() {
    let _limit = limit();
    let builder = Runtime::builder().localities(1).pin(false).capacity(2);
    let runtime = builder.build().unwrap();
    let leader = task(|cx| {
        Box::pin(async move {
            let mut team = cx.team();
            let first = team.start(cx.submit(quick(|_| {}))).unwrap();
            let refused = team.start(cx.submit(quick(|_| {}))).unwrap_err();
            assert_eq!(refused.reason(), RefusedReason::Full);
            let _given_back: Task = refused.into_operation();
            team.all().await;
            first.await.unwrap();
            // An empty team ends every wait at once.
            let mut empty = cx.team();
            empty.all().await;
            assert_eq!(empty.next().await, None);
        })
    });
    runtime.submit(leader).start().unwrap().wait().unwrap();
}

/// FL-10, OB-07: the listing says which helpers a leader waits for. At a shutdown, the leader is answered like its
/// helpers.
#[test]
fn a_waiting_leader_is_listed_and_ends_with_the_runtime() {
    let _limit = limit();
    let runtime = three(&TestClock::new());
    let (tell, helpers) = std::sync::mpsc::channel::<FomRef<Helper>>();
    let leader = task(move |cx| {
        Box::pin(async move {
            let mut team = cx.team();
            for _ in 0..2 {
                let helper = team.start(cx.submit(Helper(How::Well))).unwrap();
                tell.send(helper.fom().clone()).unwrap();
            }
            team.all().await;
        })
    });
    let leader = runtime.submit(leader).start().unwrap();
    let helpers: Vec<_> = (0..2).map(|_| helpers.recv().unwrap()).collect();
    let waits_for = |what: String| {
        until(&what.clone(), || {
            let listed = runtime.operation(leader.id()).unwrap().waiting_for();
            listed.as_deref() == Some(what.as_str())
        });
    };
    let ids: Vec<FomId> = helpers.iter().map(FomRef::id).collect();
    waits_for(format!("2 foms: {}, {}", ids[0], ids[1]));
    helpers[0].send(Go::Now).unwrap();
    waits_for(format!("fom {}", ids[1]));
    runtime.shutdown_blocking(Shutdown::Now, LIMIT);
    assert!(matches!(leader.wait().unwrap_err().cause, Cause::Shutdown));
    assert_eq!(helpers[1].state(), FomState::Finished);
}

/// FL-10: a leader that drops the handle of a helper still waits for its end.
#[test]
fn a_helper_without_a_handle_is_waited_for() {
    let _limit = limit();
    let runtime = three(&TestClock::new());
    let leader = task(|cx| {
        Box::pin(async move {
            let mut team = cx.team();
            for _ in 0..3 {
                drop(team.start(cx.submit(quick(|_| {}))).unwrap());
            }
            team.all().await;
            assert!(team.left().is_empty());
        })
    });
    runtime.submit(leader).start().unwrap().wait().unwrap();
}

/// KY-10, trap 18: a helper that waits for the key of its leader gets an error at once, with the operation.
#[test]
fn a_helper_behind_its_leader_gets_an_error() {
    let _limit = limit();
    let runtime = three(&TestClock::new());
    let leader = task(|cx| {
        Box::pin(async move {
            let mut team = cx.team();
            let behind = cx.submit(quick(|_| {})).key(7).queue();
            let handle = team.start(behind).unwrap();
            team.all().await;
            assert!(matches!(handle.await.unwrap_err().cause, Cause::Stuck));
        })
    });
    let leader = runtime.submit(leader).key(7).queue();
    leader.start().unwrap().wait().unwrap();
}

/// OB-07: of several teams, the listing shows the one that the leader waits for. A wait that the leader has dropped is
/// neither listed nor part of a deadlock.
#[test]
fn the_listing_shows_the_team_of_the_wait() {
    let _limit = limit();
    let runtime = three(&TestClock::new());
    let (tell, helpers) = std::sync::mpsc::channel::<FomRef<Helper>>();
    let leader = task(move |cx| {
        Box::pin(async move {
            let mut first = cx.team();
            let mut second = cx.team();
            for team in [&mut first, &mut second] {
                let helper = team.start(cx.submit(Helper(How::Well))).unwrap();
                tell.send(helper.fom().clone()).unwrap();
            }
            {
                let mut given_up = pin!(first.all());
                std::future::poll_fn(|cx| {
                    assert!(given_up.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            second.all().await;
        })
    });
    let leader = runtime.submit(leader).start().unwrap();
    let helpers: Vec<_> = (0..2).map(|_| helpers.recv().unwrap()).collect();
    let expected = format!("fom {}", helpers[1].id());
    until("the wait for the second team", || {
        let listed = runtime.operation(leader.id()).unwrap().waiting_for();
        listed.as_deref() == Some(expected.as_str())
    });
    let waits = runtime.operation(leader.id()).unwrap().waits;
    assert_eq!(waits[0].holders()[0].fom, Some(helpers[1].id()));
    assert!(runtime.inspect().deadlocks().is_empty());
    for helper in helpers {
        helper.send(Go::Now).unwrap();
    }
    leader.wait().unwrap();
}
