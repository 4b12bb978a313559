//! A layer has the events of the inner operation.
use fom_runtime::prelude::*;

struct Read;

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, to(Found))]
    Look,
    #[phase(end)]
    Found,
}

impl ReadingTransitions for Read {
    async fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Guarded {
    request: Read,
}

enum Event {
    Ack,
}

#[fom(operation(Guarded), around(Read), event(Event), transient)]
enum Standard {
    #[phase(start, sync, on(Ack), to(Serve))]
    Authorise,
    #[cfg(all())]
    #[phase(inner(request))]
    Serve { phase: Reading },
}

impl StandardTransitions for Guarded {
    fn authorise(&mut self, _: &mut Cx<'_, Event>, _: Event) -> Result<StandardAfterAuthorise, BoxError> {
        Ok(StandardAfterAuthorise::Serve)
    }
}

fn main() {}
