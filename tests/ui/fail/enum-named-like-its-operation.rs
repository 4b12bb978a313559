//! An enum with the name of its operation.
use fom_runtime::prelude::*;

struct Call {
    caller: u32,
}

#[fom(operation(Call), transient)]
enum Call {
    #[phase(start, to(Answered, Rejected))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl CallTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<CallAfterRing, BoxError> {
        Ok(match self.caller {
            0 => CallAfterRing::Rejected { status: 404 },
            _ => CallAfterRing::Answered,
        })
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call { caller: 1 });
}
