//! The smallest whole thing: one operation, its phases, an event from outside. The README shows this file.
//!
//! `cargo run --example hello`

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A call on its way to `callee`: what the operation keeps from phase to phase.
#[derive(Serialize, Deserialize)]
struct Call {
    callee: String,
}

enum CallEvent {
    Answer { session: u32 },
}

/// Its phases, and the only ways between them.
#[fom(operation(Call), event(CallEvent))]
#[derive(Debug)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected), on(Answer), within = "32s", late)]
    Ring { endpoint: SocketAddr },
    #[phase(end)]
    Answered { session: u32 },
    #[phase(end, failure)]
    Rejected { status: u16 },
}

type Calling<'a> = Cx<'a, CallEvent>;

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Calling<'_>) -> Result<RouteAfterLocate, BoxError> {
        // A phase may await anything of tokio. A fom that waits holds no thread.
        let found = tokio::net::lookup_host((&*self.callee, 5060)).await;
        Ok(match found.ok().and_then(|mut all| all.next()) {
            Some(endpoint) => RouteAfterLocate::Ring { endpoint },
            None => RouteAfterLocate::Rejected { status: 404 },
        })
    }

    async fn ring(
        &mut self,
        cx: &mut Calling<'_>,
        _: &mut SocketAddr,
    ) -> Result<RouteAfterRing, BoxError> {
        let CallEvent::Answer { session } = cx.event().await;
        Ok(RouteAfterRing::Answered { session })
    }

    // Runs when `ring` has waited for 32 seconds.
    async fn ring_late(
        &mut self,
        _: &mut Calling<'_>,
        _: &mut SocketAddr,
    ) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Rejected { status: 408 })
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let runtime = Runtime::new()?;
    let callee = "localhost".to_owned();
    let call = runtime.submit(Call { callee }).key("call-1").start()?;

    call.reached([RouteKind::Ring]).await;
    println!("{}", runtime.operations());

    // Any caller with the key can send events; `call.send(..)` does the same.
    let found = runtime.find::<Call>("call-1").expect("it rings");
    found.send(CallEvent::Answer { session: 7 })?;

    let ended = call.await?;
    println!("{}: {:?}", ended.operation.callee, ended.end);
    println!("{}", graph().drawing());
    Ok(())
}

/// The phases and their edges. The README has a picture of it.
pub(crate) fn graph() -> &'static fom_runtime::machine::Graph {
    Call::GRAPH
}
