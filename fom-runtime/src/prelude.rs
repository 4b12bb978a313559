//! What a program needs to declare and run foms.

pub use crate::durable::{
    DurableBuilderExt as _, DurableCxExt as _, DurableExt as _, DurableSubmissionExt as _,
};
pub use crate::{
    BlockingCx, BoxError, Cause, Cx, Ended, Failure, FomRef, Handle, Operation, Persistent,
    Placement, Priority, Reached, Refused, Reply, Runtime, Shutdown, Snapshot, fom,
};
