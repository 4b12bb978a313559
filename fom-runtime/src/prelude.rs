//! What a program needs to declare and run foms.

pub use crate::{
    BlockingCx, Cause, Cx, Failure, FomRef, Handle, Operation, Persistent, Refused, Runtime,
    config::Shutdown,
    context::Reply,
    error::BoxError,
    fom,
    snapshot::Snapshot,
    submission::{Ended, Placement, Priority, Reached},
};
