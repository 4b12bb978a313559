//! Order per key: which foms have a key, and which wait for it.

mod choose;
mod entry;
mod policy;
mod room;
mod suspend;

pub(super) use entry::{Absent, Entry, Place, Turned};
pub use policy::Joined;
pub(super) use room::HeldRoom;
pub use room::WhenRoom;
pub use suspend::SuspendedKey;
pub(super) use suspend::bar_if_stuck;
