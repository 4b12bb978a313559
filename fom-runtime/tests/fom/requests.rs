//! Requests and their answers: one, all, or the first of many; an answer is refused when no fom waits for it any more.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
};

use fom_runtime::{
    error::{BoxError, Unanswered},
    prelude::*,
    time::TestClock,
};

use crate::kit::{self, Gate, Log, limited, one, secs};

/// Keeps the requests until a test answers them.
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

    /// Removes and returns the oldest request.
    fn next(&self) -> Reply<T> {
        self.0.lock().unwrap().pop_front().expect("somebody asked")
    }

    fn all(&self) -> Vec<Reply<T>> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

/// Counts the polls of a future, and returns their number with its output.
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

#[fom(operation(Asks), event(News), transient)]
enum Asking {
    #[phase(start, to(Answered, Next), on(Ping))]
    Ask,
    #[phase(to(Answered), on(Ping))]
    Next,
    #[phase(end)]
    Answered,
}

impl AskingTransitions for Asks {
    async fn ask(&mut self, cx: &mut Cx<'_, News>) -> Result<AskingAfterAsk, BoxError> {
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

    async fn next(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
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

/// WK-09: a request completes exactly once: with the answer, or with `Unanswered` when its reply is dropped. If the
/// asking fom is gone, the request does not complete and the answer is given back. (Answering consumes a reply, so
/// answering twice does not compile.)
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

/// WK-14: many requests are one wait: the fom is woken once, by the last answer, from whatever threads the answers
/// come. A dropped request counts as answered.
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

/// WK-14: a fom can also wait for the first of many answers: it wakes the fom once, and the others are refused. There
/// is no answer only when every request is dropped.
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
        // Also before the fom ran.
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

/// WK-08: a dropped wait is over when the drop returns: its answer is refused and changes nothing. This holds for the
/// first, a middle and the last wait, also when its answer is there but not read yet, or when it is done. Trap 8:
/// removing the head, or a wait with an answer that was just posted, leaves the other waits as they are.
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
                // In any order: the answers find their waits.
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

/// WK-13: a fom waits for an event, an answer and a time at once. The first wins, and the others are disarmed with it.
/// The answer is refused, an event stays for the next taker, and the timer wakes no fom.
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
fn stray_wakes_get_no_fom_past_a_wait() {
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
