//! `take`: the function of a phase owns the data of the phase, and hands them on without a copy.

use std::{convert::Infallible, panic::resume_unwind, sync::Arc};

use fom_runtime::{machine::Layered, observe::Transition, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// What can only be handed on: it has no copy and no default. It says when it is dropped.
struct Socket(Log, &'static str);

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.put(format_args!("{} closed", self.1));
    }
}

/// What the functions do with the socket.
#[derive(Clone, Copy, PartialEq)]
enum Do {
    HandOn,
    Fail,
    Panic,
    Hang,
}

struct Dial {
    log: Log,
    does: Do,
}

#[fom(operation(Dial), error(&'static str), transient)]
enum Dialling {
    #[phase(start, sync, to(Open))]
    Begin,
    /// The function of a sync phase takes one value.
    #[phase(sync, take, to(Greet))]
    Open { socket: Socket },
    /// The function of an async phase takes several values, by name.
    #[phase(take, to(Write), within = "5s")]
    Greet { socket: Socket, name: String },
    /// The function of a blocking phase takes them, too.
    #[phase(blocking, take, to(Done))]
    Write { socket: Socket, line: String },
    #[phase(end)]
    Done { socket: Socket },
}

impl DiallingTransitions for Dial {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<DiallingAfterBegin, &'static str> {
        let socket = Socket(self.log.clone(), "socket");
        Ok(DiallingAfterBegin::Open { socket })
    }

    fn open(&mut self, _: &mut Cx<'_>, socket: Socket) -> Result<DiallingAfterOpen, &'static str> {
        let name = "ada".to_owned();
        Ok(DiallingAfterOpen::Greet { socket, name })
    }

    async fn greet(
        &mut self,
        cx: &mut Cx<'_>,
        DiallingInGreet { socket, name }: DiallingInGreet,
    ) -> Result<DiallingAfterGreet, &'static str> {
        match self.does {
            Do::HandOn => cx.sleep(secs(1)).await,
            Do::Fail => return Err("no route"),
            Do::Panic => resume_unwind(Box::new("no such name")),
            Do::Hang => std::future::pending().await,
        }
        let line = format!("hello, {name}");
        Ok(DiallingAfterGreet::Write { socket, line })
    }

    fn write(
        &mut self,
        _: &mut BlockingCx<'_>,
        DiallingInWrite { socket, line }: DiallingInWrite,
    ) -> Result<DiallingAfterWrite, &'static str> {
        self.log.put(format_args!("{line} on {}", socket.1));
        Ok(DiallingAfterWrite::Done { socket })
    }
}

/// Runs one operation, and returns its outcome, its transitions and what it did.
async fn dial(does: Do) -> (Result<DiallingEnd, Failure<Dial>>, Vec<String>, Log) {
    let clock = TestClock::new();
    let runtime = one(&clock).build().unwrap();
    let (log, steps) = (Log::default(), Log::default());
    let heard = steps.clone();
    let _listening = runtime.listen(move |step: &Transition<'_>| {
        let (from, to) = (step.from().unwrap_or("-"), step.to().unwrap_or("-"));
        heard.put(format_args!("{from} {to} {}", step.cause()));
    });
    let handle = runtime
        .submit(Dial {
            log: log.clone(),
            does,
        })
        .start()
        .unwrap();
    for _ in 0..6 {
        runtime.quiet().await;
        clock.advance(secs(1));
    }
    let outcome = handle.await.map(|ended| ended.end);
    (outcome, steps.lines(), log)
}

#[test]
fn a_value_without_a_copy_is_handed_from_phase_to_phase() {
    limited(|| async {
        let (outcome, steps, log) = dial(Do::HandOn).await;
        assert_eq!(
            steps,
            [
                "- Begin started",
                "Begin Open returned",
                "Open Greet returned",
                "Greet Write returned",
                "Write Done returned"
            ]
        );
        assert_eq!(log.take(), ["hello, ada on socket"]);
        let DiallingEnd::Done { socket } = outcome.unwrap();
        assert!(log.lines().is_empty());
        drop(socket);
        assert_eq!(log.lines(), ["socket closed"]);
    });
}

/// The failure names the phase that took its data, and the data are dropped once.
#[test]
fn a_failure_drops_what_the_function_took() {
    limited(|| async {
        for (does, cause) in [
            (Do::Fail, "error"),
            (Do::Panic, "panicked"),
            (Do::Hang, "late"),
        ] {
            let (outcome, steps, log) = dial(does).await;
            let failure = outcome.err().unwrap();
            assert_eq!(failure.phase, DiallingKind::Greet);
            assert_eq!(failure.cause.name(), cause);
            assert!(failure.operation.is_some());
            assert_eq!(steps.last().unwrap(), &format!("Greet - {cause}"));
            assert_eq!(log.lines(), ["socket closed"]);
        }
    });
}

/// A fom that is dropped with the runtime drops what its function took.
#[test]
fn a_cancel_drops_what_the_function_took() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let handle = runtime
            .submit(Dial {
                log: log.clone(),
                does: Do::Hang,
            })
            .start()
            .unwrap();
        runtime.quiet().await;
        handle.cancel();
        let failure = handle.await.err().unwrap();
        assert_eq!(
            (failure.phase_name(), failure.cause.name()),
            ("Greet", "cancelled")
        );
        assert_eq!(log.lines(), ["socket closed"]);
    });
}

struct Relay {
    dial: Dial,
    told: Arc<Log>,
}

/// A layer decides what to do when the inner operation has failed.
#[fom(operation(Relay), around(Dial), error(Infallible), transient)]
enum Relaying {
    #[phase(inner(dial), start, failed(Told))]
    Inside { dial: Dialling },
    #[phase(end)]
    Told,
}

impl RelayingTransitions for Relay {
    async fn inside_failed(
        &mut self,
        _: &mut Cx<'_>,
        _: &mut Dialling,
        cause: Cause<Layered<Infallible, &'static str>>,
    ) -> Result<(), Infallible> {
        self.told.put(cause.name());
        Ok(())
    }
}

#[test]
fn a_layer_hears_of_a_failure_in_a_phase_that_took_its_data() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (log, told) = (Log::default(), Arc::new(Log::default()));
        let dial = Dial {
            log: log.clone(),
            does: Do::Fail,
        };
        let relay = Relay {
            dial,
            told: told.clone(),
        };
        let ended = runtime.submit(relay).await.unwrap();
        assert!(matches!(ended.end, RelayingEnd::Told));
        assert_eq!(told.lines(), ["error"]);
        assert_eq!(log.lines(), ["socket closed"]);
    });
}
