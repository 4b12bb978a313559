//! What happened, one line each, in a file that is no part of the journal. A line is one `write`, so that a process that is
//! killed after it leaves it whole; one that it is killed in is seen by its missing end and is not counted.
//!
//! | line | what |
//! | --- | --- |
//! | `L life how` | a child was started; by the parent |
//! | `S n machine once` | operation `n` is going to be submitted |
//! | `T n fom hops from to cause key outcome` | a listener heard of a transition |
//! | `E n fom hops phase attempt step-key` | a phase function did something |
//! | `H n outcome` | a handle was told the outcome |
//! | `R foms` | so many foms came back |
//! | `! point` | the child kills itself here |
//! | `X what` | what must never be |
//! | `Z` | nothing is in flight any more |

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::Arc,
};

/// The end of each line.
const END: &str = " ;";

/// Writes lines.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<File>);

impl History {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(file)))
    }

    /// Writes a line. Whoever cannot has nothing to say to a checker, and must not go on as if it had.
    pub(crate) fn line(&self, line: fmt::Arguments<'_>) {
        let line = format!("{line}{END}\n");
        if let Err(error) = (&*self.0).write_all(line.as_bytes()) {
            eprintln!("the history cannot be written: {error}");
            std::process::exit(3);
        }
    }

    /// Ends a line that a killed child may have begun.
    pub(crate) fn break_line(&self) -> io::Result<()> {
        (&*self.0).write_all(b"\n")
    }
}

/// The line without its end; none for one that was not ended.
pub(crate) fn whole(line: &str) -> Option<&str> {
    line.strip_suffix(END)
}
