//! The attribute on something else.
use fom_patterns::prelude::*;

#[active]
struct Shop;

fn main() {}
