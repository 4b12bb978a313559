//! The files with the recorder.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use fom_runtime::{
    Runtime,
    observe::{FlightRecording, IncidentKind},
};

use crate::trace;

/// The most files that are kept. The oldest are removed first.
const MOST: usize = 16;

/// The files of all runtimes of the process, which number them: two runtimes may share a directory.
static FILES: AtomicU64 = AtomicU64::new(0);

/// The files of one runtime.
pub(crate) struct Files {
    directory: PathBuf,
    /// The files that were written, the oldest first.
    written: VecDeque<PathBuf>,
}

impl Files {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            written: VecDeque::new(),
        }
    }

    /// Writes a file with what the runtime has recorded, and reports it.
    pub(crate) fn write(&mut self, runtime: &Runtime, why: &str) {
        let (path, written) = write(&self.directory, runtime, why);
        let path_shown = path.display();
        let (kind, text) = match written {
            Ok(()) => {
                let text = format!("{why}; the flight recorder is in {path_shown}");
                (IncidentKind::Recorded, text)
            }
            Err(error) => {
                let text = format!(
                    "the flight recorder was not written to {path_shown}: {error}; check the directory of `Dumps::to`"
                );
                (IncidentKind::Machine, text)
            }
        };
        runtime.report(kind, "the flight recorder", text);
        if kind == IncidentKind::Recorded {
            self.keep(path);
        }
    }

    /// Keeps this file, and removes the oldest one if there are too many.
    fn keep(&mut self, path: PathBuf) {
        self.written.push_back(path);
        if self.written.len() > MOST
            && let Some(oldest) = self.written.pop_front()
        {
            // The user may have moved the file.
            let _ = fs::remove_file(oldest);
        }
    }
}

/// Writes the next file. Returns its path.
pub(crate) fn write(directory: &Path, runtime: &Runtime, why: &str) -> (PathBuf, io::Result<()>) {
    let recording = runtime.inspect().recording();
    let path = path(directory, recording.at);
    let written = write_to(&path, &recording, why);
    (path, written)
}

fn path(directory: &Path, at: SystemTime) -> PathBuf {
    let at = at.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = at.unwrap_or_default().as_secs();
    let (process, number) = (process::id(), FILES.fetch_add(1, Ordering::Relaxed) + 1);
    directory.join(format!("flight-{seconds}-{process}-{number}.json"))
}

fn write_to(path: &Path, recording: &FlightRecording, why: &str) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    trace::write(recording, Some(why), &mut file)?;
    file.flush()
}
