//! Where the files go.

use std::path::PathBuf;

/// The files with the recorder.
///
/// At most one file is written within a second, and the last 16 files of a runtime are kept. Their names begin with `flight-`.
///
/// ```
/// use fom_recorder::Dumps;
///
/// let dumps = Dumps::to("/var/lib/orders/flight").at_abort();
/// # let _ = dumps;
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings do nothing by themselves"]
pub struct Dumps {
    pub(crate) directory: PathBuf,
    pub(crate) at_abort: bool,
}

impl Dumps {
    /// Writes the files to this directory. The directory is made if it does not exist.
    pub fn to(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            at_abort: false,
        }
    }

    /// Also writes a file when the process aborts: by `std::process::abort`, by a panic in a `Drop` during another panic, or by
    /// the signal `SIGABRT`. Default: no.
    ///
    /// This installs a handler of the signal for the whole process. The handler waits at most two seconds for the file. Then
    /// it does what the process did with the signal before. On systems without signals, the build fails.
    pub fn at_abort(mut self) -> Self {
        self.at_abort = true;
        self
    }
}
