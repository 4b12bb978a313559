//! A fom that blocks until it is let go, and a check whether the threads of its locality sleep.

use std::sync::mpsc;

use fom_runtime::{BlockingCx, error::BoxError, prelude::*};

use crate::kit::task::Door;

/// A machine with one phase, which is a blocking section as a whole.
pub(crate) struct CopyFile {
    pub(crate) go: Door,
    pub(crate) began: mpsc::Sender<()>,
    pub(crate) panics: bool,
}

#[fom(operation(CopyFile), transient)]
pub(crate) enum Copying {
    #[phase(start, blocking, to(Copied))]
    Write,
    #[phase(end)]
    Copied,
}

impl CopyingTransitions for CopyFile {
    fn write(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        self.began.send(()).unwrap();
        self.go.pass();
        assert!(!self.panics, "disk on fire");
        Ok(())
    }
}

pub(crate) fn copy(go: &Door, panics: bool) -> (CopyFile, mpsc::Receiver<()>) {
    let (began, has_begun) = mpsc::channel();
    (
        CopyFile {
            go: go.clone(),
            began,
            panics,
        },
        has_begun,
    )
}

/// Returns whether all threads of locality 0 sleep in the kernel, as when one thread is held at a door and the others
/// wait.
pub(crate) fn sleeps(runtime: &Runtime) -> bool {
    assert_eq!(runtime.localities(), 1);
    let me = std::process::id();
    // Checks several times in a row: a thread that still runs may be seen asleep once, on a lock.
    (0..20).all(|_| {
        std::thread::yield_now();
        std::fs::read_dir(format!("/proc/{me}/task"))
            .unwrap()
            .all(|entry| {
                let entry = entry.unwrap().path();
                let Ok(stat) = std::fs::read_to_string(entry.join("stat")) else {
                    return true;
                };
                !stat.contains("(fom-0-") || stat.rsplit(") ").next().unwrap().starts_with('S')
            })
    })
}
