//! Lifetime on enum.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route<'a> {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: &'a u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

fn main() {}
