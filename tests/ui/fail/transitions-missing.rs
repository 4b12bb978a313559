//! Transitions missing.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
