//! Files with the flight recorder. A thread of its own writes them, so that no handler waits for the disk.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use fom_protocol::sync::{Condvar, Mutex};

use crate::{
    abort::Work,
    fom::{Flight, flight::Dumps},
    incident::IncidentKind,
    runtime::{
        Shared,
        observe::recording::{FlightRecording, trace},
    },
};

/// The least time between two files. What happens meanwhile is in the recorder as well.
const APART: Duration = Duration::from_secs(1);
/// The most files that are kept. The oldest are removed first.
const MOST: usize = 16;
/// The most files that are asked for and not written yet.
const QUEUED: usize = 4;

/// The files of all runtimes of the process, which number them: two runtimes may share a directory.
static FILES: AtomicU64 = AtomicU64::new(0);

/// A file that was asked for.
struct Wanted {
    flight: Arc<Flight>,
    why: String,
}

/// The way to the thread that writes the files.
pub(super) struct FileDumps {
    directory: PathBuf,
    /// The work before an abort, which is done while it is here.
    pub(super) at_abort: Option<Arc<Work>>,
    wanted: SyncSender<Wanted>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    now: Mutex<Asked>,
    written: Condvar,
}

#[derive(Default)]
struct Asked {
    /// The files that were asked for and not written yet.
    pending: usize,
    /// When a file was last asked for.
    last: Option<Instant>,
}

impl Dumps for FileDumps {
    fn ask(&self, flight: &Arc<Flight>, why: String) -> bool {
        let mut asked = self.state.now.lock();
        let now = Instant::now();
        if asked.last.is_some_and(|last| now - last < APART) {
            return false;
        }
        let flight = Arc::clone(flight);
        let is_asked = self.wanted.try_send(Wanted { flight, why }).is_ok();
        if is_asked {
            asked.pending += 1;
            asked.last = Some(now);
        }
        is_asked
    }

    fn write_now(&self, flight: &Flight, why: &str) {
        let recording = FlightRecording::read(flight);
        let path = path(&self.directory, recording.at);
        // The process aborts, so there is no way to report an error.
        let _ = write(&recording, why, &path);
    }

    fn wait(&self, by: Instant) {
        let asked = self.state.now.lock();
        let is_done = |asked: &mut Asked| asked.pending == 0;
        drop(self.state.written.wait_until(asked, by, is_done));
    }
}

/// Starts the thread. It ends with the last handle to the recorder.
pub(super) fn start(directory: PathBuf, runtime: Weak<Shared>) -> io::Result<FileDumps> {
    fs::create_dir_all(&directory)?;
    let (wanted, asked) = sync_channel(QUEUED);
    let state = Arc::<State>::default();
    let writer = Writer {
        directory: directory.clone(),
        runtime,
        state: Arc::clone(&state),
        files: VecDeque::new(),
    };
    thread::Builder::new()
        .name("fom-flight".into())
        .spawn(move || writer.write_all(&asked))?;
    Ok(FileDumps {
        directory,
        at_abort: None,
        wanted,
        state,
    })
}

struct Writer {
    directory: PathBuf,
    runtime: Weak<Shared>,
    state: Arc<State>,
    /// The files that were written, the oldest first.
    files: VecDeque<PathBuf>,
}

impl Writer {
    fn write_all(mut self, asked: &Receiver<Wanted>) {
        while let Ok(Wanted { flight, why }) = asked.recv() {
            let recording = FlightRecording::read(&flight);
            // The last handle to the recorder may be this one.
            drop(flight);
            let path = path(&self.directory, recording.at);
            let written = write(&recording, &why, &path);
            self.report(&path, &why, written);
            let mut asked = self.state.now.lock();
            asked.pending -= 1;
            self.state.written.notify_all();
        }
    }

    fn report(&mut self, path: &Path, why: &str, written: io::Result<()>) {
        let (kind, text) = match written {
            Ok(()) => {
                self.keep(path);
                let text = format!("{why}; the flight recorder is in {}", path.display());
                (IncidentKind::Recorded, text)
            }
            Err(error) => {
                let text = format!(
                    "the flight recorder was not written to {}: {error}; check the directory of `Builder::dumps`",
                    path.display()
                );
                (IncidentKind::Machine, text)
            }
        };
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.env.report(kind, "the flight recorder", text);
        }
    }

    /// Keeps this file, and removes the oldest one if there are too many.
    fn keep(&mut self, path: &Path) {
        self.files.push_back(path.to_owned());
        if self.files.len() > MOST
            && let Some(oldest) = self.files.pop_front()
        {
            // The user may have moved the file.
            let _ = fs::remove_file(oldest);
        }
    }
}

/// Returns the path of the next file.
fn path(directory: &Path, at: SystemTime) -> PathBuf {
    let at = at.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = at.unwrap_or_default().as_secs();
    let (process, number) = (process::id(), FILES.fetch_add(1, Ordering::Relaxed) + 1);
    directory.join(format!("flight-{seconds}-{process}-{number}.json"))
}

fn write(recording: &FlightRecording, why: &str, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    trace::write(recording, Some(why), &mut file)?;
    file.flush()
}
