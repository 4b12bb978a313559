//! A method of a remote object with a parameter.
use fom_patterns::prelude::*;

struct Shop {
    sold: Vec<String>,
}

#[active(remote = "yes", remote)]
impl Shop {
    pub fn sell<T: ToString>(&mut self, what: T) {
        self.sold.push(what.to_string());
    }

    pub fn count<const N: usize>(&self) -> usize {
        self.sold.len() / N
    }
}

fn main() {}
