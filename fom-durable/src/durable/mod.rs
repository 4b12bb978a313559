//! How each transition gets into the journal, and how its entries become foms again.

// It attaches to the runtime in three places: the traits of `fom-runtime/src/fom/durability.rs`, the settings of a builder
// (`Recording`), and a part of each locality (`extension::Part`).
//
// | file | what |
// | --- | --- |
// | `component.rs` | all that durability keeps beside one runtime |
// | `builder.rs` | the settings, and the start |
// | `runtime.rs` | what a program asks a runtime about its journal |
// | `record.rs` | a fom's entry in the journal |
// | `path.rs` | the last phases that a fom has left |
// | `state.rs` | the durable state beside one fom |
// | `step.rs` | how the steps of a fom get into the journal |
// | `answer.rs` | the end of a fom with an operation id |
// | `submit.rs` | submission of an operation that runs once |
// | `committed.rs` | a wait until an operation is on disk |
// | `cx.rs` | the outbox, as a phase function sees it |
// | `prepare.rs` | what is given to an outbox, as entries |
// | `outbox.rs` | what a phase sends when its transition is committed |
// | `message` | events from an outbox or a send, until a fom takes them |
// | `schemas.rs` | the schemas that the journal has |
// | `buffer.rs` | the changes that the foms of one locality want to commit |
// | `committer.rs` | what localities hand over, for one thread that commits with one sync for many foms |
// | `committer/thread.rs` | that thread |
// | `group_commit.rs` | how long to wait before the next sync |
// | `identity.rs` | the entry with the journal's identity and time |
// | `address.rs` | how a program names an operation |
// | `idempotency.rs` | operation ids and the outcomes that are remembered by them |
// | `retained.rs` | the remembered outcomes and ids, with their limits |
// | `outcome.rs` | how operations ended: a program looks one up, or lists them |
// | `ended.rs` | a wait until an operation has ended, by its operation id |
// | `send.rs` | durable sends from outside |
// | `sent.rs` | the ids of durable sends |
// | `uncommitted.rs` | transitions that could not be committed, until they can |
// | `recovery.rs` | recovery after a restart |
// | `types.rs` | the operation types that can come back, and the making of a fom of its entry |
// | `passive.rs` | foms that came back and rest |
// | `gate_recovery.rs` | foms that held a gate before the restart, until each has asked for it again |
// | `quarantine.rs` | entries that are in the journal and cannot run |
// | `dry_run.rs` | a dry run of the recovery |
// | `reading.rs` | reads a journal without the program's types |
// | `division.rs` | divides a journal among several, without the program's types |
// | `error.rs` | the errors of `Quarantine::retry` and `Quarantine::discard` |

mod address;
mod answer;
mod buffer;
mod builder;
mod committed;
mod committer;
mod component;
mod cx;
mod division;
mod dry_run;
mod ended;
mod error;
mod gate_recovery;
mod group_commit;
mod idempotency;
mod identity;
mod message;
mod outbox;
mod outcome;
mod passive;
mod path;
mod prepare;
mod quarantine;
pub mod reading;
mod record;
mod recovery;
mod retained;
mod runtime;
mod schemas;
mod send;
mod sent;
mod state;
mod step;
mod submit;
mod types;
mod uncommitted;

pub use address::Address;
use buffer::{CommitBuffer, Handover};
pub use builder::DurableBuilderExt;
pub use committed::{DurableFomExt, NotCommitted};
use committer::Committer;
use component::Durable;
pub use cx::{DurableCxExt, Outbox, Posting};
pub use division::{Destination, Division, SavedNames, SavedType};
pub use dry_run::JournalCheck;
use dry_run::{check, check_entries};
pub use ended::{End, SavedEnd};
pub use error::{DiscardError, NotExecuted, RetryError};
use gate_recovery::{GateRecovery, held_gate};
use idempotency::{IdempotencyStore, NoAnswer, Open, Place, Remembering, Seen, Stored, Told};
use identity::Head;
use message::{Message, Posted, Receiver, Written, rewrite};
use outbox::{Entry, Item, OutboxItems, Sequence};
pub use outcome::{Lookup, OutcomeInfo, Outcomes};
use passive::Passive;
use path::Path;
use quarantine::QuarantineList;
pub use quarantine::{DeadLetters, Quarantine, Retried};
use record::{Kind, Meta, RecordRare, encode_head};
pub use recovery::RecoveryProgress;
use recovery::recover;
pub use runtime::{DurableExt, DurableInspectExt};
pub use send::{NotSent, NotSentReason, Sent};
use state::{DurableState, Inner};
pub use submit::DurableSubmissionExt;
use types::Types;
use uncommitted::Uncommitted;
