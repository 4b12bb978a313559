//! Kills a program that runs foms, again and again, starts it on the same journal each time, and checks what its listeners and
//! handles were told and what its effects did against what comes back.
//!
//! | file | what |
//! | --- | --- |
//! | `work/` | the operations of the child, and what each must come to |
//! | `load.rs`, `feeders.rs` | the users that submit them |
//! | `child.rs` | the child: a runtime under load, until it is killed |
//! | `orders.rs` | what the parent tells it |
//! | `points.rs` | where it can be killed from inside |
//! | `means.rs` | how a life ends: by a kill or a cut of the power, also with a disk that fails or is full |
//! | `faults.rs` | what goes wrong with its disk besides |
//! | `power.rs` | its disk, when the power fails |
//! | `missing.rs` | copies of the journal that lack a file |
//! | `journals.rs` | the journal around the one in files: with kill points, or broken on purpose |
//! | `history.rs` | what happened, in a file beside the journal |
//! | `checker/` | what must hold in it |
//! | `runner.rs` | the parent: kills, starts again, reads along |

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
mod work;

pub use checker::{Checker, Counts, Violation};
pub use child::child;
pub use journals::Broken;
pub use means::Means;
pub use missing::Missing;
pub use points::Point;
pub use runner::{Options, Report, run};
pub use work::is_shared as shares;
