//! The attribute on something else.
use fom_runtime::prelude::*;

#[active]
struct Shop;

fn main() {}
