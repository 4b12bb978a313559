//! Files with the flight recorder: at a panic, at a warning, at an abort.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fom_recorder::{DumpExt as _, Dumps, RecorderExt as _};
use fom_runtime::{error::BuildError, observe::IncidentKind, prelude::*, time::TestClock};
use serde_json::Value;

use crate::{
    kit::{
        alone::again,
        hush_localities, limited, one, secs,
        trips::{Signal, Walk, trip},
    },
    trace::{find, trace},
};

/// Returns a directory that does not exist.
fn directory(name: &str) -> PathBuf {
    let name = format!("fom-recorder-{}-{name}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A panic in a phase and a warning write the recorder to a file.
#[test]
fn a_panic_and_a_warning_write_a_file() {
    hush_localities();
    limited(|| async {
        let directory = directory("panic");
        let clock = TestClock::new();
        let recorded = || one(&clock).recorder(1 << 10).dumps(Dumps::to(&directory));
        let runtime = recorded().build().unwrap();
        let panics = runtime.submit(trip(9)).start().unwrap();
        panics.send(Signal::Go).unwrap();
        let id = panics.id();
        panics.await.unwrap_err();
        // Of dumps within a second, one is written.
        assert!(!runtime.inspect().dump_recording("again"));
        runtime.shutdown(Shutdown::Drain, secs(10)).await;
        let file = files(&directory).remove(0);
        let text = format!("Trip {id} panicked in phase Try: nine is too much");
        assert_eq!(read(&file)["otherData"]["why"], *text);
        let panic = &[("ph", "i".into()), ("name", "panic".into())];
        assert_eq!(find(&read(&file), panic).len(), 1);
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents[0].kind, IncidentKind::Recorded);
        assert!(incidents[0].text.contains(file.to_str().unwrap()));

        let runtime = recorded().build().unwrap();
        assert!(
            runtime
                .inspect()
                .dump_recording("the queue \"a\" only grows")
        );
        // The end of the last handle waits for the file.
        drop(runtime);
        let files = files(&directory);
        let whys = files
            .iter()
            .map(|file| read(file)["otherData"]["why"].clone());
        assert!(
            whys.into_iter()
                .any(|why| why == "the queue \"a\" only grows")
        );
        assert_eq!(files.len(), 2);
        fs::remove_dir_all(&directory).unwrap();
    });
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// A file that cannot be written is an incident, which names the remedy.
#[test]
fn a_file_that_cannot_be_written_is_reported() {
    limited(|| async {
        let directory = directory("gone");
        let clock = TestClock::new();
        let runtime = one(&clock)
            .recorder(8)
            .dumps(Dumps::to(&directory))
            .build()
            .unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(runtime.inspect().dump_recording("a warning"));
        runtime.shutdown(Shutdown::Drain, secs(10)).await;
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents[0].kind, IncidentKind::Machine);
        assert!(
            incidents[0]
                .text
                .contains("check the directory of `Dumps::to`")
        );
    });
}

/// The signal of an abort.
#[cfg(unix)]
const SIGABRT: i32 = 6;
/// Set in the process that aborts.
#[cfg(unix)]
const ABORTS_IN: &str = "FOM_TEST_ABORTS_IN";

/// An abort writes the recorder to a file, if it is asked for, and aborts the process as before.
#[cfg(unix)]
#[test]
fn an_abort_writes_a_file() {
    use std::os::unix::process::ExitStatusExt as _;

    let inside = std::env::var_os(ABORTS_IN).map(PathBuf::from);
    if let Some(directory) = inside {
        let runtime = Runtime::builder()
            .localities(2)
            .recorder(64)
            .dumps(Dumps::to(directory).at_abort())
            .build()
            .unwrap();
        let walk = runtime.submit(Walk(9)).start().unwrap();
        walk.wait().unwrap();
        std::process::abort();
    }
    limited(|| async {
        let directory = directory("abort");
        let mut aborts = again("files::an_abort_writes_a_file");
        let aborted = aborts.env(ABORTS_IN, &directory).output().unwrap();
        assert_eq!(aborted.status.signal(), Some(SIGABRT), "{aborted:?}");
        let file = read(&files(&directory)[0]);
        assert_eq!(file["otherData"]["why"], "the process aborts");
        let walks = [("ph", "X".into()), ("name", "Left".into())];
        assert_eq!(find(&file, &walks).len(), 9);
        fs::remove_dir_all(&directory).unwrap();
    });
}

/// Without a recorder, there is nothing to read, and nothing to write to a file.
#[test]
fn nothing_is_recorded_unless_it_is_asked_for() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        runtime.submit(Walk(3)).start().unwrap().await.unwrap();
        let recording = runtime.inspect().recording();
        assert!(recording.entries.is_empty());
        assert_eq!(recording.older, 0);
        assert!(!runtime.inspect().dump_recording("a warning"));
        assert!(trace(&recording)["traceEvents"].as_array().unwrap().len() <= 2);
        let directory = directory("none");
        let refused = one(&clock).dumps(Dumps::to(&directory)).build();
        let refused = refused.unwrap_err();
        assert!(matches!(refused, BuildError::Part(_)), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("call `Builder::recorder`, too"), "{text}");
        assert!(!directory.exists());
    });
}
