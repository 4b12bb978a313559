//! The thread that writes the files, so that no handler waits for the disk.

use std::{
    fs, io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use fom_runtime::{
    Runtime,
    extension::{Attachment, UnfinishedStop, runs_foms},
};

use crate::{
    abort::{Work, before_abort},
    files::{self, Files},
    settings::Dumps,
};

/// The least time between two files. What happens meanwhile is in the recorder as well.
const APART: Duration = Duration::from_secs(1);
/// The most files that are asked for and not written yet.
const QUEUED: usize = 4;
/// How long the end of the runtime waits for the files.
const CLOSING: Duration = Duration::from_secs(10);

/// The way to the thread. The runtime owns it.
#[derive(Default)]
pub(crate) struct Recorder {
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Default)]
struct State {
    /// The way to the thread, from the begin to the end. It carries the reason for a file.
    ask: Option<SyncSender<String>>,
    /// The work before an abort, which is done while it is here.
    at_abort: Option<Arc<Work>>,
    /// The files that were asked for and not written yet.
    pending: usize,
    /// When a file was last asked for.
    last: Option<Instant>,
}

/// Begins to write files.
pub(crate) fn begin(runtime: &Runtime, dumps: &Dumps) -> io::Result<()> {
    if !runtime.inspect().is_recording() {
        let message = "there is nothing to dump; call `Builder::recorder`, too";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let recorder: Arc<Recorder> = runtime.extension().attachment();
    let mut state = recorder.state();
    if state.ask.is_some() {
        return Ok(());
    }
    fs::create_dir_all(&dumps.directory).map_err(|error| {
        let directory = dumps.directory.display();
        let message = format!("cannot make the directory {directory} of `Dumps::to`: {error}");
        io::Error::new(error.kind(), message)
    })?;
    if dumps.at_abort {
        let (directory, of) = (dumps.directory.clone(), runtime.detached());
        let work: Arc<Work> = Arc::new(move || {
            // The process aborts, so there is no way to report an error.
            let _ = files::write(&directory, &of, "the process aborts");
        });
        before_abort(&work)?;
        state.at_abort = Some(work);
    }
    let (ask, asked) = sync_channel(QUEUED);
    state.ask = Some(ask);
    drop(state);
    let (files, of) = (Files::new(dumps.directory.clone()), runtime.detached());
    let main = move || recorder.write_all(&of, files, &asked);
    runtime.extension().spawn_thread("fom-recorder", main)
}

impl Attachment for Recorder {
    fn panicked(self: Arc<Self>, _: &Runtime, what: &str) {
        self.ask(what.to_owned());
    }

    /// Ends the thread, which has a handle to the runtime. Waits for the files, except on a thread that runs foms.
    fn close(self: Arc<Self>, _: &Runtime) -> Vec<UnfinishedStop> {
        let mut state = self.state();
        (state.ask, state.at_abort) = (None, None);
        if !runs_foms() {
            let is_pending = |state: &mut State| state.pending > 0;
            let waited = self.written.wait_timeout_while(state, CLOSING, is_pending);
            drop(waited);
        }
        Vec::new()
    }
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a file. Returns whether one will be written.
    pub(crate) fn ask(&self, why: String) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        if state.last.is_some_and(|last| now - last < APART) {
            return false;
        }
        let is_asked = (state.ask.as_ref()).is_some_and(|ask| ask.try_send(why).is_ok());
        if is_asked {
            state.pending += 1;
            state.last = Some(now);
        }
        is_asked
    }

    /// Writes the files that are asked for, until the runtime ends.
    fn write_all(&self, runtime: &Runtime, mut files: Files, asked: &Receiver<String>) {
        while let Ok(why) = asked.recv() {
            files.write(runtime, &why);
            self.state().pending -= 1;
            self.written.notify_all();
        }
    }
}
