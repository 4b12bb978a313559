//! A SIP session router.

fn main() {}
