//! Adaptive times: with the default bounds, with others, in each kind of phase.
use std::time::Duration;

use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Bye,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, to(Ring), within = "adaptive", retry = "3, 50ms..2s")]
    Locate,
    #[phase(to(Record), sync, on(Bye), within = "adaptive, 50ms..30s", late)]
    Ring,
    #[phase(to(Done), blocking, within = "adaptive,1ms .. 1m30s")]
    Record,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }
    fn ring(&mut self, _: &mut Cx<'_, Signal>, _: Signal) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Record)
    }
    fn ring_late(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Record)
    }
    fn record(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    let bounds: Vec<_> = Call::GRAPH
        .phases()
        .iter()
        .map(|phase| {
            let deadline = phase.deadline();
            (deadline.adaptive().map(|of| (of.floor, of.ceiling)), deadline.within())
        })
        .collect();
    let both = |floor, ceiling| {
        let (floor, ceiling) = (Duration::from_millis(floor), Duration::from_millis(ceiling));
        (Some((floor, ceiling)), Some(ceiling))
    };
    let expected = [both(250, 30_000), both(50, 30_000), both(1, 90_000), (None, None)];
    assert_eq!(bounds, expected);
    assert!(Call::GRAPH.mermaid().contains("within adaptive 50ms..30s, else late"));
}
