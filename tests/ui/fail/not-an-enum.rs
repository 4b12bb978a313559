//! Not an enum.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
struct Route {
    locate: u32,
}

fn main() {}
