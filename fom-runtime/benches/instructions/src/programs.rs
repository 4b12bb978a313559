//! The programs to count. Each takes the number of repetitions.

use std::time::Duration;

use fom_runtime::{config::Budget, prelude::*};

use crate::{
    generator::{Generator, Load},
    limit,
    machines::{AsyncChain, AsyncPlayer, Ball, Caller, Chain, Clerk, Desk, Player},
    steps, tokio_peer,
};

/// The number of callers at the desk.
const CALLERS: u64 = 512;

/// The function of a program.
type Program = fn(u64);

/// All programs, by name.
pub(crate) const PROGRAMS: &[(&str, Program)] = &[
    ("step", |n| submit(steps::Stepper { times: n })),
    ("step-hand", steps::by_hand),
    ("sync-4", |n| generate(Load::Chains(4), n)),
    ("sync-8", |n| generate(Load::Chains(8), n)),
    ("sync-long", |n| submit(Chain { word: 1, left: n })),
    ("async-4", |n| generate(Load::AsyncChains(4), n)),
    ("async-8", |n| generate(Load::AsyncChains(8), n)),
    ("async-long", |n| {
        submit(AsyncChain(Chain { word: 1, left: n }))
    }),
    ("event", |n| play(n, |left| Player { left, other: None })),
    ("event-async", |n| {
        play(n, |left| AsyncPlayer(Player { left, other: None }))
    }),
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

/// Returns a runtime with one locality, and without settings that depend on the speed of the machine.
fn runtime() -> Runtime {
    let budget = Budget {
        time: Duration::from_secs(3600),
        ..Budget::default()
    };
    Runtime::builder()
        .localities(1)
        .pin(false)
        .budget(budget)
        .resource(Desk::default())
        .build()
        .expect("there are threads for one locality")
}

fn submit<O: Operation>(operation: O) {
    let runtime = runtime();
    assert!(start(&runtime, operation).wait().is_ok());
    std::mem::forget(runtime);
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
