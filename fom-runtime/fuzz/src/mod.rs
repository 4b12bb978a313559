//! The fuzz targets. Arbitrary bytes give a value or a typed error, without a panic, and without more memory than they
//! justify.
//!
//! A checksum rejects random bytes, but an adversary can compute it. So each target corrects the checksums if its first
//! byte says so.

pub mod archive;
mod disk;
mod journal;
mod memory;
mod record;
mod restart;
pub mod seeds;
mod shop;
mod snapshot;

pub use self::{
    journal::{is_opened, journal},
    record::record,
    restart::restart,
    snapshot::snapshot,
};
