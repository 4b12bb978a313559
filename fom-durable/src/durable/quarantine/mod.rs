//! Entries that are in the journal and do not run.
//!
//! | file | what |
//! | --- | --- |
//! | `list.rs` | all entries in memory, with their reasons and bytes |
//! | `failed.rs` | operations that failed, and how they are tried again |
//! | `handle.rs` | what a program does with the entries |

mod failed;
mod handle;
mod list;

pub(super) use failed::{events_of_failed, failure_and_record, saved_record};
pub use handle::{Quarantine, Retried};
pub use list::DeadLetters;
pub(super) use list::{
    QuarantineList, Stays, give_place_up, has_no_receiver, is_event, is_of, keep_place, listed,
};
