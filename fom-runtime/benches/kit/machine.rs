//! What Linux reports of this machine and this process, and where its threads run.

use std::{fs, io, mem::MaybeUninit, time::Duration};

/// Returns the processors that this process may use.
pub fn cores() -> Vec<usize> {
    // SAFETY: a `cpu_set_t` is plain bits, and the call fills in at most the size that it is given.
    let set = unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        set
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below the size of the set.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &set) })
        .collect()
}

/// Binds this thread to the `n`th of the process's processors. If there are fewer, counting starts over.
pub fn pin(n: usize) {
    let cores = all_cores();
    // SAFETY: as above; the index comes from the set that the process was given.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        libc::CPU_SET(cores[n % cores.len()], &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Returns the processors as at the start of the process: a pinned thread and its children see only their own.
fn all_cores() -> &'static [usize] {
    static ALL: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    ALL.get_or_init(cores)
}

fn rusage(of: libc::c_int) -> libc::rusage {
    // SAFETY: `getrusage` fills in the struct that it is given.
    unsafe {
        let mut usage: libc::rusage = MaybeUninit::zeroed().assume_init();
        libc::getrusage(of, &raw mut usage);
        usage
    }
}

fn time_used(of: libc::c_int) -> Duration {
    let usage = rusage(of);
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Returns the processor time of all threads of this process.
pub fn cpu_time() -> Duration {
    time_used(libc::RUSAGE_SELF)
}

/// Returns how often the threads of this process gave up their processor voluntarily: slept, waited, handed over.
pub fn context_switches() -> u64 {
    u64::try_from(rusage(libc::RUSAGE_SELF).ru_nvcsw).unwrap_or(0)
}

/// Returns the processor time of the processes that this one has waited for.
pub(crate) fn cpu_time_of_children() -> Duration {
    time_used(libc::RUSAGE_CHILDREN)
}

/// Returns the busy time of all processors together, of all processes.
pub(crate) fn cpu_time_of_machine() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user, nice, system, (idle, iowait), irq, softirq
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|n| ticks.get(*n)).sum();
    // SAFETY: no memory is involved.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    Ok(Duration::from_secs_f64(busy as f64 / per_second))
}

/// Returns the resident memory of this process.
pub fn resident_bytes() -> u64 {
    // SAFETY: no memory is involved.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * page
}

/// Keeps this process as undisturbed as a busy machine allows: a scheduling group of its own that goes first, where
/// permitted. All peers get the same. The process ends with the one that started it.
pub(crate) fn keep_others_away() {
    all_cores();
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
    }
    // Only root may do this, and not every kernel supports it. If it fails, the process runs as it is, and
    // `foreign_cpu` shows the effect.
    let _ = fs::write("/proc/self/autogroup", "-20");
}

/// Ends the process at once, while the peer's threads still run: nothing is dropped, and no thread is joined.
pub(crate) fn leave() -> ! {
    // SAFETY: no memory is involved, and no code of this process runs after it.
    unsafe { libc::_exit(0) }
}
