//! Short sections beside others.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

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

/// Blocks for some time by the clock. A post makes the section lose its locality, which runs all that is ready.
fn long_section(cx: &mut Cx<'_>, clock: &TestClock) {
    let runtime = cx.runtime();
    let guard = cx.enter_block().unwrap();
    let posted = runtime.submit(quick(|_| {})).start().unwrap();
    posted.wait().unwrap();
    clock.advance(Duration::from_micros(100));
    drop(guard);
}

/// A rare long section does not make the next ones hand over at once. Many long ones do. The block watch never looks
/// here, so other foms run only beside a section that is handed over.
#[test]
fn a_rare_long_section_changes_no_guess() {
    const ROUNDS: usize = 4;
    let _limit = limit();
    let clock = TestClock::new();
    let watch = Arc::new(Mutex::new(None));
    let held = Arc::clone(&watch);
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(clock.clone())
        .spawn_with(move |name, main| {
            if name == "fom-block-watch" {
                *held.lock().unwrap() = Some(main);
                return Ok(());
            }
            thread::Builder::new().name(name).spawn(main).map(drop)
        })
        .build()
        .unwrap();
    // A section is guessed only where others live.
    let waits = task(|_| Box::pin(std::future::pending()));
    let waits = runtime.submit(waits).start().unwrap();
    let blocks = runtime.submit(quick(move |cx| {
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 0..ROUNDS {
            let counted = Arc::clone(&ran);
            let ready = quick(move |_| _ = counted.fetch_add(1, SeqCst));
            drop(cx.runtime().submit(ready).start().unwrap());
            for section in 0..32 {
                let guard = cx.enter_block().unwrap();
                // A thread that was called would now take the locality.
                (0..50).for_each(|_| thread::yield_now());
                assert_eq!(ran.load(SeqCst), round, "section {section} called it");
                drop(guard);
            }
            long_section(cx, &clock);
        }
        (0..8).for_each(|_| long_section(cx, &clock));
        let (tell, told) = mpsc::channel();
        let ready = quick(move |_| tell.send(()).unwrap());
        drop(cx.runtime().submit(ready).start().unwrap());
        let guard = cx.enter_block().unwrap();
        told.recv().unwrap();
        drop(guard);
    }));
    blocks.start().unwrap().wait().unwrap();
    waits.cancel();
    assert!(waits.wait().is_err());
    assert!(watch.lock().unwrap().take().is_some());
}
