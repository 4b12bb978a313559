//! What makes foms survive: how each transition comes into the journal, and how what is there becomes foms again.
//!
//! | file | what |
//! | --- | --- |
//! | `record.rs` | what is kept of a fom: an entry of the journal |
//! | `kept.rs` | what a fom has beside it as long as it is kept |
//! | `outbox.rs` | what a phase wants to have sent when its transition is committed |
//! | `message.rs` | events that were sent through an outbox, until they are taken |
//! | `schemas.rs` | which schemas the journal has |
//! | `commits.rs` | what the foms of one locality want to have committed |
//! | `committer.rs` | the thread that commits for all of them, with one sync for many |
//! | `gather.rs` | how long it is worth waiting before the next sync |
//! | `head.rs` | the entry that says whose journal it is, and the time in it |
//! | `once.rs` | operation ids, and the outcomes that are remembered by them |
//! | `stalled.rs` | transitions that could not be committed, until they can |
//! | `recovery.rs` | the way back after a restart |
//! | `dormant.rs` | foms that came back and rest |
//! | `relock.rs` | foms that held long locks, until they have asked for them again |
//! | `aside.rs` | what is in the journal and cannot run |
//! | `check.rs` | what would come back, without doing it |

mod aside;
mod check;
mod commits;
mod committer;
mod dormant;
mod gather;
mod head;
mod kept;
mod message;
mod once;
mod outbox;
mod record;
mod recovery;
mod relock;
mod schemas;
mod stalled;
mod step_key;

pub(crate) use aside::Asides;
pub use aside::SetAside;
pub use check::JournalCheck;
#[doc(hidden)]
pub use check::KeptBody;
pub(crate) use check::{check, check_entries};
pub(crate) use commits::{Commits, Part};
pub(crate) use committer::Committer;
pub(crate) use dormant::Dormant;
pub(crate) use head::{Head, random};
pub(crate) use kept::{Answer, Inner, Kept, Then};
#[doc(hidden)]
pub use message::Event;
pub(crate) use message::{Message, Posted, Written, rewrite};
pub(crate) use once::{Memory, NoAnswer, Once, Open, Place, Seen, Stored, Told};
pub(crate) use outbox::{Entry, Item, Outbox, Sequence};
pub(crate) use record::{Kind, Meta, Rare, codec, encode_head, entry_of};
pub use recovery::RecoveryProgress;
#[doc(hidden)]
pub use recovery::{Found, Revived};
pub(crate) use recovery::{Types, recover};
pub(crate) use relock::{Relock, held_locks};
pub(crate) use stalled::Stalled;
pub(crate) use step_key::EventId;
pub use step_key::StepKey;
