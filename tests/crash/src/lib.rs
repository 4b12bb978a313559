//! Kills a program that runs foms, again and again, starts it on the same journal each time, and checks what its listeners and
//! handles were told and what its effects did against what comes back.
//!
//! | file | what |
//! | --- | --- |
//! | `work.rs` | the operations of the child |
//! | `child.rs` | the child: a runtime under load, until it is killed |
//! | `points.rs` | where it can be killed from inside |
//! | `journals.rs` | the journal around the one in files: with kill points, or broken on purpose |
//! | `history.rs` | what happened, in a file beside the journal |
//! | `checker.rs` | what must hold in it |
//! | `runner.rs` | the parent: kills, starts again, reads along |

mod checker;
mod child;
mod history;
mod journals;
mod points;
mod runner;
mod work;

pub use checker::{Checker, Counts, Violation};
pub use child::child;
pub use journals::Broken;
pub use points::Point;
pub use runner::{Options, Report, run};
