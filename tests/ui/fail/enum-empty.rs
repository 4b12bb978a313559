//! Enum empty.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
