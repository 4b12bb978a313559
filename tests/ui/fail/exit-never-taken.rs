//! An exit that no function takes, as any variant that is never constructed.
#![deny(dead_code)]
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Lost))] // here, none takes `Lost`
    Locate,
    /// The function for a missed deadline takes `Lost`, and none takes `Connected`.
    #[phase(to(Connected, Lost, Moved), within = "1s", late)]
    Ring,
    #[allow(dead_code)]
    #[phase(to(Connected, Lost))]
    Moved,
    #[phase(end)]
    Connected,
    #[phase(end)]
    Lost,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring)
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Moved)
    }
    async fn ring_late(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Lost)
    }
    async fn moved(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterMoved, BoxError> {
        Ok(RouteAfterMoved::Lost)
    }
}

fn main() {}
