//! A machine of events only: a turnstile. Its phases are `sync`. So a waiting fom is a header, the operation and the
//! phase, without a future.
//!
//! `cargo run --example events`

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Turnstile {
    people: u32,
    coins: u32,
}

#[derive(Clone, Copy, Debug)]
enum Visitor {
    Coin,
    Push,
    Key,
}

#[fom(operation(Turnstile), event(Visitor))]
#[derive(Debug)]
enum Gate {
    #[phase(start, to(Open, Closed), on(Coin, Push, Key), sync)]
    Locked,
    #[phase(to(Locked), on(Push), sync)]
    Open,
    #[phase(end)]
    Closed,
}

impl GateTransitions for Turnstile {
    fn locked(
        &mut self,
        _: &mut Cx<'_, Visitor>,
        event: Visitor,
    ) -> Result<GateAfterLocked, BoxError> {
        Ok(match event {
            Visitor::Coin => {
                self.coins += 1;
                GateAfterLocked::Open
            }
            Visitor::Key => GateAfterLocked::Closed,
            // Nothing moves: the fom waits for the next event in this same visit.
            Visitor::Push => GateAfterLocked::Stay,
        })
    }

    // A coin that comes while the gate is open is kept, and pays for the next visit.
    fn open(&mut self, _: &mut Cx<'_, Visitor>, _: Visitor) -> Result<GateAfterOpen, BoxError> {
        self.people += 1;
        Ok(GateAfterOpen::Locked)
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    println!("{}", Turnstile::GRAPH.drawing());
    let runtime = Runtime::new()?;
    let _log = runtime.listen(|transition| println!("  {transition}"));
    let gate = runtime
        .submit(Turnstile {
            people: 0,
            coins: 0,
        })
        .start()?;
    use Visitor::{Coin, Key, Push};
    for event in [Push, Coin, Coin, Push, Push, Push, Key] {
        gate.send(event)?;
    }
    let bytes = runtime.operation(gate.id()).map(|fom| fom.home.bytes);
    let ended = gate.await?;
    let Turnstile { people, coins } = ended.operation;
    println!("{coins} coins, {people} people, {bytes:?} bytes");
    assert_eq!((coins, people), (2, 2));
    Ok(())
}
