//! For generated code only. May change in any release.

pub use crate::{__describe as describe, __event_reader as event_reader};
pub use crate::{
    cx::{context, failure},
    fom::{Entry, RunningFom},
    graph::Deadline,
    layer::{
        Layer, inner, inner_index, inner_name, is_inside, joined, layered_kind_at, leads_inside,
        migrate, own, own_failure, own_index, raised,
    },
    operation::{
        AsyncOperation, Asynchronous, At, ByBox, ByDebug, ByDisplay, ByError, ByType, Describe,
        Described, EventReader, Events, Loaded, MaybeCodec, OwnTypes, Readable, Resumed, Stepped,
        SyncOperation, Synchronous, Told, Types, Unfinished, Unreadable, codec, gate, go, holds,
        stay, take_data, to,
    },
    runtime::{Machine, Registered, Restorer, Revival, Revived, registered},
    snapshot::{Encoded, Fields, Migration, Values, at},
};
pub use inventory::submit;
