//! The same with a handle's functions.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().build()?;
    runtime.submit(Call).wait()?;
    Ok(())
}
