//! For generated code only; may change in any release.

pub use crate::{
    fom::launch::{Asynchronous, Launched, Seed, Synchronous, Unfinished},
    operation::{
        AsyncOperation, At, Entry, Loaded, MaybeCodec, Next, Stepped, SyncOperation, codec, go,
        stay, to,
    },
    snapshot::Fields,
};
