//! Keys: which foms have a key of an operation type, and which wait for it.
//!
//! - `index` has the keys of a runtime, under their locks. It wakes foms that are given a key.
//! - `table` has the names in parts, found by their hashes.
//! - `entry` is one key and the foms that have it; `line` and `waiting` have the foms that wait for it, and their
//!   order over a crash.
//! - `claim` gives a new fom its key, or refuses it.
//! - `choose` has the choices of a submission, `places` its wait for a place in a full queue.
//! - `suspend` keeps a key from the next fom.
//!
//! What a fom knows of its key is in `fom/key_wait.rs`.

mod choose;
mod claim;
mod entry;
mod index;
mod line;
mod places;
mod suspend;
mod table;
mod waiting;

pub use choose::Joined;
pub use claim::KeyClaim;
pub(super) use claim::{Names, enter};
use entry::{Denied, Entry, Place};
pub use index::Announced;
pub(super) use index::KeyIndex;
use line::{Absent, Line};
pub use suspend::SuspendedKey;
pub(super) use suspend::bar_if_stuck;
pub(super) use table::Hashed;
