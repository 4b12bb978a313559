//! What a declaration means at run time: each kind of phase and each key, in one machine.

use std::time::Duration;

use fom_runtime::{machine::Mode, prelude::*};
use serde::{Deserialize, Serialize};

/// Counts the numbers that it receives, writes the sum, and says it.
#[derive(Serialize, Deserialize, Debug, Default)]
struct Count {
    sum: u32,
    failures: u32,
    log: Vec<String>,
}

#[derive(Debug)]
enum Told {
    Number(u32),
    Enough { politely: bool },
}

/// The phases of a count.
#[fom(operation(Count), event(Told))]
#[derive(Debug, PartialEq)]
enum Counting {
    /// Get ready.
    #[phase(start, to(Take), sync)]
    Prepare,
    /// Take numbers until it is enough.
    #[phase(to(Write, Rude), sync, on(Number, Enough), within = "1m30s", late)]
    Take,
    /// Write the sum.
    #[phase(to(Say), blocking, retry = "2, 1ms..4ms", keep(Say), within = "10s")]
    Write { sum: u32, tries: u8 },
    /// Say it.
    #[allow(dead_code)]
    #[phase(to(Done, Take))]
    Say,
    /// It was said.
    #[phase(end)]
    Done { said: String },
    /// The sender was rude.
    #[phase(end, failure)]
    Rude,
}

impl CountingTransitions for Count {
    fn prepare(&mut self, _: &mut Cx<'_, Told>) -> Result<(), BoxError> {
        self.log.push("prepare".into());
        Ok(())
    }

    fn take(&mut self, _: &mut Cx<'_, Told>, told: Told) -> Result<CountingAfterTake, BoxError> {
        self.log.push(format!("{told:?}"));
        Ok(match told {
            Told::Number(number) => {
                self.sum += number;
                CountingAfterTake::Stay
            }
            Told::Enough { politely: true } => CountingAfterTake::Write {
                sum: self.sum,
                tries: 0,
            },
            Told::Enough { politely: false } => CountingAfterTake::Rude,
        })
    }

    fn take_late(&mut self, _: &mut Cx<'_, Told>) -> Result<CountingAfterTake, BoxError> {
        self.log.push("late".into());
        Ok(CountingAfterTake::Rude)
    }

    fn write(
        &mut self,
        _: &mut BlockingCx<'_>,
        CountingInWrite { sum, tries }: CountingInWrite<'_>,
    ) -> Result<(), BoxError> {
        *tries += 1;
        if self.failures > 0 {
            self.failures -= 1;
            return Err("the disk is full".into());
        }
        self.log.push(format!("write {sum} at {tries}"));
        Ok(())
    }

    async fn say(&mut self, _: &mut Cx<'_, Told>) -> Result<CountingAfterSay, BoxError> {
        Ok(CountingAfterSay::Done {
            said: format!("it is {}", self.sum),
        })
    }
}

#[tokio::test]
async fn a_machine_takes_the_ways_that_its_functions_choose() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.submit(Count::default()).start().unwrap();
    for told in [
        Told::Number(2),
        Told::Number(3),
        Told::Enough { politely: true },
    ] {
        handle.send(told).unwrap();
    }
    let ended = handle.await.unwrap();
    assert_eq!(
        ended.end,
        CountingEnd::Done {
            said: "it is 5".into()
        }
    );
    assert_eq!(
        ended.operation.log,
        [
            "prepare",
            "Number(2)",
            "Number(3)",
            "Enough { politely: true }",
            "write 5 at 1"
        ]
    );
}

#[tokio::test]
async fn the_data_of_a_phase_are_the_same_when_it_is_tried_again() {
    let runtime = Runtime::new().unwrap();
    let count = Count {
        failures: 2,
        ..Count::default()
    };
    let handle = runtime.submit(count).start().unwrap();
    handle.send(Told::Enough { politely: true }).unwrap();
    let ended = handle.await.unwrap();
    assert_eq!(ended.operation.log.last().unwrap(), "write 0 at 3");
}

#[tokio::test]
async fn an_error_tells_the_phase_and_gives_the_operation_back() {
    let runtime = Runtime::new().unwrap();
    let count = Count {
        failures: 9,
        ..Count::default()
    };
    let handle = runtime.submit(count).start().unwrap();
    handle.send(Told::Enough { politely: true }).unwrap();
    let failure = handle.await.unwrap_err();
    assert_eq!(failure.phase, CountingKind::Write);
    assert!(
        matches!(failure.cause, Cause::Error(error) if error.to_string() == "the disk is full")
    );
    assert_eq!(failure.operation.unwrap().into_inner().failures, 6);
}

#[tokio::test]
async fn a_phase_that_is_late_is_asked_where_to_go() {
    let clock = fom_runtime::time::TestClock::new();
    let runtime = Runtime::builder().clock(&clock).build().unwrap();
    let handle = runtime.submit(Count::default()).start().unwrap();
    handle.send(Told::Number(1)).unwrap();
    handle.reached([CountingKind::Take]).await;
    runtime.quiet().await;
    clock.advance(Duration::from_secs(90));
    let ended = handle.await.unwrap();
    assert_eq!(ended.end, CountingEnd::Rude);
    assert_eq!(ended.operation.log, ["prepare", "Number(1)", "late"]);
}

#[test]
fn every_phase_comes_back_from_a_snapshot() {
    let count = Count {
        sum: 7,
        ..Count::default()
    };
    let phases = [
        Counting::Prepare,
        Counting::Take,
        Counting::Write { sum: 7, tries: 2 },
        Counting::Say,
        Counting::Done { said: "so".into() },
        Counting::Rude,
    ];
    for phase in phases {
        let snapshot = count.snapshot(&phase).unwrap();
        assert_eq!(
            snapshot.phase().unwrap(),
            format!("{:?}", Count::kind(&phase))
        );
        let (back, at) = Count::restore(&snapshot).unwrap();
        assert_eq!((back.sum, at), (7, phase));
    }
}

#[test]
fn the_graph_says_what_was_declared() {
    let graph = Count::GRAPH;
    assert_eq!(
        (graph.name(), graph.operation(), graph.docs()),
        ("Counting", "Count", "The phases of a count.")
    );
    let phase = |kind: CountingKind| &graph.phases()[Count::index(kind)];
    let take = phase(CountingKind::Take);
    assert_eq!(
        (take.name(), take.docs()),
        ("Take", "Take numbers until it is enough.")
    );
    assert_eq!(
        (take.mode(), take.deadline().within()),
        (Mode::Sync, Some(Duration::from_secs(90)))
    );
    assert_eq!(take.takes(), ["Number", "Enough"]);
    assert!(take.deadline().is_late() && !take.is_start() && !take.is_end());
    let exits: Vec<_> = graph.exits(take).map(|phase| phase.name()).collect();
    assert_eq!(exits, ["Write", "Rude"]);
    let write = phase(CountingKind::Write);
    let kept: Vec<_> = graph.kept_in(write).map(|phase| phase.name()).collect();
    assert_eq!(kept, ["Say"]);
    let retry = write.retries().unwrap();
    assert_eq!(
        format!("{retry:?}"),
        "Retry { times: 2, min: 1ms, max: 4ms, exhausted: false, name: None }"
    );
    assert!(phase(CountingKind::Prepare).is_start());
    assert!(phase(CountingKind::Rude).is_failure() && phase(CountingKind::Rude).is_end());
}

/// Plain functions only.
struct Quick(u8);

#[fom(operation(Quick), transient)]
enum Quickly {
    #[phase(start, to(Again, Over), sync)]
    Once,
    #[phase(to(Once), sync)]
    Again,
    #[phase(end)]
    Over,
}

impl QuicklyTransitions for Quick {
    fn once(&mut self, _: &mut Cx<'_>) -> Result<QuicklyAfterOnce, BoxError> {
        self.0 += 1;
        Ok(if self.0 < 3 {
            QuicklyAfterOnce::Again
        } else {
            QuicklyAfterOnce::Over
        })
    }

    fn again(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_machine_of_plain_functions_runs_without_a_future() {
    let runtime = Runtime::new().unwrap();
    let ended = runtime.submit(Quick(0)).await.unwrap();
    assert!(matches!(ended.end, QuicklyEnd::Over));
    assert_eq!(ended.operation.0, 3);
    assert!(Quick::CODEC.is_none());
}

/// An operation with parameters of its own.
struct Send2<A, B> {
    first: A,
    second: B,
}

trait Number: Send + 'static {
    fn number(&self) -> u32;
}

impl Number for u8 {
    fn number(&self) -> u32 {
        (*self).into()
    }
}

impl Number for u16 {
    fn number(&self) -> u32 {
        (*self).into()
    }
}

#[fom(operation("Send2<A, B>"), generics("B: Number"), transient)]
enum Sending<A: Number + Clone> {
    #[phase(start, to(First))]
    Begin,
    #[phase(to(Sum))]
    First { value: A },
    #[phase(end)]
    Sum { sum: u32 },
}

impl<A: Number + Clone, B: Number> SendingTransitions<A> for Send2<A, B> {
    async fn begin(&mut self, _: &mut Cx<'_>) -> Result<SendingAfterBegin<A>, BoxError> {
        Ok(SendingAfterBegin::First {
            value: self.first.clone(),
        })
    }

    async fn first(
        &mut self,
        cx: &mut Cx<'_>,
        value: &mut A,
    ) -> Result<SendingAfterFirst, BoxError> {
        cx.sleep(Duration::from_millis(1)).await;
        Ok(SendingAfterFirst::Sum {
            sum: value.number() + self.second.number(),
        })
    }
}

#[tokio::test]
async fn an_operation_may_have_parameters() {
    let runtime = Runtime::new().unwrap();
    let ended = runtime
        .submit(Send2 {
            first: 1_u8,
            second: 2_u16,
        })
        .await
        .unwrap();
    assert!(matches!(ended.end, SendingEnd::Sum { sum: 3 }));
}

struct Stubborn {
    attempts: u32,
}

#[fom(operation(Stubborn), transient)]
enum Trying {
    #[phase(start, to(Done), within = "5s", late, retry = "9, 2s..2s")]
    Try,
    #[phase(end)]
    Done,
}

impl TryingTransitions for Stubborn {
    async fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.attempts += 1;
        Err("not yet".into())
    }

    async fn try_late(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("never".into())
    }
}

/// The deadline covers all attempts. An error of the late function causes no further attempt: the visit has no deadline
/// any more.
#[tokio::test]
async fn an_error_of_a_late_function_is_the_last_word() {
    let clock = fom_runtime::time::TestClock::new();
    let runtime = Runtime::builder().clock(&clock).build().unwrap();
    let trying = runtime.submit(Stubborn { attempts: 0 }).start().unwrap();
    for _ in 0..3 {
        runtime.quiet().await;
        clock.advance(Duration::from_secs(2));
    }
    let failure = trying.await.unwrap_err();
    assert_eq!(failure.operation.unwrap().into_inner().attempts, 3);
    assert!(matches!(failure.cause, Cause::Error(error) if error.to_string() == "never"));
}
