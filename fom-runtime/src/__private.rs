//! For generated code only; may change in any release.

pub use crate::{
    fom::{Launched, Seed},
    operation::{AsyncOperation, Entry, Next, Stepped, SyncOperation},
    snapshot::Fields,
};
