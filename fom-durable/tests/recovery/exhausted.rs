//! `retry` with `exhausted`: when the attempts are used up, the fom goes where the phase says. It has what every
//! attempt said, also over a restart.

use std::time::Duration;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Cause, error::BoxError, observe::TransitionCause, time::TestClock};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Errand;

#[fom(operation(Errand))]
enum Shop {
    #[phase(start, to(Pay))]
    Check,
    #[allow(dead_code)]
    #[phase(sync, to(Paid, Dead), retry = "2, 1s..1s", exhausted)]
    Pay { cents: u32 },
    #[phase(end)]
    Paid,
    #[phase(end, failure)]
    Dead { causes: Vec<String> },
}

impl ShopTransitions for Errand {
    async fn check(&mut self, _: &mut Cx<'_>) -> Result<ShopAfterCheck, BoxError> {
        Ok(ShopAfterCheck::Pay { cents: 5 })
    }

    fn pay(&mut self, cx: &mut Cx<'_>, cents: &mut u32) -> Result<ShopAfterPay, BoxError> {
        Err(format!("no {cents} cents at attempt {}", cx.attempt()).into())
    }

    fn pay_exhausted(&mut self, cx: &mut Cx<'_>, _: &mut u32) -> Result<ShopAfterPay, BoxError> {
        let causes = cx.causes();
        cx.resource::<Said>().0.lock().unwrap().clone_from(&causes);
        Ok(ShopAfterPay::Dead { causes })
    }
}

/// What the causes were when the attempts were used up.
#[derive(Default)]
struct Said(std::sync::Mutex<Vec<String>>);

/// Asks for these causes.
struct Ask;

#[fom(operation(Ask), transient)]
enum Asked {
    #[phase(sync, start, to(Told))]
    Ask,
    #[phase(end)]
    Told { said: Vec<String> },
}

impl AskedTransitions for Ask {
    fn ask(&mut self, cx: &mut Cx<'_>) -> Result<AskedAfterAsk, BoxError> {
        let said = cx.resource::<Said>().0.lock().unwrap().clone();
        Ok(AskedAfterAsk::Told { said })
    }
}

/// The same without an `exhausted` function, and with an error that only has `Debug`.
#[derive(Serialize, Deserialize)]
struct Other;

#[derive(Debug)]
#[allow(dead_code, reason = "its Debug is what is looked at")]
struct Code(u32);

#[fom(operation(Other), error(Code))]
enum Plain {
    #[phase(start, to(Done), retry = "2, 1s..1s")]
    Try,
    #[phase(end)]
    Done,
}

impl PlainTransitions for Other {
    async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), Code> {
        Err(Code(cx.attempt()))
    }
}

fn runtime(clock: &TestClock, journal: Option<MemoryJournal>) -> Runtime {
    let builder = Runtime::builder().localities(1).pin(false).clock(clock);
    let builder = builder.resource(Said::default());
    match journal {
        Some(journal) => builder.journal_with(journal).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn attempt(runtime: &Runtime, clock: &TestClock) {
    futures::executor::block_on(runtime.quiet());
    clock.advance(Duration::from_secs(1));
}

const SAID: [&str; 3] = [
    "no 5 cents at attempt 0",
    "no 5 cents at attempt 1",
    "no 5 cents at attempt 2",
];

#[test]
fn what_is_used_up_goes_where_the_phase_says() {
    for journal in [None, Some(MemoryJournal::new())] {
        let clock = TestClock::new();
        let runtime = runtime(&clock, journal);
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let hears = heard.clone();
        runtime
            .listen(move |transition| hears.lock().unwrap().push(transition.cause()))
            .forever();
        let handle = runtime.submit(Errand).start().unwrap();
        attempt(&runtime, &clock);
        attempt(&runtime, &clock);
        let ShopEnd::Dead { causes } = handle.wait().unwrap().end else {
            panic!("it ended elsewhere");
        };
        assert_eq!(causes, SAID);
        let last = heard.lock().unwrap().last().copied();
        assert_eq!(last, Some(TransitionCause::Exhausted));
    }
}

/// Attempts are counted over a restart, and what they said is kept.
#[test]
fn attempts_and_what_they_said_survive() {
    let (clock, journal) = (TestClock::new(), MemoryJournal::new());
    {
        let runtime = runtime(&clock, Some(journal.clone()));
        let _handle = runtime.submit(Errand).key("a").start().unwrap();
        attempt(&runtime, &clock);
        futures::executor::block_on(runtime.quiet());
    }
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = heard.clone();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .journal_with(journal)
        .resource(Said::default())
        .listen(move |transition| hears.lock().unwrap().push(transition.cause()))
        .build()
        .unwrap();
    attempt(&runtime, &clock);
    futures::executor::block_on(runtime.quiet());
    // The third attempt is the first after the restart, and the last.
    let causes = [TransitionCause::Resumed, TransitionCause::Exhausted];
    assert_eq!(heard.lock().unwrap().as_slice(), causes);
    let said = runtime.submit(Ask).start().unwrap().wait().unwrap();
    assert!(matches!(said.end, AskedEnd::Told { said } if said == SAID));
}

#[test]
fn a_failure_says_what_every_attempt_said() {
    let clock = TestClock::new();
    let runtime = runtime(&clock, None);
    let handle = runtime.submit(Other).start().unwrap();
    attempt(&runtime, &clock);
    attempt(&runtime, &clock);
    let failure = handle.wait().unwrap_err();
    assert!(matches!(failure.cause, Cause::Error(Code(2))));
    let attempts = failure.attempts.iter().map(|it| (it.number, &*it.error));
    assert_eq!(
        attempts.collect::<Vec<_>>(),
        [(1, "Code(0)"), (2, "Code(1)")]
    );
}

/// Comes back to a resource that is not there at first.
#[derive(Serialize, Deserialize)]
struct Session;

#[fom(operation(Session))]
enum Talk {
    #[phase(sync, start, to(Speak))]
    Open,
    #[phase(to(Over), retry = "3, 1s..1s")]
    Speak,
    #[phase(end)]
    Over,
}

impl TalkTransitions for Session {
    fn open(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn speak(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let said = cx.resource::<Said>();
        said.0.lock().unwrap().push("speak".into());
        if said.0.lock().unwrap().len() == 1 {
            // The first process never gets further.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn resume(&mut self, cx: &mut Cx<'_>, _: &mut Talk) -> Result<(), BoxError> {
        let attempt = cx.attempt();
        let said = cx.resource::<Said>();
        said.0.lock().unwrap().push(format!("resume {attempt}"));
        match attempt {
            0 | 1 => Err("not there yet".into()),
            _ => Ok(()),
        }
    }
}

/// A `resume` that fails is tried again as the phase is. The phase's function runs only after `resume` has succeeded.
#[test]
fn a_resume_that_fails_is_tried_again() {
    let (clock, journal) = (TestClock::new(), MemoryJournal::new());
    let build = || {
        let builder = Runtime::builder().localities(1).pin(false).clock(&clock);
        let builder = builder.resource(Said::default());
        builder.journal_with(journal.clone()).build().unwrap()
    };
    {
        let runtime = build();
        runtime.submit(Session).detach().unwrap();
        futures::executor::block_on(runtime.quiet());
    }
    let runtime = build();
    attempt(&runtime, &clock);
    attempt(&runtime, &clock);
    futures::executor::block_on(runtime.quiet());
    let said = runtime.submit(Ask).start().unwrap().wait().unwrap();
    let AskedEnd::Told { said } = said.end;
    assert_eq!(said, ["resume 0", "resume 1", "resume 2", "speak"]);
}

/// The same without a journal, for a fom that is resumed from a snapshot.
#[test]
fn a_resume_from_a_snapshot_that_fails_is_tried_again() {
    let clock = TestClock::new();
    let builder = Runtime::builder().localities(1).pin(false).clock(&clock);
    let runtime = builder.resource(Said::default()).build().unwrap();
    // As in the process before, which never got further than this.
    let saved = Session.snapshot(&Talk::Speak).unwrap();
    runtime.resume::<Session>(&saved).unwrap().detach().unwrap();
    attempt(&runtime, &clock);
    attempt(&runtime, &clock);
    futures::executor::block_on(runtime.quiet());
    let said = runtime.submit(Ask).start().unwrap().wait().unwrap();
    let AskedEnd::Told { said } = said.end;
    assert_eq!(said, ["resume 0", "resume 1", "resume 2", "speak"]);
}
