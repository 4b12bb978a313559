//! The library under another name: `crate = ".."` says where it is.

use renamed::prelude::*;
use serde::{Deserialize, Serialize};

/// An operation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call;

/// Its events.
#[derive(Debug)]
pub enum Signal {
    /// Enough.
    Bye,
}

/// Its phases.
#[fom(operation(Call), event(Signal), crate = "::renamed")]
#[derive(Debug)]
pub enum Route {
    /// Look.
    #[phase(start, to(Ring, Done), within = "2s", late)]
    Locate,
    /// Ring.
    #[phase(to(Talk), blocking)]
    Ring {
        /// How often.
        times: u8,
    },
    /// Talk.
    #[phase(to(Done), sync, on(Bye))]
    Talk,
    /// End.
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { times: 2 })
    }
    async fn locate_late(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Done)
    }
    fn ring(&mut self, _: &mut BlockingCx<'_>, _: &mut u8) -> Result<(), BoxError> {
        Ok(())
    }
    fn talk(&mut self, _: &mut Cx<'_, Signal>, event: Signal) -> Result<RouteAfterTalk, BoxError> {
        let Signal::Bye = event;
        Ok(RouteAfterTalk::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_machine() {
        assert_eq!(Call::GRAPH.name(), "Route");
        assert!(Call::takes(RouteKind::Talk, &Signal::Bye));
    }
}
