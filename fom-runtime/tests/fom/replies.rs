//! What the answer to one request wakes, and what becomes of its value.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use fom_runtime::{
    error::{BoxError, Unanswered},
    prelude::*,
    time::TestClock,
};
use futures::{StreamExt, stream::FuturesUnordered};

use crate::kit::{self, Log, limited, one};

/// Larger than the memory that a thread keeps for answers, and counted.
struct Large {
    numbers: [u32; 50],
    _alive: Arc<()>,
}

impl Large {
    fn new(n: u32, alive: &Arc<()>) -> Self {
        Self {
            numbers: [n; 50],
            _alive: Arc::clone(alive),
        }
    }
}

/// Keeps the requests until a test answers them.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<Reply<Large>>>>);

impl Desk {
    fn ask(&self, reply: Reply<Large>) {
        self.0.lock().unwrap().push(reply);
    }

    fn all(&self) -> Vec<Reply<Large>> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Counts its wakes, and passes none on.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Three requests at once, each polled with a waker of its own.
    Unordered,
    /// The first poll has another waker than the later ones.
    OtherThenOwn,
    /// The first poll has the waker of the fom, the second one another waker.
    OwnThenOther,
    /// The request is answered before the first poll returns.
    AtOnce,
}

struct Asks {
    how: How,
    counts: Arc<Counts>,
    alive: Arc<()>,
    log: Log,
}

#[derive(Debug, PartialEq)]
enum News {
    Ping,
}

#[fom(operation(Asks), event(News), transient)]
enum Asking {
    #[phase(start, to(Answered), on(Ping))]
    Ask,
    #[phase(end)]
    Answered,
}

type Answer = Result<Large, Unanswered>;

/// Polls once with a waker that belongs to no fom.
fn poll_with(counts: &Arc<Counts>, future: Pin<&mut impl Future<Output = Answer>>) -> Poll<Answer> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(counts))))
}

impl AskingTransitions for Asks {
    async fn ask(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        let log = self.log.clone();
        let (counts, alive) = (Arc::clone(&self.counts), Arc::clone(&self.alive));
        let put = |answer: Answer| {
            log.put(format_args!(
                "{:?}",
                answer.map(|answer| answer.numbers[49])
            ))
        };
        let call = || cx.call(|desk: &Desk, reply| desk.ask(reply));
        match self.how {
            How::Unordered => {
                let mut calls: FuturesUnordered<_> = (0..3).map(|_| call()).collect();
                while let Some(answer) = calls.next().await {
                    put(answer);
                }
            }
            How::OtherThenOwn => {
                let mut call = pin!(call());
                assert!(poll_with(&counts, call.as_mut()).is_pending());
                put(call.await);
            }
            How::OwnThenOther => {
                let mut call = pin!(call());
                assert!(kit::poll_once(call.as_mut()).await.is_pending());
                assert!(poll_with(&counts, call.as_mut()).is_pending());
                assert_eq!(cx.event().await, News::Ping);
                // Not polled again: an answer that came is dropped with the call.
            }
            How::AtOnce => {
                let answer = cx.call(|_: &Desk, reply: Reply<Large>| {
                    let sent = reply.send(Large::new(1, &alive));
                    assert!(sent.is_ok());
                });
                put(answer.await);
            }
        }
        let mut polls = 0;
        poll_fn(|_| {
            polls += 1;
            cx.try_event().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        log.put(format_args!("{polls} polls"));
        Ok(())
    }
}

/// A fom that asks, and the parts of it that a test looks at.
struct Bench {
    runtime: Runtime,
    desk: Desk,
    counts: Arc<Counts>,
    alive: Arc<()>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let desk = Desk::default();
        Self {
            runtime: one(&TestClock::new())
                .resource(desk.clone())
                .build()
                .unwrap(),
            desk,
            counts: Arc::default(),
            alive: Arc::default(),
            log: Log::default(),
        }
    }

    async fn start(&self, how: How) -> Handle<Asks> {
        let asks = Asks {
            how,
            counts: Arc::clone(&self.counts),
            alive: Arc::clone(&self.alive),
            log: self.log.clone(),
        };
        let fom = self.runtime.submit(asks).start().unwrap();
        self.runtime.quiet().await;
        fom
    }

    fn answer(&self, n: u32) -> Large {
        Large::new(n, &self.alive)
    }

    /// Sends the last event, and returns what the fom has logged.
    async fn end(&self, fom: Handle<Asks>) -> Vec<String> {
        self.runtime.quiet().await;
        fom.send(News::Ping).unwrap();
        fom.await.unwrap();
        assert_eq!(Arc::strong_count(&self.alive), 1, "each answer is dropped");
        self.log.take()
    }
}

/// Calls in a set of futures have wakers of their own. Each answer wakes its call, from any thread and in any order.
#[test]
fn calls_with_wakers_of_their_own_are_answered() {
    limited(|| async {
        let bench = Bench::new();
        let fom = bench.start(How::Unordered).await;
        let mut replies = bench.desk.all();
        drop(replies.remove(1));
        bench.runtime.quiet().await;
        for (n, reply) in [1, 0].into_iter().zip(replies.into_iter().rev()) {
            let answer = bench.answer(n);
            let sent = std::thread::spawn(move || reply.send(answer).is_ok());
            assert!(sent.join().unwrap());
            bench.runtime.quiet().await;
        }
        let expected = ["Err(Unanswered)", "Ok(1)", "Ok(0)", "2 polls"];
        assert_eq!(bench.end(fom).await, expected);
    });
}

/// An answer wakes only the waker of the last poll.
#[test]
fn an_answer_wakes_the_last_waker() {
    limited(|| async {
        let bench = Bench::new();
        let fom = bench.start(How::OtherThenOwn).await;
        let answer = bench.answer(7);
        assert!(bench.desk.all().remove(0).send(answer).is_ok());
        assert_eq!(bench.end(fom).await, ["Ok(7)", "2 polls"]);
        assert_eq!(bench.counts.0.load(SeqCst), 0);
        assert_eq!(Arc::strong_count(&bench.counts), 1, "no waker is left");

        let fom = bench.start(How::OwnThenOther).await;
        let answer = bench.answer(8);
        assert!(bench.desk.all().remove(0).send(answer).is_ok());
        bench.runtime.quiet().await;
        assert_eq!(bench.counts.0.load(SeqCst), 1);
        fom.send(News::Ping).unwrap();
        assert_eq!(bench.end(fom).await, ["2 polls"]);
        assert_eq!(Arc::strong_count(&bench.counts), 1, "no waker is left");
    });
}

/// An answer that comes before the fom waits is no wake: the next wait is polled once, and again for its event.
#[test]
fn an_answer_at_once_is_no_wake() {
    limited(|| async {
        let bench = Bench::new();
        let fom = bench.start(How::AtOnce).await;
        assert_eq!(bench.end(fom).await, ["Ok(1)", "2 polls"]);
    });
}

/// The last reply may outlive its runtime, and may be dropped on any thread.
#[test]
fn a_reply_outlives_its_runtime() {
    limited(|| async {
        let bench = Bench::new();
        let fom = bench.start(How::Unordered).await;
        let mut replies = bench.desk.all();
        fom.cancel();
        assert!(fom.await.is_err());
        let alive = Arc::clone(&bench.alive);
        drop(bench);
        assert!(replies.iter().all(Reply::is_unwanted));
        std::thread::spawn({
            let reply = replies.remove(0);
            move || drop(reply)
        })
        .join()
        .unwrap();
        let refused = replies.remove(0).send(Large::new(3, &alive));
        assert!(refused.is_err_and(|answer| answer.numbers[49] == 3));
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

/// A reply moves between threads if its answer does.
#[test]
fn a_reply_is_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Reply<std::cell::Cell<u32>>>();
}
