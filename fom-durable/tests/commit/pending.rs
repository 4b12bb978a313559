//! A cancel, a deadline or a shutdown that comes while a step is on its way into the journal.

use std::{fs, sync::mpsc, thread, time::Duration};

use fom_durable::prelude::*;
use fom_runtime::{Cause, error::BoxError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::held::Held;
use crate::kit::{Log, limited, one};

fn runtime(journal: &Held, log: &Log) -> Runtime {
    let builder = one(&TestClock::new()).resource(log.clone());
    builder.journal_with(journal.clone()).build().unwrap()
}

/// Returns after everything in the inbox and the queue of the locality has run once.
fn a_round(runtime: &Runtime) {
    for _ in 0..2 {
        let (tell, told) = mpsc::channel();
        runtime.post(0, move |_| tell.send(()).unwrap()).unwrap();
        told.recv().unwrap();
    }
}

#[derive(Serialize, Deserialize)]
struct Flaw;

#[fom(operation(Flaw))]
enum Flawed {
    #[phase(sync, start, to(Fine), retry = "5, 1h..1h")]
    Try,
    #[phase(end)]
    Fine,
}

impl FlawedTransitions for Flaw {
    fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("not yet".into())
    }
}

#[derive(Serialize, Deserialize)]
struct Slow;

#[fom(operation(Slow))]
enum Slowly {
    #[phase(start, to(Fine), retry = "5, 1h..1h")]
    Try,
    #[phase(end)]
    Fine,
}

impl SlowlyTransitions for Slow {
    async fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("not yet".into())
    }
}

/// A cancel during the commit of a failed attempt ends the fom after the commit, not after the wait for the next
/// attempt.
#[test]
fn a_cancel_is_heard_while_a_failed_attempt_is_committed() {
    limited(|| async {
        for asynchronous in [false, true] {
            let journal = Held::default();
            journal.hold_commits(true);
            let runtime = runtime(&journal, &Log::default());
            let cancel: Box<dyn Fn()>;
            let wait: Box<dyn FnOnce() -> bool>;
            if asynchronous {
                let handle = runtime.submit(Slow).start().unwrap();
                let fom = handle.fom().clone();
                cancel = Box::new(move || fom.cancel());
                wait = Box::new(move || {
                    matches!(handle.wait().err().unwrap().cause, Cause::Cancelled)
                });
            } else {
                let handle = runtime.submit(Flaw).start().unwrap();
                let fom = handle.fom().clone();
                cancel = Box::new(move || fom.cancel());
                wait = Box::new(move || {
                    matches!(handle.wait().err().unwrap().cause, Cause::Cancelled)
                });
            }
            journal.wait_for_asked(1);
            // No commit slips through between the first and the second: the second commit is held.
            journal.hold_tidying(true);
            journal.hold_commits(false);
            journal.wait_for_done(1);
            journal.hold_commits(true);
            journal.hold_tidying(false);
            journal.wait_for_asked(2);
            cancel();
            a_round(&runtime);
            journal.hold_commits(false);
            assert!(wait(), "asynchronous: {asynchronous}");
        }
    });
}

#[derive(Serialize, Deserialize)]
struct Stubborn;

/// Ends its phase only when it is told to end.
#[fom(operation(Stubborn))]
enum Stubbornly {
    #[phase(sync, start, to(Wait))]
    Stay,
    #[phase(to(Fine))]
    Wait,
    #[phase(end)]
    Fine,
}

impl StubbornlyTransitions for Stubborn {
    fn stay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let link = fs::read_link("/proc/thread-self")?;
        cx.resource::<Log>().put(link.display());
        while !cx.is_cancelled() {
            thread::yield_now();
        }
        Ok(())
    }

    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

fn wait_for_line(log: &Log) -> String {
    loop {
        if let Some(line) = log.lines().first() {
            return line.clone();
        }
        thread::yield_now();
    }
}

/// A shutdown at once, on a clock that stands still, while a step is not yet handed to the journal. The step is
/// committed, and its fom ends.
#[test]
fn a_shutdown_waits_for_a_step_that_was_not_handed_over_yet() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = runtime(&journal, &log);
        let handle = runtime.submit(Stubborn).key("a").start().unwrap();
        wait_for_line(&log);
        let report = runtime.shutdown_blocking(Shutdown::Now, Duration::from_secs(5));
        assert!(report.remained.is_empty(), "{report:?}");
        assert!(matches!(
            handle.wait().err().unwrap().cause,
            Cause::Shutdown
        ));
        drop(runtime);
        let runtime = self::runtime(&journal, &log);
        let back = runtime.find::<Stubborn>("a").expect("it is back");
        assert_eq!(back.phase(), "Wait", "the step was committed");
    });
}

/// Returns the processor time of a thread so far, in ticks of ten milliseconds.
fn ticks(thread: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    let field = |n: usize| fields.split_whitespace().nth(n).unwrap().parse::<u64>();
    field(11).unwrap() + field(12).unwrap()
}

/// While a shutdown waits for the disk, no thread runs.
#[test]
fn a_shutdown_that_waits_for_the_disk_keeps_no_processor_busy() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let builder = Runtime::builder().localities(1).pin(false);
        let builder = builder.resource(log.clone()).journal_with(journal.clone());
        let runtime = builder.build().unwrap();
        let handle = runtime.submit(Stubborn).start().unwrap();
        let thread = wait_for_line(&log);
        journal.hold_commits(true);
        let runtime2 = runtime.clone();
        let ending = thread::spawn(move || {
            runtime2.shutdown_blocking(Shutdown::Now, Duration::from_secs(20))
        });
        journal.wait_for_asked(2);
        let before = ticks(&thread);
        // Not a wait for an event: nothing must happen during this time.
        thread::sleep(Duration::from_millis(500));
        let took = ticks(&thread) - before;
        journal.hold_commits(false);
        assert!(ending.join().unwrap().remained.is_empty());
        assert!(matches!(
            handle.wait().err().unwrap().cause,
            Cause::Shutdown
        ));
        assert!(took < 15, "{took} ticks of processor time in 500 ms");
    });
}

#[derive(Clone, Serialize, Deserialize)]
enum Hello {
    There,
}

#[derive(Serialize, Deserialize)]
struct Listener;

#[fom(operation(Listener), event(Hello))]
enum Listening {
    #[phase(sync, start, to(Heard), on(There))]
    Listen,
    #[phase(end)]
    Heard,
}

impl ListeningTransitions for Listener {
    fn listen(
        &mut self,
        cx: &mut Cx<'_, Hello>,
        _: Hello,
    ) -> Result<ListeningAfterListen, BoxError> {
        cx.resource::<Log>().put("heard");
        Ok(ListeningAfterListen::Heard)
    }
}

#[derive(Serialize, Deserialize)]
struct Ringer;

#[fom(operation(Ringer))]
enum Calling {
    #[phase(sync, start, to(Called))]
    Call,
    #[phase(end)]
    Called,
}

impl CallingTransitions for Ringer {
    fn call(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(cx.outbox().send::<Listener>("ear", Hello::There)?)
    }
}

/// If the step that sends an event is committed while the runtime shuts down, the event is for the receiver that comes
/// back.
#[test]
fn an_event_that_is_sent_during_a_shutdown_is_not_lost() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = runtime(&journal, &log);
        let ear = runtime.submit(Listener).key("ear").start().unwrap();
        journal.wait_for_done(1);
        journal.hold_commits(true);
        let caller = runtime.submit(Ringer).start().unwrap();
        journal.wait_for_asked(2);
        journal.hold_tidying(true);
        journal.hold_commits(false);
        journal.wait_for_done(2);
        journal.hold_commits(true);
        journal.hold_tidying(false);
        journal.wait_for_asked(3);
        // In the batch after the batch of the caller's step.
        let other = runtime.submit(Listener).start().unwrap();
        a_round(&runtime);
        let runtime2 = runtime.clone();
        let ending = thread::spawn(move || {
            runtime2.shutdown_blocking(Shutdown::Now, Duration::from_secs(20))
        });
        assert!(matches!(ear.wait().err().unwrap().cause, Cause::Shutdown));
        journal.hold_tidying(true);
        journal.hold_commits(false);
        assert!(caller.wait().is_ok(), "it was committed");
        journal.hold_tidying(false);
        assert!(ending.join().unwrap().remained.is_empty());
        assert!(matches!(other.wait().err().unwrap().cause, Cause::Shutdown));
        assert!(journal.done() >= 4, "there was a batch after it");
        drop(runtime);
        let runtime = self::runtime(&journal, &log);
        runtime.quiet().await;
        assert_eq!(log.lines(), ["heard"]);
    });
}

#[derive(Serialize, Deserialize)]
struct Busy;

/// Runs on and on until the test says that it is enough.
#[fom(operation(Busy), durability = "none")]
enum Busily {
    #[phase(sync, start, to(Run, Enough))]
    Run,
    #[phase(end)]
    Enough,
}

impl BusilyTransitions for Busy {
    fn run(&mut self, cx: &mut Cx<'_>) -> Result<BusilyAfterRun, BoxError> {
        Ok(match cx.resource::<Log>().lines().is_empty() {
            true => BusilyAfterRun::Run,
            false => BusilyAfterRun::Enough,
        })
    }
}

/// A locality that always has work hands its commits over, also on a clock that stands still.
#[test]
fn a_busy_locality_commits_on_a_clock_that_stands_still() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = runtime(&journal, &log);
        let busy = [0; 3].map(|_| runtime.submit(Busy).start().unwrap());
        let ear = runtime.submit(Listener).key("ear").start().unwrap();
        ear.reached([ListeningKind::Listen]).await;
        log.put("enough");
        assert!(busy.into_iter().all(|busy| busy.wait().is_ok()));
    });
}

/// The deadline drops the async phase. The late function does not send what the phase had put into its outbox.
#[derive(Serialize, Deserialize)]
struct Hesitant;

#[fom(operation(Hesitant))]
enum Hesitating {
    #[phase(start, to(Gone), within = "10s", late)]
    Hesitate,
    #[phase(end)]
    Gone,
}

impl HesitatingTransitions for Hesitant {
    async fn hesitate(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().send::<Listener>("ear", Hello::There)?;
        std::future::pending().await
    }

    async fn hesitate_late(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A phase function that is dropped at its deadline sends nothing.
#[test]
fn what_a_late_phase_had_in_its_outbox_is_not_sent() {
    limited(|| async {
        let (journal, log, clock) = (Held::default(), Log::default(), TestClock::new());
        let builder = one(&clock).resource(log.clone());
        let runtime = builder.journal_with(journal.clone()).build().unwrap();
        let ear = runtime.submit(Listener).key("ear").start().unwrap();
        ear.reached([ListeningKind::Listen]).await;
        let late = runtime.submit(Hesitant).start().unwrap();
        runtime.quiet().await;
        clock.advance(Duration::from_secs(11));
        assert!(late.wait().is_ok());
        runtime.quiet().await;
        assert!(log.lines().is_empty(), "{:?}", log.lines());
    });
}
