//! `entry` where nothing ends.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, sync, entry, to(Over))]
    Locate,
    #[phase(end, blocking)]
    Over,
}

fn main() {}
