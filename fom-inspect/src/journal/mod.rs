//! The journal and its quarantine, for programs that have them.

#[cfg(feature = "durable")]
mod durable;
#[cfg(not(feature = "durable"))]
mod none;

#[cfg(feature = "durable")]
pub(crate) use durable::{bytes, data, discard, list, quarantined, retry, written};
#[cfg(not(feature = "durable"))]
pub(crate) use none::{bytes, data, discard, list, quarantined, retry, written};
