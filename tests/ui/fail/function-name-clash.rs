//! Function name clash.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected, Ring1, Ring_1))]
    Locate,
    #[phase(to(Ring2, Answered))]
    Ring1,
    #[phase(to(Answered))]
    Ring_1,
    #[phase(to(Ring1))]
    Ring2,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

fn main() {}
