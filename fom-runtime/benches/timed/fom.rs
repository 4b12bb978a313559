//! Foms of one sync phase.

use std::convert::Infallible;

use fom_runtime::{prelude::*, submission::EventSender};
use kit::peers::self_wake;

use super::{BATCH, State, Timed, WORKERS};

enum Go {
    Go,
}

struct Waiter {
    state: State,
}

#[fom(operation(Waiter), event(Go), error(Infallible), transient)]
enum Waiting {
    #[phase(start, sync, on(Go), to(Done), within = "1h", late)]
    Wait,
    #[phase(end)]
    Done,
}

impl WaitingTransitions for Waiter {
    fn wait(&mut self, cx: &mut Cx<'_, Go>, _: Go) -> Result<WaitingAfterWait, Infallible> {
        self.wait_late(cx)
    }

    fn wait_late(&mut self, _: &mut Cx<'_, Go>) -> Result<WaitingAfterWait, Infallible> {
        std::hint::black_box(self.state.sum());
        Ok(WaitingAfterWait::Done)
    }
}

enum Move {
    Park,
    Wake,
}

/// Does both moves for its locality's part.
struct Generator {
    operations: usize,
    waiters: Vec<EventSender<Go>>,
}

#[fom(operation(Generator), event(Move), transient)]
enum Generating {
    #[phase(start, on(Park), to(Wake))]
    Park,
    #[phase(on(Wake), to(Done))]
    Wake,
    #[phase(end)]
    Done,
}

impl GeneratingTransitions for Generator {
    async fn park(&mut self, cx: &mut Cx<'_, Move>) -> Result<(), BoxError> {
        cx.event().await;
        let runtime = cx.runtime();
        let first = cx.locality();
        self.waiters
            .reserve_exact(self.operations.div_ceil(WORKERS));
        for number in (first..self.operations).step_by(WORKERS) {
            let waiter = runtime
                .submit(Waiter {
                    state: State::new(number),
                })
                .start();
            let waiter = waiter.map_err(|refused| format!("{:?}", refused.reason()))?;
            self.waiters.push(waiter.sender());
            if self.waiters.len().is_multiple_of(BATCH) {
                self_wake().await;
            }
        }
        Ok(())
    }

    async fn wake(&mut self, cx: &mut Cx<'_, Move>) -> Result<(), BoxError> {
        cx.event().await;
        for (n, waiter) in self.waiters.drain(..).enumerate() {
            assert!(waiter.send(Go::Go).is_ok(), "the fom waits");
            if n % BATCH == BATCH - 1 {
                self_wake().await;
            }
        }
        Ok(())
    }
}

struct Foms {
    runtime: Runtime,
    generators: Vec<Handle<Generator>>,
}

pub(super) fn start(operations: usize) -> Box<dyn Timed> {
    let runtime = Runtime::builder()
        .localities(WORKERS)
        .build()
        .expect("two localities");
    let generators = (0..WORKERS)
        .map(|n| {
            let generator = Generator {
                operations,
                waiters: Vec::new(),
            };
            let generator = runtime
                .submit(generator)
                .place(Placement::Locality(n))
                .start();
            generator.unwrap_or_else(|refused| panic!("refused: {:?}", refused.reason()))
        })
        .collect();
    Box::new(Foms {
        runtime,
        generators,
    })
}

impl Foms {
    fn tell(&self, what: impl Fn() -> Move) {
        for generator in &self.generators {
            assert!(generator.send(what()).is_ok(), "the generator waits");
        }
    }
}

impl Timed for Foms {
    fn park(&mut self) {
        self.tell(|| Move::Park);
    }

    fn wake(&mut self) {
        self.tell(|| Move::Wake);
    }

    fn ended(&self) -> u64 {
        let types = self.runtime.operations().types;
        let waiters = types.iter().find(|of| of.operation.ends_with("Waiter"));
        waiters.map_or(0, |waiters| waiters.ended)
    }
}
