//! Stay as exit.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
    Bye,
}

#[fom(operation(Call), transient, event(Signal))]
enum Route {
    #[phase(start, sync, on(Ack, Bye), to(Ring, Stay))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
    #[phase(end)]
    Stay,
}

fn main() {}
