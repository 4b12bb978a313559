//! Order per key: who has a key, and who waits for it.

mod entry;
mod policy;

pub(super) use entry::{Entry, Place, Turned};
pub use policy::Joined;
pub(super) use policy::{Full, Order};
