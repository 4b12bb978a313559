//! Events that were sent through an outbox, or durably from outside.
//!
//! | file | what |
//! | --- | --- |
//! | `entry.rs` | the entry of an event in the journal |
//! | `delivery.rs` | the delivery to a fom, which may not be back yet |
//! | `undelivered.rs` | events that no fom takes |

mod delivery;
mod entry;
mod undelivered;

pub(super) use delivery::{Receiver, is_of};
pub(super) use entry::{Message, Posted, Written, rewrite};
pub(super) use undelivered::Undelivered;
