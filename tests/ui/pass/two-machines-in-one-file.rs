//! The same phase names twice.
use fom_runtime::prelude::*;

struct Call;

struct Mail;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Deliver, Failed))]
    Locate,
    #[phase(to(Done))]
    Deliver,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Failed,
}

#[fom(operation(Mail), transient)]
enum Post {
    #[phase(start, to(Deliver, Failed))]
    Locate,
    #[phase(to(Done), sync)]
    Deliver,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Failed,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Deliver)
    }
    async fn deliver(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

impl PostTransitions for Mail {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<PostAfterLocate, BoxError> {
        Ok(PostAfterLocate::Failed)
    }
    fn deliver(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    assert_eq!(Call::index(RouteKind::Done), Mail::index(PostKind::Done));
}
