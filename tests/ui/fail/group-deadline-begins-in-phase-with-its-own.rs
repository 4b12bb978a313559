//! A group with a deadline begins in a phase that has a time limit of its own.
use fom_runtime::prelude::*;

struct Order;

#[fom(
    operation(Order),
    transient,
    group(Saga, phases(Reserve, Charge), within = "10m")
)]
enum Selling {
    #[phase(start, sync, to(Reserve))]
    Open,
    #[phase(to(Charge), within = "2s")]
    Reserve,
    #[phase(to(Done), within = "2s")]
    Charge,
    #[phase(end)]
    Done,
}

fn main() {}
