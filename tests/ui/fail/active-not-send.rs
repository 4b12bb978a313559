//! A request contains only values that can go to another thread.
use fom_patterns::prelude::*;
use std::rc::Rc;

struct Shop;

#[active]
impl Shop {
    pub fn sell(&mut self, what: Rc<u64>) -> u64 {
        *what
    }
}

fn main() {}
