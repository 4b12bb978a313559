//! For generated code only. May change in any release.

pub use crate::{__describe as describe, __event_reader as event_reader};
pub use crate::{
    fom::launch::{Asynchronous, Launched, Seed, Synchronous, Unfinished},
    layer::{
        Layer, inner, inner_index, inner_name, is_inside, joined, leads_inside, migrate, own,
        own_failure, own_index, raised,
    },
    operation::{
        AsyncOperation, At, ByDebug, ByDisplay, ByType, Describe, Described, Entry, EventReader,
        Events, Loaded, MaybeCodec, Readable, Resumed, Stepped, SyncOperation, Unreadable, codec,
        go, stay, to,
    },
    runtime::{Registered, Restorer, Revival, Revived, registered},
    snapshot::{Encoded, Fields, Migration, Values},
};
pub use inventory::submit;
