//! Durability: how each transition gets into the journal, and how its entries become foms again.
//!
//! | file | what |
//! | --- | --- |
//! | `record.rs` | a fom's entry in the journal |
//! | `kept.rs` | the state beside a fom that is kept in a journal |
//! | `outbox.rs` | what a phase sends when its transition is committed |
//! | `message.rs` | events that were sent through an outbox, until a fom takes them |
//! | `schemas.rs` | the schemas that the journal has |
//! | `commits.rs` | the changes that the foms of one locality want to commit |
//! | `committer.rs` | the thread that commits for all localities, with one sync for many foms |
//! | `gather.rs` | how long to wait before the next sync |
//! | `head.rs` | the entry with the journal's identity and time |
//! | `once.rs` | operation ids and the outcomes that are remembered by them |
//! | `stalled.rs` | transitions that could not be committed, until they can |
//! | `recovery.rs` | recovery after a restart |
//! | `dormant.rs` | foms that came back and rest |
//! | `aside.rs` | entries that are in the journal and cannot run |
//! | `check.rs` | a dry run of the recovery |

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
mod schemas;
mod stalled;

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
pub(crate) use record::{Kind, Meta, Rare, codec, encode_head};
pub use recovery::RecoveryProgress;
#[doc(hidden)]
pub use recovery::{Found, Revived};
pub(crate) use recovery::{Types, recover};
pub(crate) use stalled::Stalled;
