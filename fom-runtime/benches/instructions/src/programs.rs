//! The programs to count. Each takes the number of repetitions.

use std::{hint::black_box, time::Duration};

use fom_runtime::{Builder, config::Budget, prelude::*};

use crate::{
    generator::{Generator, Load},
    limit,
    machines::{AsyncChain, AsyncPlayer, Ball, Caller, Chain, Clerk, Desk, Player},
    steps, tokio_peer,
};

/// The number of callers at the desk.
const CALLERS: u64 = 512;

/// The number of keys. No two operations in flight have the same.
const KEYS: u64 = 10_000;

/// The number of operations that a thread outside submits before it waits for the last.
const WINDOW: u64 = 512;

/// The function of a program.
type Program = fn(u64);

/// All programs, by name.
pub(crate) const PROGRAMS: &[(&str, Program)] = &[
    ("step", |n| submit(steps::Stepper { times: n })),
    ("step-hand", steps::by_hand),
    ("sync-4", |n| generate(Load::Chains(4), n)),
    ("sync-8", |n| generate(Load::Chains(8), n)),
    ("await-4", |n| generate(Load::ChainsAwaited(4), n)),
    ("now-4", |n| generate(Load::ChainsNow(4), n)),
    ("sync-long", |n| submit(Chain { word: 1, left: n })),
    ("counted", |n| observed(Builder::observe, n)),
    ("recorded", |n| {
        observed(|builder| builder.recorder(1 << 12), n)
    }),
    ("heard", heard),
    ("history", |n| observed(|builder| builder.history(16), n)),
    ("async-4", |n| generate(Load::AsyncChains(4), n)),
    ("async-8", |n| generate(Load::AsyncChains(8), n)),
    ("async-long", |n| {
        submit(AsyncChain(Chain { word: 1, left: n }))
    }),
    ("event", |n| play(n, |left| Player { left, other: None })),
    ("event-async", |n| {
        play(n, |left| AsyncPlayer(Player { left, other: None }))
    }),
    ("outside-4", |n| from_outside(n, None)),
    ("keyed-4", |n| from_outside(n, Some(KEYS))),
    ("queued-4", |n| from_outside(n, Some(1))),
    ("call", calls),
    ("park", |n| generate(Load::Parked, n)),
    ("park-go", |n| generate(Load::ParkedGo, n)),
    ("timed", |n| generate(Load::Timed, n)),
    ("timed-go", |n| generate(Load::TimedGo, n)),
    ("tokio-4", |n| tokio_peer::tasks(n, 4)),
    ("tokio-8", |n| tokio_peer::tasks(n, 8)),
    ("limit-4", |n| limit::chains(n, 4)),
    ("limit-8", |n| limit::chains(n, 8)),
    ("limit-event", limit::hits),
    ("limit-call", limit::calls),
    ("limit-park", |n| limit::parked(n, false, false)),
    ("limit-park-go", |n| limit::parked(n, false, true)),
    ("limit-timed", |n| limit::parked(n, true, false)),
    ("limit-timed-go", |n| limit::parked(n, true, true)),
];

/// Runs the program of this name, and exits at once, so that the count leaves out the end of parked operations.
pub(crate) fn run(name: &str, times: u64) -> ! {
    let found = PROGRAMS.iter().find(|(other, _)| *other == name);
    let Some((_, program)) = found else {
        eprintln!("there is no program `{name}`");
        std::process::exit(2);
    };
    program(times);
    std::process::exit(0)
}

/// Returns the settings of a runtime with one locality, without those that depend on the speed of the machine.
fn builder() -> Builder {
    let budget = Budget {
        time: Duration::from_secs(3600),
        ..Budget::default()
    };
    Runtime::builder()
        .localities(1)
        .pin(false)
        .budget(budget)
        .resource(Desk::default())
}

fn build(builder: Builder) -> Runtime {
    builder.build().expect("there are threads for one locality")
}

fn runtime() -> Runtime {
    build(builder())
}

fn submit<O: Operation>(operation: O) {
    submit_to(runtime(), operation);
}

fn submit_to<O: Operation>(runtime: Runtime, operation: O) {
    assert!(start(&runtime, operation).wait().is_ok());
    std::mem::forget(runtime);
}

/// Submits a long chain to a runtime that observes it.
fn observed(observe: fn(Builder) -> Builder, transitions: u64) {
    let chain = Chain {
        word: 1,
        left: transitions,
    };
    submit_to(build(observe(builder())), chain);
}

/// As [`observed`], with an empty listener.
fn heard(transitions: u64) {
    let runtime = runtime();
    runtime
        .listen(|transition| _ = black_box(transition))
        .forever();
    let chain = Chain {
        word: 1,
        left: transitions,
    };
    submit_to(runtime, chain);
}

fn start<O: Operation>(runtime: &Runtime, operation: O) -> Handle<O> {
    match runtime.submit(operation).start() {
        Ok(handle) => handle,
        Err(refused) => panic!("refused: {:?}", refused.reason()),
    }
}

fn generate(load: Load, operations: u64) {
    submit(Generator {
        load,
        left: operations,
    });
}

fn play<O: Operation<Event = Ball>>(hits: u64, player: fn(u64) -> O) {
    let runtime = runtime();
    let [one, other] = [(); 2].map(|()| start(&runtime, player(hits / 2)));
    for (to, sender) in [(&one, other.sender()), (&other, one.sender())] {
        assert!(to.send(Ball::Meet(sender)).is_ok());
    }
    assert!(one.send(Ball::Hit).is_ok());
    assert!(one.wait().is_ok() && other.wait().is_ok());
    std::mem::forget(runtime);
}

/// Submits from a thread outside of the runtime, with a key of so many in turn.
fn from_outside(operations: u64, keys: Option<u64>) {
    let runtime = runtime();
    for n in 1..=operations {
        let mut submission = runtime.submit(Chain { word: 1, left: 4 });
        if let Some(keys) = keys {
            submission = submission.key(n % keys).queue();
        }
        if n % WINDOW == 0 {
            assert!(submission.wait().is_ok());
        } else {
            assert!(submission.detach().is_ok());
        }
    }
    std::mem::forget(runtime);
}

fn calls(times: u64) {
    let runtime = runtime();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let left = times / CALLERS;
            start(&runtime, Caller { left })
        })
        .collect();
    let left = times / CALLERS * CALLERS;
    assert!(start(&runtime, Clerk { left }).wait().is_ok());
    for caller in callers {
        assert!(caller.wait().is_ok());
    }
    std::mem::forget(runtime);
}
