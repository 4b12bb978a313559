//! Function name clash when late.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected, RingLate), within = "2s", late)]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
    #[phase(to(Answered))]
    RingLate,
}

fn main() {}
