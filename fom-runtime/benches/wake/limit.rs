//! The least that any program could do: a thread that waits for a word, with a futex or by spinning.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread,
};

use super::{PONG, Ping};

static SENT: AtomicU64 = AtomicU64::new(0);
/// The word of the futex; one means that there is a ping.
static WORD: AtomicU32 = AtomicU32::new(0);

pub(crate) fn start() -> Ping {
    thread::spawn(|| {
        loop {
            while WORD.swap(0, Ordering::Acquire) == 0 {
                futex(libc::FUTEX_WAIT, 0);
            }
            PONG.send(SENT.load(Ordering::Relaxed));
        }
    });
    Box::new(|sent| {
        SENT.store(sent, Ordering::Relaxed);
        WORD.store(1, Ordering::Release);
        futex(libc::FUTEX_WAKE, 1);
    })
}

fn futex(what: i32, value: u32) {
    // SAFETY: the word lives forever; without a time-out the kernel touches nothing else.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            WORD.as_ptr(),
            what | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// Never sleeps.
pub(crate) fn start_spinning() -> Ping {
    thread::spawn(|| {
        loop {
            match SENT.swap(0, Ordering::Acquire) {
                0 => {
                    while SENT.load(Ordering::Relaxed) == 0 {
                        std::hint::spin_loop();
                    }
                }
                sent => PONG.send(sent),
            }
        }
    });
    Box::new(|sent| SENT.store(sent, Ordering::Release))
}
