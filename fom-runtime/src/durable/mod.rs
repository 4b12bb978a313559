//! What makes foms survive: how each transition comes into the journal, and how what is there becomes foms again.
//!
//! | file | what |
//! | --- | --- |
//! | `record.rs` | what is kept of a fom: an entry of the journal |
//! | `kept.rs` | what a fom has beside it as long as it is kept |
//! | `commits.rs` | what the foms of one locality want to have committed |
//! | `committer.rs` | the thread that commits for all of them, with one sync for many |
//! | `head.rs` | the entry that says whose journal it is, and the time in it |
//! | `recovery.rs` | the way back after a restart |

mod commits;
mod committer;
mod head;
mod kept;
mod record;
mod recovery;
mod step_key;

pub(crate) use commits::Commits;
pub(crate) use committer::Committer;
pub(crate) use head::{Head, random};
pub(crate) use kept::{Answer, Kept, Then};
pub(crate) use record::{Kind, Meta, encode_fom, entry_of};
pub use recovery::{RecoveryProgress, SetAside};
pub(crate) use recovery::{Types, recover};
pub use step_key::StepKey;
