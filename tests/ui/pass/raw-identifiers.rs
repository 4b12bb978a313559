//! Names that are keywords.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

enum r#Signal {
    r#Async,
    Bye,
}

#[fom(operation(Call), event(Signal))]
enum r#Route {
    #[phase(start, to(r#Type, Match))]
    Loop,
    #[phase(to(End), within = "1s", late)]
    Match { r#type: u8, r#fn: String },
    #[phase(to(End, Match), sync, on(r#Async, Bye))]
    r#Type {
        r#where: bool,
        cx: u8,
        fields: u8,
        phase: u8,
        entry: u8,
        next: u8,
    },
    #[phase(end)]
    End { r#self_: u8 },
}

impl RouteTransitions for Call {
    async fn r#loop(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLoop, BoxError> {
        Ok(RouteAfterLoop::Match {
            r#type: 1,
            r#fn: String::new(),
        })
    }
    async fn r#match(
        &mut self,
        _: &mut Cx<'_, Signal>,
        RouteInMatch { r#type, .. }: RouteInMatch<'_>,
    ) -> Result<RouteAfterMatch, BoxError> {
        Ok(RouteAfterMatch::End { self_: *r#type })
    }
    async fn match_late(
        &mut self,
        _: &mut Cx<'_, Signal>,
        RouteInMatch { r#type: _, r#fn: _ }: RouteInMatch<'_>,
    ) -> Result<RouteAfterMatch, BoxError> {
        Ok(RouteAfterMatch::End { self_: 0 })
    }
    fn r#type(
        &mut self,
        _: &mut Cx<'_, Signal>,
        RouteInType { r#where: _, cx: _, fields: _, phase: _, entry: _, next: _ }: RouteInType<'_>,
        event: Signal,
    ) -> Result<RouteAfterType, BoxError> {
        Ok(match event {
            Signal::r#Async => RouteAfterType::Stay,
            Signal::Bye => RouteAfterType::End { self_: 1 },
        })
    }
}

fn main() {
    assert_eq!(Call::GRAPH.name(), "Route");
    assert_eq!(Call::GRAPH.phases()[2].name(), "Type");
    assert_eq!(Call::GRAPH.phases()[2].takes(), ["Async", "Bye"]);
}
