//! Work that is done before the process aborts: after `abort()` of Rust or C, a panic in a `Drop` during another panic, a
//! failed allocation.
//!
//! A signal handler may call few functions, and none that takes memory or a lock. So the handler only writes a byte into
//! a pipe, and waits for the answer in another one. A thread that waits at the first pipe does the work. That thread may
//! need a lock that the aborting thread holds. So the handler waits for a limited time, and then lets the process abort.

use std::{
    io,
    // Those of the model checkers cannot be in a static.
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// What is done before an abort.
pub(crate) type Work = dyn Fn() + Send + Sync;

/// How long an abort waits for the work, in milliseconds.
#[cfg(unix)]
const LONGEST: i32 = 2_000;

/// The work of all runtimes of the process. What is dropped is not done.
static WORK: Mutex<Vec<Weak<Work>>> = Mutex::new(Vec::new());

/// Does this work before an abort of the process, while the caller keeps it.
///
/// # Errors
///
/// Fails if there are no more files or threads, or on systems without signals.
pub(crate) fn before_abort(work: &Arc<Work>) -> io::Result<()> {
    sys::install()?;
    let mut all = lock(&WORK);
    all.retain(|work| work.strong_count() > 0);
    all.push(Arc::downgrade(work));
    Ok(())
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn work() {
    let all: Vec<_> = lock(&WORK).iter().filter_map(Weak::upgrade).collect();
    all.iter().for_each(|work| work());
}

#[cfg(unix)]
mod sys {
    use std::{
        io::{self, PipeReader, PipeWriter, Read as _, Write as _},
        mem::MaybeUninit,
        os::fd::{AsRawFd as _, IntoRawFd as _},
        panic::catch_unwind,
        ptr,
        sync::{Mutex, OnceLock},
        thread,
    };

    use super::{LONGEST, lock, work};

    /// What the signal handler needs. Set before it is installed.
    struct Handler {
        asks: i32,
        answers: i32,
        /// What was done with the signal before.
        before: libc::sigaction,
    }

    static HANDLER: OnceLock<Handler> = OnceLock::new();
    static INSTALLING: Mutex<()> = Mutex::new(());

    pub(super) fn install() -> io::Result<()> {
        let _installing = lock(&INSTALLING);
        if HANDLER.get().is_some() {
            return Ok(());
        }
        let (asked, asks) = io::pipe()?;
        let (answers, answered) = io::pipe()?;
        thread::Builder::new()
            .name("fom-abort".into())
            .spawn(move || answer(asked, answered))?;
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call only reads the action of a signal, into memory for an action.
        let read = unsafe { libc::sigaction(libc::SIGABRT, ptr::null(), before.as_mut_ptr()) };
        check(read)?;
        let handler = Handler {
            asks: asks.as_raw_fd(),
            answers: answers.as_raw_fd(),
            // SAFETY: the call above succeeded, so it has written the action.
            before: unsafe { before.assume_init() },
        };
        // Cannot fail: the lock is held.
        let _ = HANDLER.set(handler);
        // SAFETY: a `sigaction` without flags, mask and handler is all zeros.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let function: extern "C" fn(i32) = on_abort;
        action.sa_sigaction = function as libc::sighandler_t;
        // On the stack for signals, because the aborting thread may have used up its own.
        action.sa_flags = libc::SA_ONSTACK;
        // SAFETY: the handler calls only functions that a handler may call.
        check(unsafe { libc::sigaction(libc::SIGABRT, &raw const action, ptr::null_mut()) })?;
        // The pipes stay open as long as the process.
        let _ = (asks.into_raw_fd(), answers.into_raw_fd());
        Ok(())
    }

    fn check(result: i32) -> io::Result<()> {
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Does the work when the handler asks.
    fn answer(mut asked: PipeReader, mut answered: PipeWriter) {
        let mut byte = [0];
        while asked.read_exact(&mut byte).is_ok() {
            // The process aborts in any case.
            let _ = catch_unwind(work);
            let _ = answered.write_all(&byte);
        }
    }

    /// Asks the thread, waits for its answer, and does with the signal what was done before.
    extern "C" fn on_abort(signal: i32) {
        let Some(handler) = HANDLER.get() else { return };
        let mut answer = libc::pollfd {
            fd: handler.answers,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the functions may be called in a signal handler. The pipes are open, and the pointers lead to values of
        // this function or of the static.
        unsafe {
            if libc::write(handler.asks, b"a".as_ptr().cast(), 1) == 1 {
                libc::poll(&raw mut answer, 1, LONGEST);
            }
            // The signal comes again when this function returns.
            libc::sigaction(signal, &raw const handler.before, ptr::null_mut());
            libc::raise(signal);
        }
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;

    pub(super) fn install() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
