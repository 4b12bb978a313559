//! Trials of operations and of releases, each in one line of a test.

mod boundaries;
mod release;
mod rollback;

pub use boundaries::{
    Boundaries, BoundaryError, Difference, Effects, End, Life, Trial, crash_at_each_boundary,
    try_crash_at_each_boundary,
};
pub use release::{ReleaseError, Stranded, check_release, try_check_release};
pub use rollback::{OneWay, OneWayReason};
