//! Foms of four phases, plain functions or async ones; their generator is a fom, too.

use std::convert::Infallible;

use fom_runtime::{Cx, config::Budget, fom};
use kit::{
    mix,
    peers::{Flight, Load, Small, generate_foms},
};

use crate::words::{Words, touch, words};

struct Plain {
    x: u64,
    left: u32,
}

#[fom(operation(Plain), error(Infallible), transient)]
enum Plainly {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(sync, to(Third))]
    Second,
    #[phase(sync, to(Fourth))]
    Third,
    #[phase(sync, to(First, Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl PlainlyTransitions for Plain {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x);
        Ok(())
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x ^ 1);
        Ok(())
    }

    fn third(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x ^ 2);
        Ok(())
    }

    fn fourth(&mut self, cx: &mut Cx<'_>) -> Result<PlainlyAfterFourth, Infallible> {
        self.x = mix(self.x ^ 3);
        self.left -= 4;
        if self.left > 0 {
            return Ok(PlainlyAfterFourth::First);
        }
        cx.local(|flight: &mut Flight| flight.done(self.x));
        Ok(PlainlyAfterFourth::Done)
    }
}

impl Small for Plain {
    fn new(x: u64, phases: u32) -> Self {
        Self { x, left: phases }
    }
}

struct Async {
    x: u64,
    left: u32,
}

#[fom(operation(Async), error(Infallible), transient)]
enum Asynchronously {
    #[phase(start, to(Second))]
    First,
    #[phase(to(Third))]
    Second,
    #[phase(to(Fourth))]
    Third,
    #[phase(to(First, Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl AsynchronouslyTransitions for Async {
    async fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x);
        Ok(())
    }

    async fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x ^ 1);
        Ok(())
    }

    async fn third(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = mix(self.x ^ 2);
        Ok(())
    }

    async fn fourth(&mut self, cx: &mut Cx<'_>) -> Result<AsynchronouslyAfterFourth, Infallible> {
        self.x = mix(self.x ^ 3);
        self.left -= 4;
        if self.left > 0 {
            return Ok(AsynchronouslyAfterFourth::First);
        }
        cx.local(|flight: &mut Flight| flight.done(self.x));
        Ok(AsynchronouslyAfterFourth::Done)
    }
}

impl Small for Async {
    fn new(x: u64, phases: u32) -> Self {
        Self { x, left: phases }
    }
}

struct Large {
    x: u64,
    words: Words,
}

#[fom(operation(Large), error(Infallible), transient)]
enum Largely {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(sync, to(Third))]
    Second,
    #[phase(sync, to(Fourth))]
    Third,
    #[phase(sync, to(Done))]
    Fourth,
    #[phase(end)]
    Done,
}

impl LargelyTransitions for Large {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = touch(&mut self.words, 0, mix(self.x));
        Ok(())
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = touch(&mut self.words, 1, mix(self.x ^ 1));
        Ok(())
    }

    fn third(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = touch(&mut self.words, 2, mix(self.x ^ 2));
        Ok(())
    }

    fn fourth(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        self.x = touch(&mut self.words, 3, mix(self.x ^ 3));
        cx.local(|flight: &mut Flight| flight.done(self.x));
        Ok(())
    }
}

impl Small for Large {
    fn new(x: u64, _: u32) -> Self {
        Self { x, words: words(x) }
    }
}

/// Starts operations with 4 KiB of state, with a turn for each phase.
pub(crate) fn start_large(load: Load) {
    let builder = kit::peers::fom(load.workers).budget(turns());
    generate_foms::<Large>(builder.build().expect("a runtime"), load);
}

/// A turn for each phase.
fn turns() -> Budget {
    Budget {
        phases: 1,
        ..Budget::default()
    }
}

pub(crate) fn start(load: Load, peer: &str) {
    let mut builder = kit::peers::fom(load.workers);
    if peer == "fom:turns" {
        builder = builder.budget(turns());
    }
    let runtime = builder.build().expect("a runtime");
    match peer {
        "fom:async" => generate_foms::<Async>(runtime, load),
        _ => generate_foms::<Plain>(runtime, load),
    }
}
