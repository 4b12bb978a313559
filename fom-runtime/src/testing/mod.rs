//! For the tests of those who write operations.

mod boundaries;

pub use boundaries::{
    Boundaries, BoundaryError, Difference, Effects, End, Life, Trial, crash_at_each_boundary,
    try_crash_at_each_boundary,
};
