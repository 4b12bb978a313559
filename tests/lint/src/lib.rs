//! Machines under strict lints.

use fom_runtime::{BlockingCx, Cx, error::BoxError, fom};
use serde::{Deserialize, Serialize};

/// An operation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Call;

/// Its events.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// Again.
    Again,
    /// Enough.
    Bye,
}

/// Its phases.
#[fom(operation(Call), event(Signal))]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Route {
    /// Look.
    #[phase(start, to(Ring, Rejected), within = "2s", late)]
    Locate,
    /// Ring.
    #[phase(to(Talk, Rejected), blocking, retry = "3, 50ms..2s")]
    Ring {
        /// How often.
        times: u8,
        /// The name.
        name: String,
    },
    /// Talk.
    #[phase(to(Count), sync, on(Again, Bye))]
    Talk,
    /// Count.
    #[phase(to(Done))]
    Count,
    /// End.
    #[phase(end)]
    Done,
    /// No.
    #[phase(end, failure)]
    Rejected {
        /// Why not.
        status: u16,
    },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring {
            times: 2,
            name: String::new(),
        })
    }

    async fn locate_late(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Rejected { status: 408 })
    }

    fn ring(
        &mut self,
        _: &mut BlockingCx<'_>,
        RouteInRing { times, .. }: RouteInRing<'_>,
    ) -> Result<RouteAfterRing, BoxError> {
        *times = 0;
        Ok(RouteAfterRing::Talk)
    }

    fn talk(&mut self, _: &mut Cx<'_, Signal>, event: Signal) -> Result<RouteAfterTalk, BoxError> {
        Ok(match event {
            Signal::Again => RouteAfterTalk::Stay,
            Signal::Bye => RouteAfterTalk::Count,
        })
    }

    async fn count(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// An operation of plain functions, private to this crate.
#[derive(Debug)]
struct Quick;

#[fom(operation(Quick), transient)]
enum Private {
    #[phase(start, to(Done), sync)]
    Begin,
    #[phase(end)]
    Done,
}

impl PrivateTransitions for Quick {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Uses the operation.
#[must_use]
pub const fn name() -> &'static str {
    let Quick = Quick;
    <Quick as fom_runtime::Operation>::GRAPH.name()
}
