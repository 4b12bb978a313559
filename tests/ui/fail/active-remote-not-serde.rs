//! Calls of a remote object that cannot be sent.
use fom_patterns::prelude::*;

#[derive(Debug)]
struct Item;

struct Shop {
    sold: Vec<Item>,
}

#[active(remote)]
impl Shop {
    pub fn sell(&mut self, item: Item) -> usize {
        self.sold.push(item);
        self.sold.len()
    }

    pub fn last(&mut self) -> Option<Item> {
        self.sold.pop()
    }
}

fn main() {}
