//! `Self` in the data of a phase means the enum.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Later))]
    Locate,
    #[phase(to(Done))]
    Later { then: Option<Box<Self>> },
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Later {
            then: Some(Box::new(Route::Done)),
        })
    }
    async fn later(
        &mut self,
        _: &mut Cx<'_>,
        then: &mut Option<Box<Route>>,
    ) -> Result<(), BoxError> {
        drop(then.take());
        Ok(())
    }
}

fn main() {}
