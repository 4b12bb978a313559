//! The turn of a key: suspended and resumed, shared with chained foms, delayed, and waited for by its own holder.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use fom_runtime::{error::RefusedReason, prelude::*, time::TestClock};

use crate::kit::foms::{Walker, Word, walker};
use crate::kit::task::{self, Task, quick, task};
use crate::kit::{Log, limited, millis, one, poll_once, secs};

/// KY-09: no fom gets a suspended key, whether suspended once or twice, from any thread. The foms in its queue keep
/// their order, other keys go on, and the listing shows the suspension.
#[test]
fn a_suspended_key_keeps_the_order_of_those_behind() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let start = |name, key: &'static str| {
            let submission = runtime.submit(walker(&log, name)).key(key);
            submission.queue().start().unwrap()
        };
        let a = start("a", "k");
        let first = runtime.suspend_key::<Walker>("k");
        let (b, c) = (start("b", "k"), start("c", "k"));
        let other = start("other", "l");
        runtime.quiet().await;
        // The holder goes on.
        assert_eq!(
            log.take(),
            ["a begins", "a waits", "other begins", "other waits"]
        );
        a.send(Word::Stop).unwrap();
        a.await.unwrap();
        let second = runtime.suspend_key::<Walker>("k");
        runtime.quiet().await;
        assert_eq!(log.take(), ["a Stop"]);
        let keys = runtime.operations().keys;
        assert_eq!(keys.len(), 1);
        assert_eq!((keys[0].operation, keys[0].suspended), ("Walker", 2));
        assert_eq!(keys[0].key, "k".into());
        assert_eq!(keys[0].waiting, [b.id(), c.id()]);
        assert_eq!(keys[0].holders, []);
        assert!(
            runtime
                .operations()
                .to_string()
                .contains("suspended 2 times")
        );
        // A submission that does not queue is refused.
        let refused = runtime.submit(walker(&log, "d")).key("k").start();
        assert_eq!(refused.unwrap_err().reason(), RefusedReason::KeyInUse);
        // Resumed on another thread; one of two resumes is not enough.
        std::thread::spawn(move || drop(first)).join().unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        second.resume();
        runtime.quiet().await;
        assert_eq!(log.take(), ["b begins", "b waits"]);
        b.send(Word::Stop).unwrap();
        b.await.unwrap();
        c.send(Word::Stop).unwrap();
        c.await.unwrap();
        // A suspended key without a queue.
        let suspended = runtime.suspend_key::<Walker>("k");
        let refused = runtime.submit(walker(&log, "e")).key("k").start();
        assert_eq!(refused.unwrap_err().reason(), RefusedReason::KeySuspended);
        drop(suspended);
        drop(runtime.submit(walker(&log, "e")).key("k").start().unwrap());
        assert!(runtime.operations().keys.is_empty());
        drop(other);
    });
}

/// KY-09: a drain waits for a suspended key up to its limit. The foms in its queue are answered in any case.
#[test]
fn a_shutdown_answers_those_behind_a_suspended_key() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let suspended = runtime.suspend_key::<Walker>(7);
        let start = || runtime.submit(walker(&log, "x")).key(7).queue().start();
        let (a, b) = (start().unwrap(), start().unwrap());
        let report = runtime.shutdown(Shutdown::Drain, millis(20)).await;
        assert_eq!(report.remained.len(), 2);
        for fom in [a, b] {
            assert_eq!(fom.await.unwrap_err().cause.name(), "shutdown");
        }
        // The runtime is gone.
        suspended.resume();
        assert_eq!(log.lines(), [""; 0]);
    });
}

/// KY-10, trap 18: a fom that submits to its own key without waiting has that fom run after itself. If it waits, in any
/// way, it gets an error at once, with the operation. Other foms go on.
#[test]
fn a_fom_that_waits_behind_itself_gets_an_error() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let (tell, told) = (log.clone(), log.clone());
        let holder = task(move |cx| {
            Box::pin(async move {
                let log = told.clone();
                let later = quick(move |_| log.put("later"));
                cx.submit(later).key(7).queue().detach().unwrap();
                let failure = cx.submit(nothing()).key(7).queue().await.unwrap_err();
                assert!(matches!(failure.cause, Cause::Stuck), "{failure}");
                assert!(failure.to_string().contains("chain"), "{failure}");
                assert!(failure.operation.is_some());
                let handle = cx.submit(nothing()).key(7).queue().start().unwrap();
                assert!(matches!(handle.wait().unwrap_err().cause, Cause::Stuck));
                // A fom may wait behind another key, also for its own turn there.
                cx.submit(nothing()).key(8).queue().await.unwrap();
                told.put("holder ends");
            })
        });
        let holder = runtime.submit(holder).key(7).queue().start().unwrap();
        holder.await.unwrap();
        runtime.idle().await;
        assert_eq!(tell.lines(), ["holder ends", "later"]);
        assert_eq!(runtime.in_flight(), 0);
    });
}

fn nothing() -> Task {
    quick(|_| {})
}

/// KY-14: a chained fom runs inside the turn
/// of the fom that submits it: at once, awaited or not. The key goes on when both have ended.
#[test]
fn what_is_chained_is_a_part_of_the_turn() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let (inner, deeper) = (log.clone(), log.clone());
        let first = task(move |cx| {
            Box::pin(async move {
                cx.submit(quick(move |cx| {
                    deeper.put("awaited");
                    let more = deeper.clone();
                    // A chained fom may chain another.
                    cx.submit(quick(move |_| more.put("deeper")))
                        .chain()
                        .detach()
                        .unwrap();
                }))
                .chain()
                .await
                .unwrap();
                // A chained fom of another type, which outlives the first.
                cx.submit(walker(&inner, "part")).chain().detach().unwrap();
                inner.put("first ends");
            })
        });
        let first = runtime.submit(first).key(7).queue().start().unwrap();
        let second = log.clone();
        let second = quick(move |_| second.put("second"));
        let second = runtime.submit(second).key(7).queue().start().unwrap();
        first.await.unwrap();
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            [
                "awaited",
                "deeper",
                "first ends",
                "part begins",
                "part waits"
            ]
        );
        let keys = runtime.operations().keys;
        let part = runtime.operations().foms[1].id;
        assert_eq!(
            (&keys[0].holders[..], &keys[0].waiting[..]),
            (&[part][..], &[second.id()][..])
        );
        // The chained fom has the key, but its type is not the type to join.
        let refused = runtime.submit(nothing()).key(7).join().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        assert!(runtime.find::<Task>(7).is_none());
        assert!(runtime.cancel(part));
        second.await.unwrap();
        assert_eq!(log.take(), ["second"]);
        // No fom has a key here.
        let refused = runtime.submit(nothing()).chain().start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::NoTurn);
        let unkeyed = task(|cx| {
            Box::pin(async move {
                let refused = cx.submit(nothing()).chain().start().unwrap_err();
                assert_eq!(refused.reason(), RefusedReason::NoTurn);
            })
        });
        runtime.submit(unkeyed).await.unwrap();
    });
}

/// KY-18: only the fom that has a key is inside it, on its thread, blocked or not.
#[test]
fn only_the_fom_that_has_a_key_is_inside_it() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        assert!(!runtime.is_current::<Task>(7));
        let outside = runtime.clone();
        let inside = task(move |cx| {
            Box::pin(async move {
                let runtime = cx.runtime();
                assert_eq!(cx.key(), Some(&7.into()));
                assert!(runtime.is_current::<Task>(7));
                assert!(!runtime.is_current::<Task>(8));
                assert!(!runtime.is_current::<Walker>(7));
                assert!(
                    !Runtime::builder()
                        .localities(1)
                        .build()
                        .unwrap()
                        .is_current::<Task>(7)
                );
                {
                    let _blocked = cx.enter_block().unwrap();
                    assert!(runtime.is_current::<Task>(7));
                    let outside = outside.clone();
                    let elsewhere = std::thread::spawn(move || outside.is_current::<Task>(7));
                    assert!(!elsewhere.join().unwrap());
                }
                let chained = quick(|cx| assert!(cx.runtime().is_current::<Task>(7)));
                cx.submit(chained).chain().await.unwrap();
                let other = quick(|cx| assert!(!cx.runtime().is_current::<Task>(7)));
                cx.submit(other).await.unwrap();
                task::pause().await;
                assert!(runtime.is_current::<Task>(7));
            })
        });
        let asks = Asks(runtime.clone(), Arc::default());
        let ended = runtime.submit(inside).key(7).start().unwrap().await;
        ended.unwrap();
        // The fom's drop comes after its end.
        let asked = Arc::clone(&asks.1);
        let drops = quick(move |_| drop(asks));
        runtime.submit(drops).key(9).await.unwrap();
        assert_eq!(asked.load(SeqCst), 1);
        assert!(!runtime.is_current::<Task>(7));
    });
}

/// Asks whether it is inside the key when it is dropped.
struct Asks(Runtime, Arc<AtomicUsize>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.1
            .fetch_add(usize::from(self.0.is_current::<Task>(9)), SeqCst);
    }
}

/// KY-16: a delayed fom begins at its time on the runtime's clock, and takes its turn in the key from then on. It can
/// be cancelled before.
#[test]
fn what_is_delayed_takes_its_place_at_its_time() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let submit = |name| runtime.submit(walker(&log, name)).key(7).queue();
        let delayed = submit("delayed").after(secs(2)).start().unwrap();
        let never = submit("never").after(secs(1)).start().unwrap();
        let plain = runtime
            .submit(walker(&log, "plain"))
            .after(secs(1))
            .start()
            .unwrap();
        runtime.quiet().await;
        let info = runtime.operation(delayed.id()).unwrap();
        assert_eq!(info.waiting_for().as_deref(), Some("a timer"));
        // The delayed fom has no place in the queue before its time.
        let early = submit("early").start().unwrap();
        never.cancel();
        assert_eq!(never.await.unwrap_err().cause.name(), "cancelled");
        runtime.quiet().await;
        assert_eq!(log.take(), ["early begins", "early waits"]);
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(log.take(), ["plain begins", "plain waits"]);
        delayed.wake();
        clock.advance(secs(1));
        runtime.quiet().await;
        let info = runtime.operation(delayed.id()).unwrap();
        let holder = format!("its key, held by Walker {} (key 7) in Waits", early.id());
        assert_eq!(info.waiting_for(), Some(holder));
        let late = submit("late").start().unwrap();
        early.send(Word::Stop).unwrap();
        early.await.unwrap();
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            ["early Stop", "delayed begins", "delayed waits"]
        );
        // A delayed fom that does not queue has its key from the start.
        let holds = runtime.submit(walker(&log, "holds")).key(8).after(secs(1));
        let holds = holds.start().unwrap();
        let refused = runtime
            .submit(walker(&log, "no"))
            .key(8)
            .start()
            .unwrap_err();
        assert_eq!(refused.live().unwrap().id(), holds.id());
        let report = runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(report.remained.is_empty());
        for fom in [delayed, plain, late, holds] {
            assert_eq!(fom.await.unwrap_err().cause.name(), "shutdown");
        }
    });
}

/// KY-16: a recurring fom submits its next run itself, and keeps the order of its key.
#[test]
fn what_recurs_keeps_the_order_of_its_key() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        fn tick(log: Log, left: usize) -> Task {
            quick(move |cx| {
                log.put(format_args!("tick at {:?}", cx.now()));
                if left > 1 {
                    let next = cx.submit(tick(log, left - 1)).key(7).queue();
                    next.after(secs(5)).detach().unwrap();
                }
            })
        }
        let first = runtime.submit(tick(log.clone(), 3)).key(7).queue();
        first.detach().unwrap();
        for _ in 0..3 {
            runtime.quiet().await;
            clock.advance(secs(5));
        }
        runtime.idle().await;
        assert_eq!(log.lines(), ["tick at 0ns", "tick at 5s", "tick at 10s"]);
    });
}

/// KY-05: waiting submissions get room in the order in which they began to wait, and no other submission gets in before
/// them. Room given to a caller that gives up goes to the next. A shutdown refuses the waiting submissions.
#[test]
fn room_in_a_queue_is_had_in_order() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(1).build().unwrap();
        let log = Log::default();
        let submit = |name| runtime.submit(walker(&log, name)).key(7).queue();
        let (a, b) = (submit("a").start().unwrap(), submit("b").start().unwrap());
        let mut c = Box::pin(submit("c").start_when_room());
        let mut d = Box::pin(submit("d").start_when_room());
        let mut e = Box::pin(submit("e").start_when_room());
        for waits in [&mut c, &mut d, &mut e] {
            assert!(poll_once(waits.as_mut()).await.is_pending());
        }
        assert_eq!(runtime.in_flight(), 2);
        a.send(Word::Stop).unwrap();
        a.await.unwrap();
        // There is room, and c has it.
        let refused = submit("f").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyFull);
        // c gives up: d has the room.
        drop(c);
        let d = d.await.unwrap();
        assert!(poll_once(e.as_mut()).await.is_pending());
        b.send(Word::Stop).unwrap();
        b.await.unwrap();
        let e = e.await.unwrap();
        // Waits on a thread.
        let thread = {
            let (runtime, log) = (runtime.clone(), log.clone());
            std::thread::spawn(move || {
                let submission = runtime.submit(walker(&log, "g")).key(7).queue();
                submission.start_when_room().wait()
            })
        };
        d.send(Word::Stop).unwrap();
        d.await.unwrap();
        let g = thread.join().unwrap().unwrap();
        let mut h = Box::pin(submit("h").start_when_room());
        assert!(poll_once(h.as_mut()).await.is_pending());
        drop(runtime.shutdown(Shutdown::Now, secs(10)).await);
        let refused = h.await.unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
        assert_eq!(refused.into_operation().name, "h");
        drop((e, g));
    });
}

/// KY-05: submissions without a key wait for room in the runtime, too.
#[test]
fn room_in_the_runtime_is_waited_for() {
    limited(|| async {
        let runtime = one(&TestClock::new()).capacity(2).build().unwrap();
        let log = Log::default();
        let start = |name| runtime.submit(walker(&log, name)).start().unwrap();
        let (a, b) = (start("a"), start("b"));
        let mut c = Box::pin(runtime.submit(walker(&log, "c")).start_when_room());
        let mut d = Box::pin(runtime.submit(walker(&log, "d")).start_when_room());
        assert!(poll_once(c.as_mut()).await.is_pending());
        assert!(poll_once(d.as_mut()).await.is_pending());
        a.send(Word::Stop).unwrap();
        a.await.unwrap();
        drop(c);
        let d = d.await.unwrap();
        let full = runtime.submit(walker(&log, "e")).start().unwrap_err();
        assert_eq!(full.reason(), RefusedReason::Full);
        for fom in [b, d] {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
        }
        // No room is lost or left behind.
        let (f, g) = (start("f"), start("g"));
        assert!(runtime.submit(walker(&log, "h")).start().is_err());
        drop((f, g));
    });
}

/// KY-05, KY-10: the fom that has a key does not wait for room behind itself.
#[test]
fn no_fom_waits_for_room_behind_itself() {
    limited(|| async {
        let runtime = one(&TestClock::new()).key_queue(1).build().unwrap();
        let holder = task(|cx| {
            Box::pin(async move {
                cx.submit(nothing()).key(7).queue().detach().unwrap();
                let refused = cx.submit(nothing()).key(7).queue().start_when_room().await;
                assert_eq!(refused.unwrap_err().reason(), RefusedReason::KeyFull);
            })
        });
        runtime.submit(holder).key(7).queue().await.unwrap();
        runtime.idle().await;
    });
}

/// KY-08, trap 25: a head that waits for its next attempt keeps the order of its key, and takes no room from other foms
/// meanwhile. When its attempts are used up, or it is cancelled, the next fom has its turn.
#[test]
fn a_head_that_tries_again_keeps_its_order_and_takes_no_room() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).capacity(3).key_queue(1).build().unwrap();
        let log = Log::default();
        let fail = |name, key: u64| {
            let log = log.clone();
            runtime.submit(Fails { log, name }).key(key).queue()
        };
        let a = fail("a", 7).start().unwrap();
        let b = fail("b", 7).start().unwrap();
        let full = fail("c", 7).start().unwrap_err();
        assert_eq!(full.reason(), RefusedReason::KeyFull);
        runtime.quiet().await;
        let info = runtime.operation(a.id()).unwrap();
        assert_eq!(info.waiting_for().as_deref(), Some("its next attempt"));
        // b takes room; a takes none while it waits.
        let others: Vec<_> = (0..2)
            .map(|key: u64| runtime.submit(walker(&log, "o")).key(key).start().unwrap())
            .collect();
        let full = runtime.submit(walker(&log, "o")).start().unwrap_err();
        assert_eq!(full.reason(), RefusedReason::Full);
        for _ in 0..2 {
            clock.advance(secs(1));
            runtime.quiet().await;
        }
        let failure = a.await.unwrap_err();
        assert_eq!(failure.cause.name(), "error");
        assert_eq!(failure.attempts.len(), 2);
        runtime.quiet().await;
        // Now b pauses: there is room for two more.
        let more = runtime.submit(walker(&log, "o")).start().unwrap();
        assert!(runtime.submit(walker(&log, "o")).start().is_err());
        b.cancel();
        assert_eq!(b.await.unwrap_err().cause.name(), "cancelled");
        let fails: Vec<_> = log.lines();
        let fails: Vec<_> = fails.iter().filter(|line| line.contains("fails")).collect();
        assert_eq!(fails, ["a fails", "a fails", "a fails", "b fails"]);
        assert!(runtime.submit(walker(&log, "o")).start().is_err());
        for fom in others.into_iter().chain([more]) {
            fom.send(Word::Stop).unwrap();
            fom.await.unwrap();
        }
        let all: Vec<_> = (0..3)
            .map(|_| runtime.submit(walker(&log, "o")).start().unwrap())
            .collect();
        assert!(runtime.submit(walker(&log, "o")).start().is_err());
        drop(all);
    });
}

struct Fails {
    log: Log,
    name: &'static str,
}

#[fom(operation(Fails), transient)]
enum Failing {
    #[phase(start, sync, to(Done), retry = "2, 1s..1s")]
    Try,
    #[phase(end)]
    Done,
}

impl FailingTransitions for Fails {
    fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.log.put(format_args!("{} fails", self.name));
        Err("not yet".into())
    }
}
