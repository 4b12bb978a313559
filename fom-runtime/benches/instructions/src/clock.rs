//! The clock of the counted programs: it counts its readers.
//!
//! A handler looks at the clock less often while its steps are short. Under callgrind all steps are 50 times longer than
//! alone, and some are at the border. So a count would depend on the speed of the machine. Here the time passes by
//! [`LOOK`] at each look, for fom and for tokio, as it does for short steps on a fast machine.

use std::{
    ffi::{c_int, c_long},
    sync::atomic::{AtomicI64, Ordering},
};

/// Time between two looks, in nanoseconds.
const LOOK: i64 = 1_000;
const SECOND: i64 = 1_000_000_000;

/// `struct timespec` of Linux on machines of 64 bits.
#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanos: c_long,
}

/// Replaces the function of libc in this program.
///
/// # Safety
///
/// `time` must be valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(_clock: c_int, time: *mut Timespec) -> c_int {
    static NOW: AtomicI64 = AtomicI64::new(SECOND);
    let now = NOW.fetch_add(LOOK, Ordering::Relaxed);
    // SAFETY: the caller promises it.
    unsafe {
        time.write(Timespec {
            seconds: now / SECOND,
            nanos: now % SECOND,
        });
    }
    0
}
