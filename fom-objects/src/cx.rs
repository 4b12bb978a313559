//! What the maker of an object knows.

use fom_runtime::{Key, Runtime};

/// What the maker of an object knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectCx {
    /// The key of the object.
    pub key: Key,
    /// The runtime of the slot. It ends when the slot moves. This handle does not keep it alive.
    pub runtime: Runtime,
    /// The term of the slot: a fencing token for what the object does outside of the process. The next object of the key has a greater one if
    /// another node makes it.
    pub term: u64,
}
