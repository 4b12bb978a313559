//! A guard reads the arguments, and does not take them.
use fom_patterns::prelude::*;

struct Shop;

fn fits(name: String) -> bool {
    name.len() > 3
}

#[active]
impl Shop {
    #[when(fits(name))]
    pub fn sell(&mut self, name: String) -> usize {
        name.len()
    }
}

fn main() {}
