//! The seam for the package `fom-durable`, its one user. It may change in any release.
//!
//! The runtime calls `fom-durable` through the traits of `fom/durability.rs`, and through
//! [`Recording`](crate::runtime::Recording) when it is built. This module has these traits with the types in them, and
//! a function for each fact of the runtime that `fom-durable` needs. The types are opaque: `fom-durable` uses only what
//! is public here.
//!
//! | file | functions about |
//! | --- | --- |
//! | `shared.rs` | a runtime: its clock, its recorder, its keys, its threads |
//! | `local.rs` | the inside of a locality |
//! | `foms.rs` | one fom: its outbox, its gate, its state beside it |
//! | `submissions.rs` | submissions from an outbox, and those with an operation id |
//! | `saved.rs` | saved foms as bytes |
//! | `trials.rs` | what `crash_at_each_boundary` needs of a runtime |

mod foms;
mod local;
mod saved;
mod shared;
mod submissions;
mod trials;

pub use crate::{
    attempt::Tried,
    fom::{
        AnyRef, Function, Header, KeptValues, Order, Recorder, Resident, Then, TurnWait,
        durability::{
            Answer, Content, DurableFom, Effects, End, FailedAs, FomRecord, KeptFailed, KeptFom,
            KeptStep, LastStep, NewRecord, SavedTiming, Written,
        },
        hand::regain_leaked,
    },
    id::KeyOf,
    key_encoding::{PAIR, TEXT, put_key, put_varint, take_key, take_varint},
    locality::{Home, enqueue},
    operation::EventReader,
    runtime::{
        Announced, JoinedOutcome, KeyClaim, Recorded, Recording, Registered, Restorer, Revival,
        RevivedHome, RevivedVisit, Shared, registered,
    },
    snapshot::{
        body::{SavedValues, values_of},
        encoding::{encode, leading},
        schema::{Schema, fingerprint, phase_of, phases_of},
    },
    step_key::{EventId, random},
    typed::{AtEnd, Outcome},
};
pub use foms::*;
pub use local::*;
pub use saved::*;
pub use shared::*;
pub use submissions::*;
pub use trials::*;
