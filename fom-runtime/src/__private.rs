//! For generated code only; may change in any release.

pub use crate::{
    durable::{Found, Revived},
    fom::launch::{Asynchronous, Launched, Seed, Synchronous, Unfinished},
    operation::{
        AsyncOperation, At, Entry, Loaded, MaybeCodec, Next, Registered, Restorer, Resumed,
        Stepped, SyncOperation, codec, go, registered, stay, to,
    },
    snapshot::{Fields, Migration, Values},
};
pub use inventory::submit;
