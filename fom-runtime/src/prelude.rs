//! What a program needs to declare and run foms.

pub use crate::durable::{
    DurableBuilderExt as _, DurableCxExt as _, DurableExt as _, DurableSubmissionExt as _,
};
pub use crate::{
    BlockingCx, Cause, Cx, Failure, FomRef, Handle, Operation, Persistent, Refused, Runtime,
    config::Shutdown,
    context::Reply,
    error::BoxError,
    fom,
    snapshot::Snapshot,
    submission::{Ended, Placement, Priority, Reached},
};
