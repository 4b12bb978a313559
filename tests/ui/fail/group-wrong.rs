//! Groups with mistakes in them.
use fom_runtime::prelude::*;

struct Order;

#[fom(
    operation(Order),
    transient,
    group(Saga, phases(Reserv, Charge, Done), failed(Refnd)),
    group(phases(Charge)),
    group(Empty, failed(Refund)),
    group(Nothing, phases(Charge)),
    group(Wordy, phases(Charge), timeout = "1s", cancelled)
)]
enum Selling {
    #[phase(start, sync, to(Charge))]
    Reserve,
    #[phase(sync, to(Done))]
    Charge,
    #[phase(sync, to(Done))]
    Refund,
    #[phase(end)]
    Done,
}

fn main() {}
