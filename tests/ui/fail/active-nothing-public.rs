//! Nothing to call.
use fom_patterns::prelude::*;

struct Shop;

#[active]
impl Shop {
    pub fn new() -> Self {
        Shop
    }
    fn sell(&mut self) -> u64 {
        1
    }
}

fn main() {
    Shop::new().sell();
}
