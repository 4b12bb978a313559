//! A guard changes nothing.
use fom_patterns::prelude::*;

struct Shop {
    asked: u64,
}

#[active]
impl Shop {
    #[when({ self.asked += 1; self.asked > 2 })]
    pub fn sell(&mut self) -> u64 {
        self.asked
    }
}

fn main() {}
