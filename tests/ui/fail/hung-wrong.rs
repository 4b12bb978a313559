//! Limits of hung foms that are no durations, and one of an end.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, hung = "nevr", to(Ring))]
    Locate,
    #[phase(hung = "5 minutes", to(Talk))]
    Ring,
    #[phase(hung, to(Record))]
    Talk,
    #[phase(hung = "off", to(Answered))]
    Record,
    #[phase(end, hung = "1s")]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn talk(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn record(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
