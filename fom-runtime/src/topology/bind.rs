//! The processors that a thread may run on. With `hwloc.rs` and `memory.rs`, all unsafe code of
//! the topology.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

/// Returns the processors that this process may use, in the order of their numbers.
///
/// The result is that of the main thread, not of the current one. So a runtime that is built inside a bound
/// thread is not confined to the processors of that thread.
///
/// # Errors
///
/// Returns the error of the operating system. On systems other than Linux it is always
/// [`io::ErrorKind::Unsupported`].
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    sys::allowed(Whose::Process)
}

/// Returns the processors that the current thread may use.
pub(super) fn current_thread_cpus() -> io::Result<Vec<usize>> {
    sys::allowed(Whose::CurrentThread)
}

/// Binds the current thread to these processors.
///
/// # Errors
///
/// Returns the error of the operating system, for example if the thread may use none of them. On systems other
/// than Linux it is always [`io::ErrorKind::Unsupported`].
pub fn bind_current_thread(cpus: &[usize]) -> io::Result<()> {
    bind_thread(None, cpus)
}

/// Binds a thread to these processors. Default: the current thread.
pub(crate) fn bind_thread(thread: Option<&Thread>, cpus: &[usize]) -> io::Result<()> {
    sys::bind(thread.map_or(0, Thread::id), cpus)
}

/// A thread of this process, and its scheduling statistics.
pub(crate) struct Thread {
    id: u32,
    /// The kernel's count of how long the thread ran and how long it waited for a processor, in nanoseconds.
    statistics: File,
    before: (u64, u64),
}

impl Thread {
    /// Returns the current thread.
    ///
    /// # Errors
    ///
    /// Fails if the system has no statistics of the thread.
    pub(crate) fn current() -> io::Result<Self> {
        // `PROCESS/task/THREAD`.
        let path = std::fs::read_link("/proc/thread-self")?;
        let id = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let mut thread = Self {
            id: id.ok_or(io::ErrorKind::InvalidData)?,
            statistics: File::open("/proc/thread-self/schedstat")?,
            before: (0, 0),
        };
        thread.before = thread.statistics()?;
        Ok(thread)
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns how long the thread ran and how long it waited for a processor since the last call, in
    /// nanoseconds.
    pub(crate) fn fares(&mut self) -> (u64, u64) {
        // A thread that has just ended has no new statistics.
        let now = self.statistics().unwrap_or(self.before);
        let before = std::mem::replace(&mut self.before, now);
        (
            now.0.saturating_sub(before.0),
            now.1.saturating_sub(before.1),
        )
    }

    fn statistics(&self) -> io::Result<(u64, u64)> {
        let mut text = String::new();
        (&self.statistics).rewind()?;
        (&self.statistics).read_to_string(&mut text)?;
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(ran)), Some(Ok(waited))) => Ok((ran, waited)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[derive(Clone, Copy)]
enum Whose {
    Process,
    CurrentThread,
}

#[cfg(target_os = "linux")]
mod sys {
    use std::io;

    use super::Whose;

    type Word = libc::c_ulong;

    const BITS: usize = Word::BITS as usize;

    /// Longest mask to try. The kernel is built for some number of processors, and refuses a mask that is
    /// shorter.
    const LONGEST: usize = 1 << 16;

    pub(super) fn allowed(whose: Whose) -> io::Result<Vec<usize>> {
        let thread = match whose {
            // The id of the main thread is the id of the process.
            Whose::Process => libc::pid_t::try_from(std::process::id()).unwrap_or(0),
            Whose::CurrentThread => 0,
        };
        let mut mask: Vec<Word> = vec![0; 1024 / BITS];
        loop {
            // SAFETY: the kernel writes at most the given number of bytes, which are the mask's own. `CPU_ALLOC`
            // in C makes masks longer than `cpu_set_t` too; the cast only gives the mask the type's name.
            let result = unsafe {
                libc::sched_getaffinity(
                    thread,
                    size_of_val(mask.as_slice()),
                    mask.as_mut_ptr().cast(),
                )
            };
            if result == 0 {
                return Ok(numbers(&mask));
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINVAL) || mask.len() * BITS >= LONGEST {
                return Err(error);
            }
            let longer = mask.len() * 2;
            mask.resize(longer, 0);
        }
    }

    /// Binds a thread by its id. 0 is the current thread.
    pub(super) fn bind(thread: u32, cpus: &[usize]) -> io::Result<()> {
        let thread =
            libc::pid_t::try_from(thread).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        let mut mask: Vec<Word> = vec![0; 1024 / BITS];
        for &cpu in cpus {
            if cpu >= LONGEST {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            let word = cpu / BITS;
            if word >= mask.len() {
                mask.resize(word + 1, 0);
            }
            if let Some(word) = mask.get_mut(word) {
                *word |= 1 << (cpu % BITS);
            }
        }
        // SAFETY: the kernel reads at most the given number of bytes, which are the mask's own.
        let result = unsafe {
            libc::sched_setaffinity(thread, size_of_val(mask.as_slice()), mask.as_ptr().cast())
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn numbers(mask: &[Word]) -> Vec<usize> {
        let bits = mask.iter().enumerate().flat_map(|(at, &word)| {
            (0..BITS)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * BITS + bit)
        });
        bits.collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::io;

    use super::Whose;

    pub(super) fn allowed(_: Whose) -> io::Result<Vec<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn bind(_: u32, _: &[usize]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
