//! `within` and `retry` without a value: a function of the phase says the time limit and the retries at run time.

use std::time::Duration;

use fom_runtime::{machine::Retry, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// What the operator has configured.
struct Config {
    patience: Duration,
    retries: Option<Retry>,
}

struct Call {
    log: Log,
    /// The caller can wait longer than others.
    extra: Duration,
}

#[fom(operation(Call), error(&'static str), transient)]
enum Route {
    #[phase(start, within, to(Ask))]
    Ring,
    #[phase(sync, retry, exhausted, to(Over))]
    Ask { times: u32, line: String },
    #[phase(end)]
    Over,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, cx: &mut Cx<'_>) -> Result<RouteAfterRing, &'static str> {
        cx.sleep(secs(5)).await;
        let line = "red".into();
        Ok(RouteAfterRing::Ask { times: 0, line })
    }

    fn ring_within(&self, cx: &Cx<'_>) -> Duration {
        assert_ne!(self.extra, secs(99), "no time is configured");
        cx.resource::<Config>().patience + self.extra
    }

    fn ask(
        &mut self,
        _: &mut Cx<'_>,
        RouteInAsk { times, .. }: RouteInAsk<'_>,
    ) -> Result<(), &'static str> {
        *times += 1;
        self.log.put(format_args!("ask {times}"));
        Err("busy")
    }

    fn ask_retry(&self, cx: &Cx<'_>, RouteInAskRef { line, .. }: RouteInAskRef<'_>) -> Retry {
        assert_eq!(line, "red");
        cx.resource::<Config>()
            .retries
            .expect("no retries are configured")
    }

    fn ask_exhausted(&mut self, _: &mut Cx<'_>, _: RouteInAsk<'_>) -> Result<(), &'static str> {
        self.log.put("gives up");
        Ok(())
    }
}

/// Runs a call under this configuration for ten seconds.
async fn call(config: Config, extra: u64) -> (Result<RouteEnd, Failure<Call>>, Vec<String>) {
    let clock = TestClock::new();
    let runtime = one(&clock).resource(config).build().unwrap();
    let log = Log::default();
    let call = Call {
        log: log.clone(),
        extra: secs(extra),
    };
    let handle = runtime.submit(call).start().unwrap();
    for _ in 0..10 {
        runtime.quiet().await;
        clock.advance(secs(1));
    }
    (handle.await.map(|ended| ended.end), log.take())
}

fn config(patience: u64, retries: Option<Retry>) -> Config {
    Config {
        patience: secs(patience),
        retries,
    }
}

#[test]
fn a_function_says_the_time_limit() {
    limited(|| async {
        let two = Some(Retry::new(2, secs(1), secs(1)));
        // The fom is late after four seconds. If the function panics, the fom is late at once.
        for extra in [0, 99] {
            let (outcome, _) = call(config(4, two), extra).await;
            let failure = outcome.err().unwrap();
            assert_eq!(failure.phase, RouteKind::Ring);
            assert_eq!(failure.cause.name(), "late");
        }
        let (outcome, lines) = call(config(4, two), 2).await;
        assert!(matches!(outcome.unwrap(), RouteEnd::Over));
        assert_eq!(lines, ["ask 1", "ask 2", "ask 3", "gives up"]);
    });
}

#[test]
fn a_function_says_the_retries() {
    limited(|| async {
        let one = Some(Retry::new(1, secs(1), secs(1)));
        let (_, lines) = call(config(6, one), 0).await;
        assert_eq!(lines, ["ask 1", "ask 2", "gives up"]);
        // A panic is reported, and leaves no retries.
        let (outcome, lines) = call(config(6, None), 0).await;
        assert!(outcome.is_ok());
        assert_eq!(lines, ["ask 1", "gives up"]);
    });
}

#[test]
fn drawings_name_the_functions() {
    let table = Call::GRAPH.table();
    assert!(table.contains("ring_within()"), "{table}");
    assert!(table.contains("ask_retry()"), "{table}");
}
