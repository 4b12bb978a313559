//! Phases that only some builds have.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

enum Signal {
    Bye,
}

#[fom(operation(Call), event(Signal))]
enum Route {
    #[phase(start, to(Trace, Ring, Missing), within = "2s", keep(Trace, Missing))]
    Locate,
    #[cfg(all())]
    #[phase(to(Ring))]
    Trace { level: u8 },
    #[cfg(any())]
    #[phase(to(Ring), within = "1s", late, on(Bye))]
    Missing { level: NoSuchType },
    #[phase(to(Done, Gone, More, Less), sync, on(Bye))]
    Ring,
    #[phase(to(Gone))]
    #[cfg(all())]
    Only,
    #[cfg(all())]
    #[phase(end)]
    Gone,
    #[phase(end, failure)]
    #[cfg(any())]
    Done,
    #[phase(to(Only, Ring))]
    More,
    #[phase(to(More))]
    #[cfg(any())]
    Less,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Trace { level: 1 })
    }
    async fn trace(&mut self, _: &mut Cx<'_, Signal>, _: &mut u8) -> Result<(), BoxError> {
        Ok(())
    }
    fn ring(&mut self, _: &mut Cx<'_, Signal>, _: Signal) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Gone)
    }
    async fn only(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterOnly, BoxError> {
        Ok(RouteAfterOnly::Gone)
    }
    async fn more(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterMore, BoxError> {
        Ok(RouteAfterMore::Only)
    }
}

fn main() {
    let names: Vec<_> = Call::GRAPH
        .phases()
        .iter()
        .map(|phase| phase.name())
        .collect();
    assert_eq!(names, ["Locate", "Trace", "Ring", "Only", "Gone", "More"]);
    for (index, kind) in [RouteKind::Locate, RouteKind::Trace, RouteKind::Ring]
        .into_iter()
        .enumerate()
    {
        assert_eq!(Call::index(kind), index);
    }
    assert!(Call::takes(RouteKind::Ring, &Signal::Bye));
    assert!(!Call::takes(RouteKind::More, &Signal::Bye));
}
