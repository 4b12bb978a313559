//! Locks of an end.
use fom_runtime::prelude::*;
use fom_patterns::lock::{LockSet, LongLocks};

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered), locks)]
    Ring { endpoint: u64 },
    #[phase(end, locks)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    fn ring_locks(&self, cx: &Cx<'_>, endpoint: &u64) -> LockSet {
        LockSet::new().write(&cx.resource::<LongLocks>().of(*endpoint))
    }
    async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u64) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
