//! Waiting for a process that has nothing more to do.

use std::{thread, time::Duration};

use crate::cpu_time;

/// Waits until this process uses no more processor time: everything spawned is parked, or has ended. So no counter of
/// progress is needed, which would cost as much as some of the measured actions.
///
/// # Panics
///
/// Panics after 30 seconds.
pub fn settle() {
    let (look, idle) = (Duration::from_millis(10), Duration::from_micros(500));
    let mut quiet = 0;
    let mut before = cpu_time();
    for _ in 0..3000 {
        thread::sleep(look);
        let now = cpu_time();
        quiet = if now - before < idle { quiet + 1 } else { 0 };
        before = now;
        if quiet == 3 {
            return;
        }
    }
    panic!("it is still busy after 30 seconds");
}
