//! The address of a part does not become that of a part of a longer lifetime: one would write what the other reads.

use fom_runtime::extension::{Part, PartId};

struct Calls<F>(F);

impl<F: Send + 'static> Part for Calls<F> {}

fn longer(id: PartId<Calls<for<'a> fn(&'a str)>>) -> PartId<Calls<fn(&'static str)>> {
    id
}

fn main() {
    let _ = longer;
}
