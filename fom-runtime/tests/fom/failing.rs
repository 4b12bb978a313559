//! `failed(..)`: a failure of a phase has exits of its own, with the cause as a value, and the first failure is never
//! lost.

use std::panic::resume_unwind;

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

#[derive(Debug, PartialEq)]
struct Oops(&'static str);

impl std::fmt::Display for Oops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// What a function of the machine does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Do {
    Well,
    Fail(&'static str),
    Panic(&'static str),
    Hang,
}

/// What the job does when it runs, and what it does when it has failed.
struct Job {
    log: Log,
    work: Do,
    failed: Do,
}

impl Job {
    fn new(log: &Log, work: Do, failed: Do) -> Self {
        Self {
            log: log.clone(),
            work,
            failed,
        }
    }
}

impl Job {
    fn act(&mut self, what: Do) -> Result<(), Oops> {
        match what {
            Do::Well | Do::Hang => Ok(()),
            Do::Fail(why) => Err(Oops(why)),
            // Runs no panic hook, so that the output of the test stays readable.
            Do::Panic(why) => resume_unwind(Box::new(why)),
        }
    }

    fn works(&mut self) -> Result<(), Oops> {
        self.log.put("works");
        self.act(self.work)
    }

    fn has_failed(&mut self, cx: &Cx<'_>, cause: &Cause<Oops>) -> Result<(), Oops> {
        let said = cx.causes().join(", ");
        self.log.put(format_args!("{cause} after {said}"));
        assert_eq!(cx.deadline(), None);
        self.act(self.failed)
    }
}

struct Awaits(Job);

#[fom(operation(Awaits), error(Oops), transient)]
#[derive(Debug)]
enum Awaiting {
    #[phase(start, to(Work))]
    Begin,
    #[phase(to(Done), failed(Broken), retry = "1, 1s..1s", within = "10s")]
    Work { number: u32 },
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Broken { cause: Cause<Oops>, number: u32 },
}

impl AwaitingTransitions for Awaits {
    async fn begin(&mut self, _: &mut Cx<'_>) -> Result<AwaitingAfterBegin, Oops> {
        Ok(AwaitingAfterBegin::Work { number: 7 })
    }

    async fn work(&mut self, cx: &mut Cx<'_>, _: &mut u32) -> Result<(), Oops> {
        self.0.works()?;
        if self.0.work == Do::Hang {
            cx.sleep(secs(60)).await;
        }
        Ok(())
    }

    async fn work_failed(
        &mut self,
        cx: &mut Cx<'_>,
        number: &mut u32,
        cause: Cause<Oops>,
    ) -> Result<AwaitingAfterWorkFailed, Oops> {
        self.0.has_failed(cx, &cause)?;
        // The function may take its time.
        cx.sleep(secs(30)).await;
        let number = *number;
        Ok(AwaitingAfterWorkFailed::Broken { cause, number })
    }
}

struct Plain(Job);

#[fom(operation(Plain), error(Oops), transient)]
#[derive(Debug)]
enum Plainly {
    #[phase(start, sync, to(Work))]
    Begin,
    #[phase(sync, to(Done), failed(Broken, Again))]
    Work { number: u32 },
    #[phase(blocking, to(Done), failed(Done))]
    Again,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Broken { cause: Cause<Oops>, number: u32 },
}

impl PlainlyTransitions for Plain {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<PlainlyAfterBegin, Oops> {
        Ok(PlainlyAfterBegin::Work { number: 7 })
    }

    fn work(&mut self, _: &mut Cx<'_>, _: &mut u32) -> Result<(), Oops> {
        self.0.works()
    }

    fn work_failed(
        &mut self,
        cx: &mut Cx<'_>,
        number: &mut u32,
        cause: Cause<Oops>,
    ) -> Result<PlainlyAfterWorkFailed, Oops> {
        self.0.has_failed(cx, &cause)?;
        let number = *number;
        Ok(match self.0.failed {
            Do::Hang => PlainlyAfterWorkFailed::Again,
            _ => PlainlyAfterWorkFailed::Broken { cause, number },
        })
    }

    fn again(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
        self.0.works()
    }

    fn again_failed(&mut self, cx: &mut Cx<'_>, cause: Cause<Oops>) -> Result<(), Oops> {
        let said = cx.causes().join(", ");
        self.0.log.put(format_args!("again: {cause} after {said}"));
        Ok(())
    }
}

/// Runs the operation while the clock goes on for 60 s. Returns the outcome, and the transitions that a listener heard.
async fn course<O: Operation>(operation: O) -> (Result<Ended<O>, Failure<O>>, Vec<String>) {
    let clock = TestClock::new();
    let runtime = one(&clock).build().unwrap();
    let heard = Log::default();
    let log = heard.clone();
    let _listening = runtime.listen(move |transition| {
        let to = transition.to().unwrap_or("failed");
        log.put(format_args!("{to} ({})", transition.cause()));
    });
    let handle = runtime.submit(operation).start().unwrap();
    for _ in 0..60 {
        runtime.quiet().await;
        clock.advance(secs(1));
    }
    (handle.await, heard.take())
}

/// SM-08, SM-11: an error with its retries used up, a missed deadline and a panic take the declared exit. The exit gets
/// the cause as a value and the data of the phase. The function for the failure has all the time that it needs.
#[test]
fn a_failure_goes_along_its_own_way() {
    limited(|| async {
        let fails = [
            (
                Do::Fail("no"),
                "error",
                vec!["works", "works", "no after no, no"],
            ),
            (
                Do::Panic("oh"),
                "panicked",
                vec!["works", "panicked: oh after panicked: oh"],
            ),
            (
                Do::Hang,
                "late",
                vec![
                    "works",
                    "the deadline of `Work` passed after the deadline of `Work` passed",
                ],
            ),
        ];
        for (work, word, lines) in fails {
            let log = Log::default();
            let (ended, heard) = course(Awaits(Job::new(&log, work, Do::Well))).await;
            let AwaitingEnd::Broken { cause, number: 7 } = ended.unwrap().end else {
                panic!("{work:?} ended elsewhere")
            };
            assert_eq!(cause.name(), word);
            assert_eq!(log.take(), lines);
            let way = format!("Broken ({word})");
            assert_eq!(heard, ["Begin (started)", "Work (returned)", &way]);
        }
        let log = Log::default();
        let (ended, _) = course(Awaits(Job::new(&log, Do::Well, Do::Well))).await;
        assert!(matches!(ended.unwrap().end, AwaitingEnd::Done));
        assert_eq!(log.take(), ["works"]);
    });
}

/// SM-11: the same without futures, where a panic is caught outside of the run loop.
#[test]
fn a_plain_function_fails_along_its_own_way_too() {
    limited(|| async {
        for (work, word) in [(Do::Fail("no"), "error"), (Do::Panic("oh"), "panicked")] {
            let log = Log::default();
            let (ended, heard) = course(Plain(Job::new(&log, work, Do::Well))).await;
            let PlainlyEnd::Broken { cause, number: 7 } = ended.unwrap().end else {
                panic!("{work:?} ended elsewhere")
            };
            assert_eq!(cause.name(), word);
            let way = format!("Broken ({word})");
            assert_eq!(heard, ["Begin (started)", "Work (returned)", &way]);
        }
        // An exit to another phase: the failed phase is over, and the other phase fails by itself.
        let log = Log::default();
        let (ended, heard) = course(Plain(Job::new(&log, Do::Panic("oh"), Do::Hang))).await;
        assert!(matches!(ended.unwrap().end, PlainlyEnd::Done));
        assert_eq!(heard[2..], ["Again (panicked)", "Done (panicked)"]);
        assert_eq!(
            log.take().last().unwrap(),
            "again: panicked: oh after panicked: oh"
        );
    });
}

/// Returns the texts of the attempts before the failure.
fn errors<O: Operation>(failure: &Failure<O>) -> Vec<&str> {
    let attempts = failure.attempts.iter();
    attempts.map(|attempt| attempt.error.as_str()).collect()
}

/// SM-08: if the function for a failure fails as well, the fom ends, and the first failure is not lost.
#[test]
fn the_first_failure_is_never_lost() {
    limited(|| async {
        for (failed, word) in [
            (Do::Fail("again"), "error"),
            (Do::Panic("again"), "panicked"),
        ] {
            let log = Log::default();
            let (ended, heard) = course(Awaits(Job::new(&log, Do::Panic("first"), failed))).await;
            let failure = ended.unwrap_err();
            assert_eq!(failure.cause.name(), word);
            assert_eq!(failure.phase_name(), "Work");
            assert_eq!(errors(&failure), ["panicked: first"]);
            assert_eq!(heard.last().unwrap(), &format!("failed ({word})"));
            let (ended, _) = course(Plain(Job::new(&log, Do::Fail("first"), failed))).await;
            let failure = ended.unwrap_err();
            assert_eq!(failure.cause.name(), word);
            assert_eq!(errors(&failure), ["first"]);
        }
    });
}

/// SM-11: a cancel is no failure of the phase. It ends the fom, also in the function for a failure.
#[test]
fn a_cancel_does_not_go_along_the_way_of_a_failure() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let hangs = runtime
            .submit(Awaits(Job::new(&log, Do::Hang, Do::Well)))
            .start()
            .unwrap();
        runtime.quiet().await;
        hangs.cancel();
        assert_eq!(hangs.await.unwrap_err().cause.name(), "cancelled");
        assert_eq!(log.take(), ["works"]);
        let failed = Awaits(Job::new(&log, Do::Panic("oh"), Do::Well));
        let failed = runtime.submit(failed).start().unwrap();
        runtime.quiet().await;
        failed.cancel();
        let failure = failed.await.unwrap_err();
        assert_eq!(failure.cause.name(), "cancelled");
        assert_eq!(errors(&failure), ["panicked: oh"]);
    });
}

/// SM-15: the graph tells the exits of failures from the others.
#[test]
fn the_graph_shows_the_ways_of_failures() {
    let graph = Plain::GRAPH;
    let names = |phase: &str| {
        let phase = graph.find(phase).unwrap();
        let all: Vec<&str> = graph.exits(phase).map(|exit| exit.name()).collect();
        let failed: Vec<&str> = graph.failure_exits(phase).map(|exit| exit.name()).collect();
        (all, failed)
    };
    assert_eq!(
        names("Work"),
        (vec!["Done", "Broken", "Again"], vec!["Broken", "Again"])
    );
    assert_eq!(names("Again"), (vec!["Done"], vec!["Done"]));
    assert_eq!(names("Begin"), (vec!["Work"], vec![]));
}

/// An operation that is `Send` and not `Sync`.
struct Tally(std::cell::Cell<u32>);

#[fom(operation(Tally), transient)]
enum Tallying {
    #[phase(start, to(Counted))]
    Count,
    #[phase(end)]
    Counted,
}

impl TallyingTransitions for Tally {
    async fn count(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.set(self.0.get() + 1);
        Err("miscounted".into())
    }
}

#[test]
fn an_operation_that_is_not_sync_goes_through_the_question_mark() {
    async fn failed(runtime: &Runtime) -> Result<(), BoxError> {
        runtime.submit(Tally(1.into())).start()?.await?;
        Ok(())
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let error = failed(&runtime).await.unwrap_err();
        let failure = error.downcast::<Failure<Tally>>().unwrap();
        assert_eq!(failure.operation.unwrap().into_inner().0.get(), 2);
        runtime.shutdown(Shutdown::Now, secs(1)).await;
        let error = failed(&runtime).await.unwrap_err();
        let refused = error.downcast::<fom_runtime::Refused<Tally>>().unwrap();
        assert_eq!(refused.into_operation().0.get(), 1);
    });
}
