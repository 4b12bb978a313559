//! Kills a program that runs foms, again and again, and restarts it on the same journal each time. Checks the restored
//! foms against what listeners and handles were told, and against the effects.
//!
//! | file | what |
//! | --- | --- |
//! | `work/` | the operations of the child, and the outcome that each must have |
//! | `load.rs`, `feeders.rs`, `senders.rs` | the users that submit them, send them events and look them up |
//! | `child.rs` | the child: a runtime under load, until it is killed |
//! | `orders.rs` | the orders of the parent to a child |
//! | `points.rs` | the kill points inside the child |
//! | `means.rs` | how a life ends: by a kill or a cut of the power, also with a disk that fails or is full |
//! | `faults.rs` | the other faults of its disk |
//! | `power.rs` | its disk in a power cut |
//! | `missing.rs` | copies of the journal that lack a file |
//! | `journals.rs` | the wrappers around the journal in files: with kill points, or broken on purpose |
//! | `history.rs` | what happened, in a file beside the journal |
//! | `checker/` | the rules for the history |
//! | `runner.rs` | the parent: kills, restarts, reads along |

mod checker;
mod child;
mod faults;
mod feeders;
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "it is shared with the tests of the journal"
)]
#[path = "../../../fom-journal/tests/store/kit/forgetful.rs"]
mod forgetful;
mod history;
mod journals;
mod load;
mod means;
mod missing;
mod orders;
mod points;
mod power;
mod random;
mod runner;
mod senders;
mod work;

/// The number of failed operations that the child keeps in quarantine.
const KEPT: usize = 200;

pub use checker::{Checker, Counts, Violation};
pub use child::child;
pub use journals::Broken;
pub use means::Means;
pub use missing::Missing;
pub use points::Point;
pub use runner::{Options, Report, run};
pub use work::is_shared as shares;
