//! What wakes a fom: wakes as a coalesced token, answers, deadlines, retries.

mod kit;

use std::{
    collections::VecDeque,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    time::Duration,
};

use fom_runtime::{Clock, FomState, TestClock, TransitionCause, Unanswered, prelude::*};
use kit::{Gate, Log, limited, many, millis, one, secs};

#[derive(Debug, PartialEq)]
struct Oops(u32);

/// Counts how often it is polled, and never gets on.
struct Polled {
    polls: Arc<AtomicUsize>,
    /// Stands still once, in a blocking section or not: tells that it does, and waits to be let go.
    stand: Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>,
    in_block: bool,
}

#[fom(operation(Polled), error(Oops), transient)]
enum Polling {
    #[phase(start, to(Never))]
    Poll,
    #[phase(end)]
    Never,
}

impl PollingTransitions for Polled {
    async fn poll(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        if let Some((stands, go)) = &mut self.stand
            && self.in_block
        {
            let _guard = cx.enter_block().unwrap();
            stands.send(()).unwrap();
            go.recv().unwrap();
        }
        poll_fn(|_| {
            if self.polls.fetch_add(1, Ordering::SeqCst) == 0
                && !self.in_block
                && let Some((stands, go)) = &mut self.stand
            {
                stands.send(()).unwrap();
                go.recv().unwrap();
            }
            Poll::Pending
        })
        .await
    }
}

fn polled() -> (Polled, Arc<AtomicUsize>) {
    let polls = Arc::<AtomicUsize>::default();
    let fom = Polled {
        polls: Arc::clone(&polls),
        stand: None,
        in_block: false,
    };
    (fom, polls)
}

/// WK-01: a wake comes from any thread. (That it allocates nothing is tested in tests/allocation.rs; that it takes no
/// lock but the one of the sleeping reactor, by the models of token and inbox in tests/loom.rs.)
#[test]
fn any_thread_wakes() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime
            .submit(fom)
            .place(Placement::Locality(0))
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        // A plain thread.
        let address = fom.fom().clone();
        std::thread::spawn(move || address.wake()).join().unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
        // Another locality, and its own.
        for locality in [1, 0] {
            let address = fom.fom().clone();
            runtime.post(locality, move |_| address.wake()).unwrap();
            runtime.quiet().await;
        }
        assert_eq!(polls.load(Ordering::SeqCst), 4);
        // By id, from a tokio task.
        let (by_id, id) = (runtime.clone(), fom.id());
        assert!(tokio::spawn(async move { by_id.wake(id) }).await.unwrap());
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 5);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

/// WK-02: a wake is a coalesced token: any number of wakes of a fom that is queued, ready, running or blocked are one
/// more run, and never none.
/// Trap 2: a wake of a fom that does not wait is neither lost nor queued twice.
/// Trap 3: the admission and the wakes of one fom do not overwrite each other.
#[test]
fn a_wake_is_a_coalesced_token() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        // Queued, not yet admitted: the first run is what the wakes ask for.
        let (fom, polls) = polled();
        let gate = Gate::close(&runtime, 0);
        let fom = runtime.submit(fom).start().unwrap();
        (0..5).for_each(|_| fom.wake());
        assert_eq!(fom.state(), FomState::Init);
        gate.open();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);

        // Waiting, then ready.
        for wakes in [1, 2, 1000] {
            let before = polls.load(Ordering::SeqCst);
            let gate = Gate::close(&runtime, 0);
            (0..wakes).for_each(|_| fom.wake());
            assert_eq!(fom.state(), FomState::Ready);
            gate.open();
            runtime.quiet().await;
            assert_eq!(polls.load(Ordering::SeqCst), before + 1, "{wakes} wakes");
        }
        fom.cancel();
        assert!(fom.await.is_err());

        // Running, and blocked.
        for in_block in [false, true] {
            for wakes in [0, 1, 100] {
                let (stands, standing) = mpsc::channel();
                let (go, gone) = mpsc::channel();
                let (mut fom, polls) = polled();
                fom.stand = Some((stands, gone));
                fom.in_block = in_block;
                let fom = runtime.submit(fom).start().unwrap();
                standing.recv().unwrap();
                assert_eq!(fom.state(), FomState::Running);
                (0..wakes).for_each(|_| fom.wake());
                go.send(()).unwrap();
                runtime.quiet().await;
                let expected = if wakes == 0 { 1 } else { 2 };
                assert_eq!(
                    polls.load(Ordering::SeqCst),
                    expected,
                    "{wakes} wakes, blocked: {in_block}"
                );
                assert_eq!(fom.state(), FomState::Waiting);
                fom.cancel();
                assert!(fom.await.is_err());
            }
        }
    });
}

/// WK-03: wakes from many threads at once never queue a fom twice: after the last one it is run, and then it waits.
#[test]
fn duplicate_wakes_never_queue_twice() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime.submit(fom).start().unwrap();
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| fom.wake()));
            }
        });
        gate.open();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
        // And with the locality running, at most one run for each wake.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| fom.wake()));
            }
        });
        runtime.quiet().await;
        let polls = polls.load(Ordering::SeqCst);
        assert!((3..=2 + 4000).contains(&polls), "{polls}");
        assert_eq!(fom.state(), FomState::Waiting);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

/// WK-04: a wake after the end is nothing: an address keeps the memory, not the fom, and an id is never used again.
#[test]
fn a_wake_after_the_end_is_nothing() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (fom, polls) = polled();
        let fom = runtime.submit(fom).start().unwrap();
        let address = fom.fom().clone();
        runtime.quiet().await;
        fom.cancel();
        assert!(fom.await.is_err());
        runtime.idle().await;
        let (next, next_polls) = polled();
        let next = runtime.submit(next).start().unwrap();
        assert_ne!(next.id(), address.id());
        runtime.quiet().await;
        (0..10).for_each(|_| address.wake());
        assert!(!runtime.wake(address.id()));
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        assert_eq!(next_polls.load(Ordering::SeqCst), 1);
        drop(next);
        drop(runtime);
        address.wake();
        address.cancel();
        assert_eq!(address.state(), FomState::Finished);
    });
}

/// WK-05: a wake inside the tick, by the fom itself, is not lost: it runs again, once.
#[test]
fn a_wake_inside_the_tick_is_not_lost() {
    struct Selfish(Arc<AtomicUsize>);
    #[fom(operation(Selfish), error(Oops), transient)]
    enum Selfishly {
        #[phase(start, to(Done))]
        Wakes,
        #[phase(end)]
        Done,
    }
    impl SelfishlyTransitions for Selfish {
        async fn wakes(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            let (runtime, id) = (cx.runtime(), cx.id());
            poll_fn(|task| match self.0.fetch_add(1, Ordering::SeqCst) {
                // By id, by its waker twice over, and then not at all.
                0 => {
                    assert!(runtime.wake(id));
                    Poll::Pending
                }
                1 => {
                    task.waker().wake_by_ref();
                    #[allow(clippy::waker_clone_wake, reason = "both ways of waking are meant")]
                    task.waker().clone().wake();
                    Poll::Pending
                }
                2 => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let polls = Arc::<AtomicUsize>::default();
        let fom = runtime.submit(Selfish(Arc::clone(&polls))).start().unwrap();
        runtime.quiet().await;
        assert_eq!(polls.load(Ordering::SeqCst), 3);
        assert_eq!(fom.state(), FomState::Waiting);
        fom.wake();
        fom.await.unwrap();
    });
}

/// Keeps what it is asked, until a test answers it.
#[derive(Clone)]
struct Desk<T>(Arc<Mutex<VecDeque<Reply<T>>>>);

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Desk<T> {
    fn ask(&self, reply: Reply<T>) {
        self.0.lock().unwrap().push_back(reply);
    }

    /// The oldest request.
    fn next(&self) -> Reply<T> {
        self.0.lock().unwrap().pop_front().expect("somebody asked")
    }

    fn all(&self) -> Vec<Reply<T>> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

/// Counts the polls of a future, and gives their number with its output.
async fn counted<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx).map(|output| (output, polls))
    })
    .await
}

/// Asks in one of several ways.
struct Asks {
    how: &'static str,
    log: Log,
}

#[derive(Debug, PartialEq)]
enum News {
    Ping(u32),
}

#[fom(operation(Asks), error(Oops), event(News), transient)]
enum Asking {
    #[phase(start, to(Answered, Next), on(Ping))]
    Ask,
    #[phase(to(Answered), on(Ping))]
    Next,
    #[phase(end)]
    Answered,
}

impl AskingTransitions for Asks {
    async fn ask(&mut self, cx: &mut Cx<'_, News>) -> Result<AskingAfterAsk, Oops> {
        let log = self.log.clone();
        match self.how {
            "one" => {
                let answer = cx.call(|desk: &Desk<u32>, reply| desk.ask(reply)).await;
                log.put(format_args!("{answer:?}"));
            }
            "all" => {
                let all = cx.all(0..4, |desk: &Desk<u32>, _, reply| desk.ask(reply));
                let (answers, polls) = counted(all).await;
                log.put(format_args!("{answers:?} after {polls} polls"));
            }
            "any" => {
                let any = cx.any(0..4, |desk: &Desk<u32>, _, reply| desk.ask(reply));
                let (answer, polls) = counted(any).await;
                log.put(format_args!("{answer:?} after {polls} polls"));
            }
            "none" => {
                let none = std::iter::empty::<u32>();
                let answers = cx
                    .all(none.clone(), |desk: &Desk<u32>, _, reply| desk.ask(reply))
                    .await;
                let answer = cx
                    .any(none, |desk: &Desk<u32>, _, reply| desk.ask(reply))
                    .await;
                log.put(format_args!("{answers:?} {answer:?}"));
            }
            "three" => {
                // Three requests; one of them is dropped on an event, which says which.
                let ask = || Box::pin(cx.call(|desk: &Desk<u32>, reply| desk.ask(reply)));
                let mut asked = [Some(ask()), Some(ask()), Some(ask())];
                for asked in asked.iter_mut().flatten() {
                    assert!(kit::poll_once(asked.as_mut()).await.is_pending());
                }
                let News::Ping(which) = cx.event().await;
                asked[which as usize] = None;
                for (n, asked) in asked.into_iter().enumerate() {
                    if let Some(asked) = asked {
                        log.put(format_args!("{n}: {:?}", asked.await));
                    }
                }
            }
            _ => {
                let what = tokio::select! {
                    biased;
                    News::Ping(n) = cx.event() => format!("event {n}"),
                    answer = cx.call(|desk: &Desk<u32>, reply| desk.ask(reply)) => format!("answer {answer:?}"),
                    () = cx.sleep(secs(5)) => "time".into(),
                };
                log.put(what);
                return Ok(AskingAfterAsk::Next);
            }
        }
        Ok(AskingAfterAsk::Answered)
    }

    async fn next(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        let log = self.log.clone();
        let (News::Ping(n), polls) = counted(cx.event()).await;
        log.put(format_args!("then event {n} after {polls} polls"));
        Ok(())
    }
}

fn desk(clock: &TestClock) -> (Runtime, Desk<u32>, Log) {
    let desk = Desk::default();
    let runtime = one(clock).resource(desk.clone()).build().unwrap();
    (runtime, desk, Log::default())
}

/// WK-09: a request completes exactly once: with the answer, with `Unanswered` when its reply is dropped, or not at all
/// when the one who asked is gone, and then the answer is given back. (A reply is used up by answering, so twice does
/// not compile.)
#[test]
fn a_request_completes_exactly_once() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        let ask = || {
            runtime
                .submit(Asks {
                    how: "one",
                    log: log.clone(),
                })
                .start()
                .unwrap()
        };
        let fom = ask();
        runtime.quiet().await;
        assert_eq!(desk.next().send(7), Ok(()));
        fom.await.unwrap();
        assert_eq!(log.take(), ["Ok(7)"]);

        let fom = ask();
        runtime.quiet().await;
        drop(desk.next());
        fom.await.unwrap();
        assert_eq!(log.take(), [format!("{:?}", Err::<u32, _>(Unanswered))]);

        let fom = ask();
        runtime.quiet().await;
        let reply = desk.next();
        assert!(!reply.is_unwanted());
        fom.cancel();
        assert!(fom.await.is_err());
        assert!(reply.is_unwanted());
        assert_eq!(reply.send(8), Err(8));
        assert_eq!(log.take(), [""; 0]);
    });
}

/// WK-14: many requests are one wait: the fom is woken once, by the last answer, whatever threads they come from; a
/// request that is dropped counts as answered.
#[test]
fn the_last_of_many_answers_wakes_once() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        for _ in 0..20 {
            let fom = runtime
                .submit(Asks {
                    how: "all",
                    log: log.clone(),
                })
                .start()
                .unwrap();
            runtime.quiet().await;
            let threads: Vec<_> = desk
                .all()
                .into_iter()
                .enumerate()
                .map(|(n, reply)| {
                    std::thread::spawn(move || {
                        if n != 2 {
                            reply.send(n as u32 * 10).unwrap();
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            fom.await.unwrap();
            assert_eq!(
                log.take(),
                ["[Ok(0), Ok(10), Err(Unanswered), Ok(30)] after 2 polls"]
            );
        }
        let fom = runtime.submit(Asks {
            how: "none",
            log: log.clone(),
        });
        fom.await.unwrap();
        assert_eq!(log.take(), ["[] Err(Unanswered)"]);
    });
}

/// WK-14: or the first answer is enough: it wakes once, and the others are turned away; only when every one is dropped
/// there is none.
#[test]
fn the_first_of_many_answers_is_enough() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        let ask = || {
            runtime
                .submit(Asks {
                    how: "any",
                    log: log.clone(),
                })
                .start()
                .unwrap()
        };
        let fom = ask();
        runtime.quiet().await;
        let mut replies = desk.all();
        drop(replies.remove(0));
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        assert_eq!(replies.remove(1).send(5), Ok(()));
        // Before the fom ran, too.
        assert_eq!(replies.remove(0).send(6), Err(6));
        gate.open();
        fom.await.unwrap();
        assert!(replies[0].is_unwanted());
        assert_eq!(replies.remove(0).send(7), Err(7));
        assert_eq!(log.take(), ["Ok((2, 5)) after 2 polls"]);

        let fom = ask();
        runtime.quiet().await;
        drop(desk.all());
        fom.await.unwrap();
        assert_eq!(log.take(), ["Err(Unanswered) after 2 polls"]);
    });
}

/// WK-08: a wait that is dropped is over when the drop returns: its answer is turned away and changes nothing, whether it
/// was the first, a middle or the last one, was answered already and not yet read, or is done.
/// Trap 8: taking out the head, or one whose answer was just posted, harms none of the others.
#[test]
fn a_dropped_wait_is_over() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        for which in 0..3 {
            for answered_before in [false, true] {
                let fom = runtime
                    .submit(Asks {
                        how: "three",
                        log: log.clone(),
                    })
                    .start()
                    .unwrap();
                runtime.quiet().await;
                let mut replies: Vec<_> = desk.all().into_iter().map(Some).collect();
                let gate = Gate::close(&runtime, 0);
                if answered_before {
                    let reply = replies[which].take().unwrap();
                    assert_eq!(reply.send(99), Ok(()), "posted; it is dropped unread");
                }
                fom.send(News::Ping(which as u32)).unwrap();
                gate.open();
                runtime.quiet().await;
                if let Some(reply) = replies[which].take() {
                    assert_eq!(reply.send(99), Err(99), "it is over");
                }
                let rest: Vec<_> = (0..3).filter(|n| *n != which).collect();
                // In whatever order: the answers find their waits.
                for n in rest.iter().rev() {
                    assert_eq!(replies[*n].take().unwrap().send(*n as u32), Ok(()));
                }
                fom.await.unwrap();
                let expected: Vec<_> = rest.iter().map(|n| format!("{n}: Ok({n})")).collect();
                assert_eq!(log.take(), expected);
            }
        }
    });
}

/// Trap 8: a cancel that races with a posted answer ends the fom once, one way or the other.
#[test]
fn cancel_races_with_an_answer() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        let mut ways = [0; 2];
        for n in 0..200 {
            let fom = runtime
                .submit(Asks {
                    how: "one",
                    log: log.clone(),
                })
                .start()
                .unwrap();
            runtime.quiet().await;
            let reply = desk.next();
            let address = fom.fom().clone();
            let thread = std::thread::spawn(move || {
                if n % 3 == 0 {
                    std::thread::yield_now();
                }
                let _ = reply.send(1);
            });
            address.cancel();
            let ended = fom.await;
            thread.join().unwrap();
            match ended {
                Ok(_) => ways[0] += 1,
                Err(failure) => {
                    assert!(matches!(failure.cause, Cause::Cancelled));
                    ways[1] += 1;
                }
            }
        }
        runtime.idle().await;
        assert_eq!(
            log.take().len(),
            ways[0],
            "who was answered went on, who was cancelled did not"
        );
        let totals = &runtime.operations().types[0];
        assert_eq!((totals.started, totals.ended), (200, 200));
    });
}

/// WK-13: a fom waits for an event, an answer and a time at once: the first one wins, and the others are disarmed with
/// it: the answer is turned away, an event stays for who takes it, and the timer wakes nobody.
#[test]
fn the_first_of_several_waits_wins() {
    limited(|| async {
        let clock = TestClock::new();
        let (runtime, desk, log) = desk(&clock);
        for (wins, first, second) in [
            ("event", "event 1", "then event 2 after 2 polls"),
            ("answer", "answer Ok(7)", "then event 2 after 2 polls"),
            ("time", "time", "then event 2 after 2 polls"),
        ] {
            let fom = runtime
                .submit(Asks {
                    how: "select",
                    log: log.clone(),
                })
                .start()
                .unwrap();
            runtime.quiet().await;
            let reply = desk.next();
            let reply = match wins {
                "event" => {
                    fom.send(News::Ping(1)).unwrap();
                    Some(reply)
                }
                "answer" => {
                    reply.send(7).unwrap();
                    None
                }
                _ => {
                    clock.advance(secs(5));
                    Some(reply)
                }
            };
            runtime.quiet().await;
            assert_eq!(log.take(), [first]);
            if let Some(reply) = reply {
                assert_eq!(reply.send(9), Err(9));
            }
            clock.advance(secs(5));
            runtime.quiet().await;
            fom.send(News::Ping(2)).unwrap();
            fom.await.unwrap();
            assert_eq!(
                log.take(),
                [second],
                "neither the answer nor the timer woke it"
            );
        }
    });
}

/// Trap 7: no stray wake gets a fom past its wait; only the answer does.
#[test]
fn stray_wakes_get_nobody_past_a_wait() {
    limited(|| async {
        let (runtime, desk, log) = desk(&TestClock::new());
        let fom = runtime
            .submit(Asks {
                how: "one",
                log: log.clone(),
            })
            .start()
            .unwrap();
        for _ in 0..100 {
            runtime.quiet().await;
            assert_eq!((fom.phase(), log.lines().len()), ("Ask", 0));
            fom.wake();
        }
        runtime.quiet().await;
        desk.next().send(1).unwrap();
        fom.await.unwrap();
        assert_eq!(log.take(), ["Ok(1)"]);
    });
}

/// Deadlines of one visit, of several, and retries.
struct Timed {
    /// How often each attempt fails before one succeeds.
    fails: u32,
    log: Log,
}

impl Timed {
    fn try_it(&mut self, now: Duration, attempt: u32) -> Result<(), Oops> {
        self.log.put(format_args!("attempt {attempt} at {now:?}"));
        if self.fails == 0 {
            return Ok(());
        }
        self.fails -= 1;
        Err(Oops(attempt))
    }
}

fn timed(fails: u32, log: &Log) -> Timed {
    Timed {
        fails,
        log: log.clone(),
    }
}

/// Moves the clock from one thing that is due to the next, in steps of a millisecond.
async fn run_for(runtime: &Runtime, clock: &TestClock, steps: u32) {
    for _ in 0..steps {
        runtime.quiet().await;
        clock.advance(millis(1));
    }
    runtime.quiet().await;
}

/// WK-10: a deadline is absolute, belongs to one visit of a phase, fires as soon as it passed and not before, and can
/// never fire after the phase was left.
/// WK-12: who is late is told why: by the late function, or by a cause that names the phase; and listeners by theirs.
#[test]
fn a_deadline_belongs_to_one_visit() {
    struct Visits(Log);
    #[fom(operation(Visits), error(Oops), event(News), transient)]
    enum Visiting {
        #[phase(start, to(Second), within = "5s", late, on(Ping))]
        First,
        #[phase(to(Third), within = "5s", on(Ping), sync)]
        Second,
        #[phase(to(Done), on(Ping), within = "1m")]
        Third,
        #[phase(end)]
        Done,
    }
    impl VisitingTransitions for Visits {
        async fn first(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
            self.0.put(format_args!("first, due {:?}", cx.deadline()));
            cx.event().await;
            Ok(())
        }
        async fn first_late(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
            self.0.put(format_args!(
                "late at {:?}, due {:?}",
                cx.now(),
                cx.deadline()
            ));
            Ok(())
        }
        fn second(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<VisitingAfterSecond, Oops> {
            Ok(VisitingAfterSecond::Third)
        }
        async fn third(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
            self.0.put("third");
            cx.event().await;
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let causes = log.clone();
        runtime
            .listen(move |step| match step.cause() {
                TransitionCause::Late | TransitionCause::Failed(_) => causes.put(step.cause()),
                _ => {}
            })
            .forever();
        // Not a nanosecond too early.
        clock.advance(secs(1));
        let fom = runtime.submit(Visits(log.clone())).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(5) - Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(log.take(), ["first, due Some(6s)"]);
        clock.advance(Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(log.take(), ["late at 6s, due None", "late"]);
        // The next visit has a deadline of its own, and no late function.
        clock.advance(secs(4));
        runtime.quiet().await;
        assert_eq!(log.take(), [""; 0]);
        clock.advance(secs(1));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Second" }));
        assert_eq!(
            (failure.phase, failure.operation.is_some()),
            ("Second", true)
        );
        assert_eq!(log.take(), ["late"]);
        // Left in time: what was armed is gone.
        let fom = runtime.submit(Visits(log.clone())).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(4));
        fom.send(News::Ping(1)).unwrap();
        fom.send(News::Ping(2)).unwrap();
        runtime.quiet().await;
        clock.advance(secs(30));
        runtime.quiet().await;
        assert_eq!(fom.state(), FomState::Waiting);
        assert_eq!(log.take(), ["first, due Some(16s)", "third"]);
        // A deadline that passed long ago fires as soon as it is looked at.
        clock.advance(secs(3600));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Third" }));
    });
}

/// WK-10: a deadline that passes while its fom runs or stands in the queue takes nothing from it: a result that is there
/// counts, and an event that came in time is lost only if it comes after the deadline was seen.
#[test]
fn a_result_beats_a_deadline_that_passed_meanwhile() {
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);
    #[fom(operation(Slow), error(Oops), transient)]
    enum Slowly {
        #[phase(start, to(Done), within = "1s", blocking)]
        Work,
        #[phase(end)]
        Done,
    }
    impl SlowlyTransitions for Slow {
        fn work(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (stands, standing) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let fom = runtime.submit(Slow(stands, gone)).start().unwrap();
        standing.recv().unwrap();
        clock.advance(secs(2));
        // The locality looked at its timers meanwhile.
        assert_eq!(runtime.call(0, |local| local.index()).await, Ok(0));
        go.send(()).unwrap();
        assert!(matches!(fom.await.unwrap().phase, Slowly::Done));
    });
}

/// Goes through phases of which some keep the first one's deadline.
struct Keeps {
    stop: &'static str,
    log: Log,
}

#[fom(operation(Keeps), error(Oops), event(News), transient)]
enum Keeping {
    #[phase(
        start,
        to(Inner),
        within = "10s",
        keep(Inner, Own, Lates, Last),
        on(Ping)
    )]
    Outer,
    #[phase(to(Own, Outside), on(Ping))]
    Inner,
    #[phase(to(Lates), on(Ping), within = "20s")]
    Own,
    #[phase(to(Last), on(Ping), within = "1s", late)]
    Lates,
    #[phase(to(Outside, Outer), on(Ping))]
    Last,
    #[phase(to(Done), on(Ping))]
    Outside,
    #[phase(end)]
    Done,
}

impl Keeps {
    async fn wait(&self, name: &str, cx: &Cx<'_, News>) {
        self.log.put(format_args!("{name} due {:?}", cx.deadline()));
        cx.event().await;
    }
}

impl KeepingTransitions for Keeps {
    async fn outer(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        self.wait("Outer", cx).await;
        Ok(())
    }
    async fn inner(&mut self, cx: &mut Cx<'_, News>) -> Result<KeepingAfterInner, Oops> {
        self.wait("Inner", cx).await;
        Ok(if self.stop == "Inner" {
            KeepingAfterInner::Outside
        } else {
            KeepingAfterInner::Own
        })
    }
    async fn own(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        self.wait("Own", cx).await;
        Ok(())
    }
    async fn lates(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        self.wait("Lates", cx).await;
        Ok(())
    }
    async fn lates_late(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        self.log.put(format_args!("Lates late at {:?}", cx.now()));
        Ok(())
    }
    async fn last(&mut self, cx: &mut Cx<'_, News>) -> Result<KeepingAfterLast, Oops> {
        self.wait("Last", cx).await;
        Ok(if self.stop == "again" {
            KeepingAfterLast::Outer
        } else {
            KeepingAfterLast::Outside
        })
    }
    async fn outside(&mut self, cx: &mut Cx<'_, News>) -> Result<(), Oops> {
        self.wait("Outside", cx).await;
        Ok(())
    }
}

async fn keeps(runtime: &Runtime, clock: &TestClock, fom: &FomRef<Keeps>, seconds: &[u64]) {
    for second in seconds {
        runtime.quiet().await;
        clock.advance(secs(*second));
        runtime.quiet().await;
        // An error: it ended.
        let _ = fom.send(News::Ping(0));
    }
    runtime.quiet().await;
}

/// WK-11: a deadline that is kept goes on in the phases of its set, beside their own, the nearer one counts; leaving the
/// set cancels it. (That its exits fit all of those phases is checked by the macro: tests/ui.)
#[test]
fn a_kept_deadline_goes_on_in_its_set_and_ends_outside() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        // Through two of the set and out: nothing fires later.
        let fom = runtime
            .submit(Keeps {
                stop: "Inner",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[3, 3]).await;
        assert_eq!(
            log.take(),
            [
                "Outer due Some(10s)",
                "Inner due Some(10s)",
                "Outside due None"
            ]
        );
        keeps(&runtime, &clock, &fom, &[1000]).await;
        assert!(matches!(fom.await.unwrap().phase, Keeping::Done));

        // It passes in a phase whose own deadline is farther: the cause names who armed it.
        let start = runtime.now();
        let fom = runtime
            .submit(Keeps {
                stop: "",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[3, 3, 4]).await;
        let due = start + secs(10);
        assert_eq!(
            log.take(),
            [
                format!("Outer due Some({due:?})"),
                format!("Inner due Some({due:?})"),
                format!("Own due Some({due:?})")
            ]
        );
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Outer" }));
        assert_eq!(failure.phase, "Own");
    });
}

/// WK-11: a phase of the set that misses its own, nearer deadline runs its late function, and the kept one goes on: it
/// counts in the next phase of the set, and a new visit of the phase that arms it begins it anew.
#[test]
fn a_kept_deadline_outlives_a_nearer_one_that_was_missed() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime
            .submit(Keeps {
                stop: "again",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[1, 1, 1]).await;
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            [
                "Outer due Some(10s)",
                "Inner due Some(10s)",
                "Own due Some(10s)",
                "Lates due Some(4s)",
                "Lates late at 4s",
                "Last due Some(10s)",
            ]
        );
        keeps(&runtime, &clock, &fom, &[1]).await;
        assert_eq!(log.take(), ["Outer due Some(15s)"]);
        clock.advance(secs(10));
        let failure = fom.await.unwrap_err();
        assert_eq!((failure.cause.name(), failure.phase), ("late", "Outer"));

        // Kept, and missed in the phase after.
        let start = runtime.now();
        let fom = runtime
            .submit(Keeps {
                stop: "",
                log: log.clone(),
            })
            .start()
            .unwrap();
        keeps(&runtime, &clock, &fom, &[1, 1, 1]).await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(fom.phase(), "Last");
        clock.advance((start + secs(10)).saturating_sub(runtime.now()));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Outer" }));
        assert_eq!(failure.phase, "Last");
    });
}

mod retries {
    use super::*;

    #[fom(operation(Timed), error(Oops), transient)]
    pub(super) enum Trying {
        #[phase(start, to(Done), retry = "3, 50ms..150ms")]
        Try,
        #[phase(end)]
        Done,
    }
    impl TryingTransitions for Timed {
        async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            tokio::task::yield_now().await;
            self.try_it(cx.now(), cx.attempt())
        }
    }

    /// The same in a plain function, with data of the phase and a second phase that tries too.
    pub(super) struct Plain(pub(super) Timed);

    #[fom(operation(Plain), error(Oops), transient)]
    pub(super) enum PlainTrying {
        #[phase(start, to(Try), sync)]
        Begin,
        #[phase(to(Then), retry = "3, 50ms..150ms", sync)]
        Try { kept: u32 },
        #[phase(to(Done), retry = "1, 10ms..10ms", sync)]
        Then { kept: u32 },
        #[phase(end)]
        Done { kept: u32 },
    }
    impl PlainTryingTransitions for Plain {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<PlainTryingAfterBegin, Oops> {
            Ok(PlainTryingAfterBegin::Try { kept: 0 })
        }
        fn r#try(&mut self, cx: &mut Cx<'_>, kept: &mut u32) -> Result<PlainTryingAfterTry, Oops> {
            *kept += 1;
            self.0.try_it(cx.now(), cx.attempt())?;
            self.0.fails = 1;
            Ok(PlainTryingAfterTry::Then { kept: *kept })
        }
        fn then(&mut self, cx: &mut Cx<'_>, kept: &mut u32) -> Result<PlainTryingAfterThen, Oops> {
            self.0.try_it(cx.now(), cx.attempt())?;
            Ok(PlainTryingAfterThen::Done { kept: *kept })
        }
    }

    /// With a deadline over all attempts, and a late function that may fail.
    pub(super) struct Late {
        pub(super) timed: Timed,
        pub(super) late: Result<(), Oops>,
    }

    #[fom(operation(Late), error(Oops), transient)]
    pub(super) enum LateTrying {
        #[phase(start, to(Done), retry = "5, 50ms..150ms", within = "200ms", late)]
        Try,
        #[phase(end)]
        Done,
    }
    impl LateTryingTransitions for Late {
        async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            self.timed.try_it(cx.now(), cx.attempt())
        }
        async fn try_late(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            self.timed.log.put(format_args!("late at {:?}", cx.now()));
            std::mem::replace(&mut self.late, Ok(()))
        }
    }

    /// Panics, which is not tried again.
    pub(super) struct Panics(pub(super) Log);

    #[fom(operation(Panics), error(Oops), transient)]
    pub(super) enum Panicking {
        #[phase(start, to(Done), retry = "3, 50ms..150ms")]
        Try,
        #[phase(end)]
        Done,
    }
    impl PanickingTransitions for Panics {
        async fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            self.0.put("tried");
            panic!("no use")
        }
    }
}

/// A phase with retries is entered again after an error, with its number of failed attempts, after waits that double up
/// to their most, on the runtime's clock.
#[test]
fn retries_wait_twice_as_long_each_time() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let expected = [
            "attempt 0 at 0ns",
            "attempt 1 at 50ms",
            "attempt 2 at 150ms",
            "attempt 3 at 300ms",
        ];
        let fom = runtime.submit(timed(3, &log)).start().unwrap();
        runtime.quiet().await;
        let listed = runtime.operation(fom.id()).unwrap();
        assert_eq!(
            (listed.attempt, listed.waiting_for.as_deref()),
            (1, Some("its next attempt"))
        );
        // Stray wakes do not make it try earlier.
        fom.wake();
        run_for(&runtime, &clock, 300).await;
        assert!(matches!(fom.await.unwrap().phase, retries::Trying::Done));
        assert_eq!(log.take(), expected);
    });
}

/// After the last attempt the fom fails with the last error; nothing is tried again after that.
#[test]
fn retries_are_used_up() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(timed(100, &log)).start().unwrap();
        run_for(&runtime, &clock, 400).await;
        let failure = fom.await.unwrap_err();
        assert!(
            matches!(failure.cause, Cause::Error(Oops(3))),
            "{failure:?}"
        );
        assert_eq!(
            (failure.operation.unwrap().fails, log.take().len()),
            (96, 4)
        );
        // A panic is not tried again.
        let failure = runtime
            .submit(retries::Panics(log.clone()))
            .await
            .unwrap_err();
        assert!(matches!(failure.cause, Cause::Panicked(_)));
        assert_eq!(log.take(), ["tried"]);
    });
}

/// The same in plain functions: the data of the phase lives over the attempts, and the next phase begins with none.
#[test]
fn retries_of_plain_functions() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime
            .submit(retries::Plain(timed(2, &log)))
            .start()
            .unwrap();
        run_for(&runtime, &clock, 200).await;
        let ended = fom.await.unwrap();
        assert!(matches!(
            ended.phase,
            retries::PlainTrying::Done { kept: 3 }
        ));
        assert_eq!(
            log.take(),
            [
                "attempt 0 at 0ns",
                "attempt 1 at 50ms",
                "attempt 2 at 150ms",
                "attempt 0 at 150ms",
                "attempt 1 at 160ms"
            ]
        );
    });
}

/// The deadline of a phase is one for all its attempts, and passes also between two of them; what the late function
/// returns is final: after the deadline nothing is tried again.
#[test]
fn the_deadline_covers_the_retries() {
    limited(|| async {
        let log = Log::default();
        for late in [Ok(()), Err(Oops(77))] {
            let clock = TestClock::new();
            let runtime = one(&clock).build().unwrap();
            let fails = late.is_err();
            let op = retries::Late {
                timed: timed(100, &log),
                late,
            };
            let fom = runtime.submit(op).start().unwrap();
            run_for(&runtime, &clock, 600).await;
            assert_eq!(
                log.take(),
                [
                    "attempt 0 at 0ns",
                    "attempt 1 at 50ms",
                    "attempt 2 at 150ms",
                    "late at 200ms"
                ]
            );
            match fom.await {
                Ok(ended) => assert!(!fails && matches!(ended.phase, retries::LateTrying::Done)),
                Err(failure) => assert!(fails && matches!(failure.cause, Cause::Error(Oops(77)))),
            }
        }
    });
}

/// Cancelled between two attempts: it ends at once.
#[test]
fn cancel_between_two_attempts() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let asyn = runtime.submit(timed(100, &log)).start().unwrap();
        let plain = runtime
            .submit(retries::Plain(timed(100, &log)))
            .start()
            .unwrap();
        runtime.quiet().await;
        asyn.cancel();
        plain.cancel();
        assert!(matches!(asyn.await.unwrap_err().cause, Cause::Cancelled));
        assert!(matches!(plain.await.unwrap_err().cause, Cause::Cancelled));
        run_for(&runtime, &clock, 100).await;
        assert_eq!(log.take(), ["attempt 0 at 0ns"; 2]);
    });
}

/// Waits for ever, within a short real time.
struct Real;

#[fom(operation(Real), error(Oops), transient)]
enum Really {
    #[phase(start, to(Sleep), within = "5ms", late)]
    Hang,
    #[phase(to(Done))]
    Sleep,
    #[phase(end)]
    Done,
}

impl ReallyTransitions for Real {
    async fn hang(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
        pending().await
    }
    async fn hang_late(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
        Ok(())
    }
    async fn sleep(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        cx.sleep(millis(5)).await;
        Ok(())
    }
}

/// WK-16: all times come from one clock: a test's, which moves when it is told, or the machine's monotonic one. On a
/// clock that stands, nothing is ever late.
/// Trap 12: a locality that is idle, with nobody posting anything to it, still minds its deadlines and sleeps.
#[test]
fn time_comes_from_the_clock_and_passes_while_idle() {
    limited(|| async {
        let real = Runtime::builder()
            .localities(1)
            .pin(false)
            .clock(Clock::system())
            .build()
            .unwrap();
        let before = real.now();
        assert!(matches!(
            real.submit(Real).await.unwrap().phase,
            Really::Done
        ));
        assert!(real.now() - before >= millis(10), "both took their time");

        let clock = TestClock::new();
        let test = one(&clock).build().unwrap();
        let fom = test.submit(Real).start().unwrap();
        test.quiet().await;
        assert_eq!((test.now(), fom.phase()), (secs(0), "Hang"));
        clock.advance(millis(5));
        test.quiet().await;
        assert_eq!(fom.phase(), "Sleep");
        clock.advance(millis(5));
        fom.await.unwrap();
        assert_eq!(test.now(), millis(10));
    });
}

/// Trap 1: what one thread submits to one locality runs in that order, also when it comes in a burst.
#[test]
fn a_burst_runs_in_its_order() {
    struct Says(u32, Log);
    #[fom(operation(Says), error(Oops), transient)]
    enum Saying {
        #[phase(start, to(Done), sync)]
        Say,
        #[phase(end)]
        Done,
    }
    impl SayingTransitions for Says {
        fn say(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            self.1.put(self.0);
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let gate = Gate::close(&runtime, 0);
        for n in 0..100 {
            drop(runtime.submit(Says(n, log.clone())).start().unwrap());
        }
        gate.open();
        runtime.idle().await;
        let expected: Vec<_> = (0..100).map(|n: u32| n.to_string()).collect();
        assert_eq!(log.take(), expected);
    });
}
