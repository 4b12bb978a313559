//! The program that the editor shows. It is a text for the tests: `lsp.rs` names places in it.

use fom_runtime::prelude::*;

/// An operation.
#[derive(Debug)]
pub struct Call {
    /// How often.
    pub times: u8,
}

/// Its events.
#[derive(Debug)]
pub enum Signal {
    /// Go on.
    Go,
}

/// Its phases.
#[fom(operation(Call), event(Signal), transient)]
pub enum Route {
    /// Look.
    #[phase(start, to(Waiting, Running))]
    Idle,
    /// Wait.
    #[phase(to(Running, Done), sync, on(Go))]
    Waiting,
    /// Run.
    #[phase(to(Done))]
    Running {
        /// How often.
        times: u8,
    },
    /// End.
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn idle(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterIdle, BoxError> {
        if self.times == 0 {
            return Ok(RouteAfterIdle::Waiting);
        }
        Ok(RouteAfterIdle::Running { times: self.times })
    }
    fn waiting(&mut self, _: &mut Cx<'_, Signal>, event: Signal) -> Result<RouteAfterWaiting, BoxError> {
        let Signal::Go = event;
        if self.times == 0 {
            return Ok(RouteAfterWaiting::Stay);
        }
        Ok(RouteAfterWaiting::Running { times: 1 })
    }
    async fn running(&mut self, _: &mut Cx<'_, Signal>, times: &mut u8) -> Result<(), BoxError> {
        self.times += *times;
        Ok(())
    }
}

/// Returns whether the operation runs.
pub fn runs(phase: &Route, kind: RouteKind) -> bool {
    match phase {
        Route::Running { .. } => true,
        _ => kind == RouteKind::Running,
    }
}
