//! An object whose calls stay in the process is called from elsewhere.
use fom_patterns::{
    active::{Carrier, Forwarding},
    prelude::*,
};

struct Shop;

#[active]
impl Shop {
    pub fn sell(&mut self) {}
}

fn elsewhere(runtime: &Runtime, carrier: impl Carrier) {
    let _ = Forwarding::<Shop>::new("the shop", carrier).start(runtime);
}

fn main() {}
