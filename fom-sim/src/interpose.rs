//! What replaces functions of libc in a test binary, so that random bytes and clocks belong to the simulation, and threads and
//! sockets are refused.

use std::{cell::Cell, time::Duration};

use fom_protocol::schedule::Schedule as _;

use crate::{
    baton::{me, spawns},
    choices::next,
    node::{Here, current},
    sim::sleep,
};

/// The wall clock when a simulation begins: the first of January 2026.
const WALL: Duration = Duration::from_secs(1_767_225_600);
/// The other clocks when a simulation begins. Not zero: programs go back in time from `Instant::now()`.
const BEGUN: Duration = Duration::from_secs(1 << 32);

thread_local! {
    /// How many numbers this thread got.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Fills the bytes. In a simulation they differ from thread to thread and from call to call, and are equal in all runs. Elsewhere
/// they are always the same.
pub fn random(bytes: &mut [u8]) {
    if Here::get().is_none() {
        return bytes.fill(0x5a);
    }
    let drawn = DRAWN.replace(DRAWN.get() + 1);
    let mut state = (me() as u64) << 32 | drawn;
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next(&mut state).to_le_bytes()[..chunk.len()]);
    }
}

/// Returns the time that the wall clock shows, or another clock. `None` outside of a simulation.
pub fn now(is_wall: bool) -> Option<Duration> {
    let here = Here::get()?;
    let now = here.world.baton.now();
    if !is_wall {
        return Some(BEGUN + now);
    }
    let skew = here.life.map_or(0, |life| life.node.skew());
    let by = Duration::from_nanos(skew.unsigned_abs());
    let wall = WALL + now;
    Some(if skew < 0 {
        wall.saturating_sub(by)
    } else {
        wall + by
    })
}

/// Lets this time of the simulation pass. Returns whether this thread belongs to one.
pub fn sleeps(time: Duration) -> bool {
    let simulated = Here::get().is_some();
    if simulated {
        sleep(time);
    }
    simulated
}

/// Returns whether this thread may do what the simulation cannot repeat. If not, the run has failed.
pub fn may(what: &str) -> bool {
    let Some(here) = Here::get() else {
        return true;
    };
    let place = match current() {
        Some(fom) => format!(
            "the phase {} of {} {} on {}",
            fom.phase,
            fom.operation,
            fom.id,
            here.name()
        ),
        None => here.name(),
    };
    here.world.baton.fail(format!(
        "{place} {what}, which a simulation cannot repeat; give it a stand-in, such as a resource that calls \
         `fom_sim::sleep`, or ask another node with `Node::call`"
    ));
    false
}

/// Returns whether this thread may start a thread. If not, the run has failed.
pub fn may_spawn() -> bool {
    spawns() || may("starts a thread")
}

/// Gives the test binary its own random bytes, which are the same in all runs, and its own clocks, which show the time of the
/// simulation on its threads. So the order of each `HashMap`, the home of each key, `Instant::now` and `SystemTime::now` are equal
/// in all runs, and `std::thread::sleep` is [`sleep`](crate::sleep). On a thread of a simulation, a new thread and a new socket fail,
/// and the run fails with the name of the phase.
///
/// Linux only. Write it once in a test binary, at the top level of a file.
#[macro_export]
macro_rules! interpose {
    () => {
        #[cfg(target_os = "linux")]
        mod interposed_by_fom_sim {
            use $crate::interposed::libc;

            /// As in libc, with bytes that are the same in all runs.
            ///
            /// # Safety
            ///
            /// `buffer` is valid for writes of `length` bytes.
            // SAFETY: no other function of this binary has this name; libc's is not used then.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _: u32) -> isize {
                // SAFETY: the caller's promise, and then the bytes are set.
                let bytes = unsafe {
                    ::std::ptr::write_bytes(buffer, 0, length);
                    ::std::slice::from_raw_parts_mut(buffer, length)
                };
                $crate::interposed::random(bytes);
                length as isize
            }

            /// As in libc, with the time of the simulation on its threads.
            ///
            /// # Safety
            ///
            /// `time` is null or valid for a write.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn clock_gettime(
                clock: libc::clockid_t,
                time: *mut libc::timespec,
            ) -> libc::c_int {
                match $crate::interposed::now(clock == libc::CLOCK_REALTIME) {
                    Some(now) if !time.is_null() => {
                        let now = libc::timespec {
                            tv_sec: now.as_secs() as _,
                            tv_nsec: now.subsec_nanos() as _,
                        };
                        // SAFETY: the caller's promise.
                        unsafe { time.write(now) };
                        0
                    }
                    // SAFETY: the arguments of this system call.
                    _ => unsafe {
                        libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int
                    },
                }
            }

            /// As in libc, but with the time of the simulation on its threads.
            ///
            /// # Safety
            ///
            /// `time` is valid for a read, and `left` is null or valid for a write.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn clock_nanosleep(
                clock: libc::clockid_t,
                flags: libc::c_int,
                time: *const libc::timespec,
                left: *mut libc::timespec,
            ) -> libc::c_int {
                // SAFETY: the caller's promise.
                let wanted = unsafe { &*time };
                let wanted = ::std::time::Duration::new(wanted.tv_sec as _, wanted.tv_nsec as _);
                let time_left = match $crate::interposed::now(clock == libc::CLOCK_REALTIME) {
                    Some(now) if flags & libc::TIMER_ABSTIME != 0 => wanted.saturating_sub(now),
                    _ => wanted,
                };
                if $crate::interposed::sleeps(time_left) {
                    return 0;
                }
                // SAFETY: the arguments of this system call, by the caller's promise.
                let failed =
                    unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, flags, time, left) };
                match failed {
                    0 => 0,
                    _ => {
                        let error = ::std::io::Error::last_os_error().raw_os_error();
                        error.unwrap_or(libc::EINVAL)
                    }
                }
            }

            /// As in libc, but with the time of the simulation on its threads.
            ///
            /// # Safety
            ///
            /// As for `clock_nanosleep`.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn nanosleep(
                time: *const libc::timespec,
                left: *mut libc::timespec,
            ) -> libc::c_int {
                // SAFETY: the caller's promise. A failure has set the error.
                match unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, time, left) } {
                    0 => 0,
                    _ => -1,
                }
            }

            /// As in libc, but fails on a thread of a simulation.
            ///
            /// # Safety
            ///
            /// As for libc.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn socket(
                domain: libc::c_int,
                kind: libc::c_int,
                protocol: libc::c_int,
            ) -> libc::c_int {
                if !$crate::interposed::may("opens a socket") {
                    // SAFETY: there is no such domain, so the system refuses the call and sets the error.
                    return unsafe { libc::syscall(libc::SYS_socket, -1, 0, 0) as libc::c_int };
                }
                // SAFETY: the arguments of this system call.
                unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as libc::c_int }
            }

            type Main = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;
            type Create = unsafe extern "C" fn(
                *mut libc::pthread_t,
                *const libc::pthread_attr_t,
                Main,
                *mut libc::c_void,
            ) -> libc::c_int;

            /// As in libc, but fails on a thread of a simulation.
            ///
            /// # Safety
            ///
            /// As for libc.
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn pthread_create(
                thread: *mut libc::pthread_t,
                attributes: *const libc::pthread_attr_t,
                main: Main,
                argument: *mut libc::c_void,
            ) -> libc::c_int {
                if !$crate::interposed::may_spawn() {
                    return libc::EAGAIN;
                }
                // SAFETY: the name is a C string.
                let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
                assert!(!next.is_null(), "libc has `pthread_create`");
                // SAFETY: that function has this type.
                let create: Create = unsafe { ::std::mem::transmute(next) };
                // SAFETY: the caller's promise.
                unsafe { create(thread, attributes, main, argument) }
            }
        }
    };
}
