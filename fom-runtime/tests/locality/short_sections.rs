//! Short sections beside others.

use std::sync::mpsc;

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::alone::alone;
use crate::kit::task::{limit, quick, task};

/// Returns how often the threads of locality 0 have gone to sleep, without the calling thread.
fn sleeps_of_others() -> u64 {
    let me = std::fs::read_link("/proc/thread-self").unwrap();
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|thread| thread.file_name() != me.file_name())
        // A thread that has ended meanwhile slept no more.
        .filter_map(|thread| std::fs::read_to_string(thread.join("status")).ok())
        .filter(|status| status.starts_with("Name:\tfom-0-"))
        .filter_map(|status| {
            let (_, after) = status.split_once("\nvoluntary_ctxt_switches:\t")?;
            after.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum()
}

/// Short sections call no follower, although other work in the locality has to be minded. The test counts what the
/// threads of its process do.
#[test]
fn short_sections_call_no_follower() {
    alone(|| {
        let _limit = limit();
        // The clock stands still: sections follow each other closely, and are all guessed short.
        let runtime = Runtime::builder()
            .localities(1)
            .pin(false)
            .clock(TestClock::new())
            .build()
            .unwrap();
        let waits = task(|_| Box::pin(std::future::pending()));
        let waits = runtime.submit(waits).start().unwrap();
        let (tell, told) = mpsc::channel();
        let fom = runtime.submit(quick(move |cx| {
            let before = sleeps_of_others();
            for _ in 0..5000 {
                drop(cx.enter_block().unwrap());
            }
            tell.send((before, sleeps_of_others())).unwrap();
        }));
        fom.start().unwrap().wait().unwrap();
        let (before, after) = told.recv().unwrap();
        // The block watch may find a section that the machine held up.
        assert!(after < before + 500, "{before} sleeps, then {after}");
        waits.cancel();
        assert!(waits.wait().is_err());
    });
}
