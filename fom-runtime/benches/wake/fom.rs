//! A fom with a sync phase that takes events.

use std::{convert::Infallible, time::Duration};

use fom_runtime::prelude::*;

use super::{PONG, Ping};

struct Ponger;

enum PingEvent {
    Ping(u64),
    #[expect(dead_code, reason = "the process ends it")]
    End,
}

#[fom(operation(Ponger), event(PingEvent), error(Infallible), transient)]
enum Ponging {
    #[phase(start, sync, on(Ping, End), to(Ended))]
    Wait,
    #[phase(end)]
    Ended,
}

impl PongingTransitions for Ponger {
    fn wait(
        &mut self,
        _: &mut Cx<'_, PingEvent>,
        event: PingEvent,
    ) -> Result<PongingAfterWait, Infallible> {
        Ok(match event {
            PingEvent::Ping(sent) => {
                PONG.send(sent);
                PongingAfterWait::Stay
            }
            PingEvent::End => PongingAfterWait::Ended,
        })
    }
}

/// Starts one locality, which spins for `spin` before it sleeps. Its threads stay on the core of the calling thread.
pub(crate) fn start(spin: Duration) -> Ping {
    let builder = Runtime::builder().localities(1).pin(false).spin(spin);
    let runtime = builder.build().expect("one locality");
    let ponger = runtime.submit(Ponger).start();
    let ponger = ponger.unwrap_or_else(|refused| panic!("refused: {:?}", refused.reason()));
    Box::new(move |sent| {
        // The runtime lives as long as this closure.
        let _ = &runtime;
        assert!(ponger.send(PingEvent::Ping(sent)).is_ok());
    })
}
