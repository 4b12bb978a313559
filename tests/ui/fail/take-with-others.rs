//! `take` beside keys and exits that need the data again.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Bye,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, take, to(Ring))]
    Locate,
    #[phase(take, to(Talk, Ring), retry = "2, 1s..1s", within = "5s", late, failed(Over))]
    Ring { callee: String },
    #[phase(sync, take, on(Bye), to(Over))]
    Talk { callee: String },
    #[phase(end, take)]
    Over,
}

fn main() {}
