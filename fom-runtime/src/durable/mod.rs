//! Durability: how each transition gets into the journal, and how its entries become foms again.
//!
//! | file | what |
//! | --- | --- |
//! | `record.rs` | a fom's entry in the journal |
//! | `state.rs` | the state beside a fom that is kept in a journal |
//! | `outbox.rs` | what a phase sends when its transition is committed |
//! | `message.rs` | events that were sent through an outbox, until a fom takes them |
//! | `schemas.rs` | the schemas that the journal has |
//! | `buffer.rs` | the changes that the foms of one locality want to commit |
//! | `committer.rs` | the thread that commits for all localities, with one sync for many foms |
//! | `group_commit.rs` | how long to wait before the next sync |
//! | `identity.rs` | the entry with the journal's identity and time |
//! | `idempotency.rs` | operation ids and the outcomes that are remembered by them |
//! | `uncommitted.rs` | transitions that could not be committed, until they can |
//! | `recovery.rs` | recovery after a restart |
//! | `passive.rs` | foms that came back and rest |
//! | `quarantine.rs` | entries that are in the journal and cannot run |
//! | `dry_run.rs` | a dry run of the recovery |

mod buffer;
mod committer;
mod dry_run;
mod group_commit;
mod idempotency;
mod identity;
mod message;
mod outbox;
mod passive;
mod quarantine;
mod record;
mod recovery;
mod schemas;
mod state;
mod uncommitted;

pub(crate) use buffer::{CommitBuffer, Part};
pub(crate) use committer::Committer;
pub use dry_run::JournalCheck;
#[doc(hidden)]
pub use dry_run::KeptBody;
pub(crate) use dry_run::{check, check_entries};
pub(crate) use idempotency::{
    IdempotencyStore, NoAnswer, Open, OperationId, Place, Seen, Stored, Told,
};
pub(crate) use identity::{Head, random};
#[doc(hidden)]
pub use message::Event;
pub(crate) use message::{Message, Posted, Written, rewrite};
pub(crate) use outbox::{Entry, Item, Outbox, Sequence};
pub(crate) use passive::Passive;
pub(crate) use quarantine::Quarantine;
pub use quarantine::SetAside;
pub(crate) use record::{ColdRare, Kind, Meta, codec, encode_head};
pub use recovery::RecoveryProgress;
#[doc(hidden)]
pub use recovery::{Found, Revived};
pub(crate) use recovery::{Types, recover};
pub(crate) use state::{Answer, DurableState, Inner, Then};
pub(crate) use uncommitted::Uncommitted;
