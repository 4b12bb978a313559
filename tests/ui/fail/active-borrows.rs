//! An object that borrows.
use fom_patterns::prelude::*;

struct Shop<'a> {
    name: &'a str,
}

#[active]
impl<'a> Shop<'a> {
    pub fn name(&self) -> usize {
        self.name.len()
    }
}

fn main() {}
