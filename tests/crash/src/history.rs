//! The history has one line for each thing that happened, in a file outside the journal. Each line is one `write`. A
//! process killed after the write leaves the line whole. A process killed during it leaves a line without its end,
//! which is not counted.
//!
//! Each line begins with the time in microseconds since the machine started; that clock continues across kills. Where
//! there is an operation type, the line has its letter.
//!
//! | line | what |
//! | --- | --- |
//! | `L life orders` | the parent starts a child |
//! | `S n letter once` | the user is about to submit operation `n` |
//! | `T n letter fom hops from to cause key locality outcome` | a listener heard of a transition; `key` is the series, if there is one |
//! | `E n fom hops phase attempt step-key` | a phase function did something |
//! | `P n fom event step-key` | a phase function paid for an event |
//! | `K n event how` | a durable send of this event returned: it is sent `now`, or was sent `before` |
//! | `F n outcome` | a lookup found this outcome, `in-flight` or `unknown` |
//! | `H n outcome` | a handle was told the outcome |
//! | `G n lock mode` | a phase function begins, and has this lock |
//! | `V n lock mode`, `U n lock mode` | it is about to return; the next phase also has the lock (`V`), or not (`U`) |
//! | `W n`, `D n` | a phase with a deadline works (`W`); the deadline has passed (`D`) |
//! | `C`, `c` | the journal begins to commit; it has committed |
//! | `O`, `c` | the same, with changes of failed commits only |
//! | `R foms` | this many foms came back |
//! | `B n series` | the user was told that the operation of this series is on disk, maybe before it has begun |
//! | `M fom`, `N fom` | the user tries a failed operation again (`M`); the retry is refused (`N`) |
//! | `Q count foms..` | a new life found these failed operations |
//! | `A fom why` | this fom was quarantined, as expected |
//! | `! point` | the child kills itself here |
//! | `X what` | something that must never happen |
//! | `Z` | nothing is in flight |

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The end of each line.
const END: &str = " ;";

/// Returns the uptime of the machine, a clock that all processes share.
pub(crate) fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a system call that writes into the memory it is given, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    // The clock counts from zero, and nanoseconds are below a second.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Writes lines, one at a time: not every file system appends as one step.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<Mutex<File>>);

impl History {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(bytes)
    }

    /// Writes a line. A process that cannot write has nothing to tell a checker, and must not continue.
    pub(crate) fn line(&self, line: fmt::Arguments<'_>) {
        let line = format!("{} {line}{END}\n", now().as_micros());
        if let Err(error) = self.write(line.as_bytes()) {
            eprintln!("the history cannot be written: {error}");
            std::process::exit(3);
        }
    }

    /// Ends a line that a killed child may have begun.
    pub(crate) fn break_line(&self) -> io::Result<()> {
        self.write(b"\n")
    }
}

/// Returns the time of a line in microseconds, and the line without its time and end. Returns `None` for a line without
/// its end.
pub(crate) fn whole(line: &str) -> Option<(u64, &str)> {
    let (time, line) = line.strip_suffix(END)?.split_once(' ')?;
    Some((time.parse().ok()?, line))
}
