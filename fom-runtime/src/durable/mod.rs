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
//! | `relock.rs` | foms that held long locks, until they have asked for them again |
//! | `aside.rs` | entries that are in the journal and cannot run |
//! | `check.rs` | a dry run of the recovery |

mod quarantine;
mod dry_run;
mod buffer;
mod committer;
mod passive;
mod group_commit;
mod identity;
mod state;
mod message;
mod idempotency;
mod outbox;
mod record;
mod recovery;
mod lock_recovery;
mod schemas;
mod uncommitted;

pub(crate) use quarantine::Quarantine;
pub use quarantine::SetAside;
pub use dry_run::JournalCheck;
#[doc(hidden)]
pub use dry_run::KeptBody;
pub(crate) use dry_run::{check, check_entries};
pub(crate) use buffer::{CommitBuffer, Part};
pub(crate) use committer::Committer;
pub(crate) use passive::Passive;
pub(crate) use identity::{Head, random};
pub(crate) use state::{Answer, Inner, DurableState, Then};
#[doc(hidden)]
pub use message::Event;
pub(crate) use message::{Message, Posted, Written, rewrite};
pub(crate) use idempotency::{IdempotencyStore, NoAnswer, OperationId, Open, Place, Seen, Stored, Told};
pub(crate) use outbox::{Entry, Item, Outbox, Sequence};
pub(crate) use record::{Kind, Meta, ColdRare, codec, encode_head};
pub use recovery::RecoveryProgress;
#[doc(hidden)]
pub use recovery::{Found, Revived};
pub(crate) use recovery::{Types, recover};
pub(crate) use lock_recovery::{LockRecovery, held_locks};
pub(crate) use uncommitted::Uncommitted;
