//! For generated code only. May change in any release.

pub use crate::{__describe as describe, __event_reader as event_reader};
pub use crate::{
    durable::{Event, Found, KeptBody, Revived},
    fom::launch::{Asynchronous, Launched, Seed, Synchronous, Unfinished},
    layer::{
        Layer, inner, inner_index, inner_name, is_inside, joined, leads_inside, migrate, own,
        own_failure, own_index, raised,
    },
    operation::{
        AsyncOperation, At, ByDebug, ByDisplay, ByType, Describe, Described, Entry, EventReader,
        Events, Loaded, MaybeCodec, Next, Readable, Registered, Restorer, Resumed, Stepped,
        SyncOperation, Unreadable, codec, gate, go, registered, stay, to,
    },
    snapshot::{Fields, Migration, Values},
};
pub use inventory::submit;
