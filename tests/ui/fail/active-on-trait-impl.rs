//! An `impl` of a trait.
use fom_patterns::prelude::*;

struct Shop;

trait Sells {
    fn sell(&mut self) -> u64;
}

#[active]
impl Sells for Shop {
    fn sell(&mut self) -> u64 {
        1
    }
}

fn main() {
    Shop.sell();
}
