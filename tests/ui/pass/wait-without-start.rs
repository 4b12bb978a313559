//! A submission can be waited for without `start`, as it can be awaited.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, sync, to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().localities(1).build()?;
    let ended = runtime.submit(Call).wait()?;
    assert!(matches!(ended.end, RouteEnd::Answered));
    Ok(())
}
