//! The flight recorder as a trace that [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open, and in files.
//!
//! The recorder itself is in the runtime: [`Builder::recorder`](fom_runtime::Builder::recorder).
//!
//! | to | see |
//! | --- | --- |
//! | write what is recorded now | [`TraceExt::write_trace`] |
//! | have files at a panic, on demand, or at an abort | [`RecorderExt::dumps`], [`Dumps`] |
//! | ask for a file | [`DumpExt::dump_recording`] |
//!
//! ```
//! use fom_recorder::TraceExt;
//! use fom_runtime::prelude::*;
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::builder().recorder(1024).build()?;
//! // .. operations run.
//! let mut trace = Vec::new();
//! runtime.inspect().recording().write_trace(&mut trace)?;
//! # Ok(())
//! # }
//! ```

// The modules, from the lowest. Each imports only from modules above it in this list. `tests/layout.rs` checks this.
//
// - `trace`: a recording as JSON
// - `abort`: work before the process aborts
// - `settings`: where the files go
// - `files`: their names, and what is in them
// - `recorder`: the thread that writes them

mod abort;
mod files;
mod recorder;
mod settings;
mod trace;

use std::io;

use fom_runtime::{
    Builder,
    observe::{FlightRecording, Inspect},
};

pub use settings::Dumps;

use recorder::Recorder;

/// Writes a [`FlightRecording`] as a trace.
pub trait TraceExt {
    /// Writes the recording as JSON that [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open.
    ///
    /// Each locality is a track with the runs of its foms. Each fom is a track with its phases, blocking sections and
    /// commits. Arrows lead from the run that woke a fom to the run that follows, and from the fom that sent an event to
    /// the fom that gets it.
    ///
    /// # Errors
    ///
    /// Fails as the writer does. It gets many small writes.
    fn write_trace(&self, to: impl io::Write) -> io::Result<()>;
}

impl TraceExt for FlightRecording {
    fn write_trace(&self, to: impl io::Write) -> io::Result<()> {
        trace::write(self, None, to)
    }
}

/// Adds files with the recorder to a [`Builder`].
pub trait RecorderExt {
    /// Writes the [recorder](Builder::recorder) to files: when a function of a phase panics, when
    /// [`dump_recording`](DumpExt::dump_recording) asks for it, and at other times that the [`Dumps`] say. A second call
    /// replaces nothing: the first settings stay.
    ///
    /// `build` fails with [`BuildError::Part`](fom_runtime::error::BuildError::Part) without a recorder, or if the directory or
    /// the thread that writes the files cannot be made.
    fn dumps(self, dumps: Dumps) -> Self;
}

impl RecorderExt for Builder {
    fn dumps(self, dumps: Dumps) -> Self {
        self.after_build(move |runtime| recorder::begin(runtime, &dumps))
    }
}

/// Asks for a file with the recorder.
pub trait DumpExt {
    /// Writes the recorder to a file in the directory of [`Dumps::to`], as a panic in a phase does. `why` becomes part of the
    /// file. Call it for warnings, for example.
    ///
    /// Returns whether a file will be written. There is none without a directory, within a second of the last one, or after
    /// the end of the runtime. A thread of its own writes the file, and reports an
    /// [incident](fom_runtime::observe::IncidentKind::Recorded) with its path. The end of the runtime waits for the file, at most ten
    /// seconds. This call does not block.
    fn dump_recording(&self, why: impl Into<String>) -> bool;
}

impl DumpExt for Inspect<'_> {
    fn dump_recording(&self, why: impl Into<String>) -> bool {
        let recorder = self.runtime().extension().attachment::<Recorder>();
        recorder.ask(why.into())
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
