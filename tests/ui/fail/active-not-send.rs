//! What cannot go to another thread is in no request.
use fom_runtime::prelude::*;
use std::rc::Rc;

struct Shop;

#[active]
impl Shop {
    pub fn sell(&mut self, what: Rc<u64>) -> u64 {
        *what
    }
}

fn main() {}
