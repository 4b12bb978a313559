//! The threads that take a locality over while one of its foms blocks: created, refused, waited for, and let go.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use fom_runtime::{Cause, config::Followers, error::BlockError, prelude::*};

use crate::copying::{copy, sleeps};
use crate::kit::alone::alone;
use crate::kit::task::{Door, limit, locality, quick, until};

/// Returns a spawner that makes `threads` threads and then no more.
fn only(
    threads: usize,
) -> impl Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync {
    let left = AtomicUsize::new(threads);
    move |name, main| {
        left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .map_err(|_| io::Error::other("no more threads"))?;
        std::thread::Builder::new().name(name).spawn(main).map(drop)
    }
}

/// LO-05: without an idle thread, enter-block creates one. If that fails, enter-block returns an error, and the fom
/// goes on with its locality. Trap 15: the locality is not dead then.
#[test]
fn no_thread_to_take_over_is_an_error() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .spawn_with(only(2))
        .build()
        .unwrap();
    let door = Door::default();
    let (operation, began) = copy(&door, false);
    let blocked = runtime.submit(operation).start().unwrap();
    began.recv().unwrap();
    // The last thread has the locality now.
    let (tell, told) = mpsc::channel();
    let refused = runtime.submit(quick(move |cx| {
        let error = cx.enter_block().map(drop).unwrap_err();
        tell.send(error.to_string()).unwrap();
        // The fom is still at home.
        assert_eq!(cx.locality(), 0);
        drop(cx.runtime().submit(quick(|_| {})).start().unwrap());
    }));
    refused.start().unwrap().wait().unwrap();
    assert!(told.recv().unwrap().contains("no more threads"));
    // A phase that blocks as a whole cannot handle the error: the fom fails with that cause, and gives the operation
    // back.
    let (operation, _never) = copy(&door, false);
    let failure = runtime
        .submit(operation)
        .start()
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(
        matches!(failure.cause, Cause::NoThread(BlockError::NoThread(_))),
        "{failure:?}"
    );
    assert!(failure.operation.is_some());
    assert_eq!(failure.phase_name(), "Write");
    door.open();
    blocked.wait().unwrap();
    // The thread is back, so a thread can take over again.
    let again = quick(|cx| drop(cx.enter_block().unwrap()));
    runtime.submit(again).start().unwrap().wait().unwrap();
}

/// Trap 15: a spawner that panics counts as a spawner that failed, and the locality lives. LO-05.
#[test]
fn a_spawner_that_panics() {
    let _limit = limit();
    let spawn = only(2);
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .spawn_with(move |name, main| {
            spawn(name, main).expect("no way");
            Ok(())
        })
        .build()
        .unwrap();
    let door = Door::default();
    let (operation, began) = copy(&door, false);
    let blocked = runtime.submit(operation).start().unwrap();
    began.recv().unwrap();
    let (operation, _never) = copy(&door, false);
    let failure = runtime
        .submit(operation)
        .start()
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(failure.cause.to_string().contains("no way"), "{failure:?}");
    runtime
        .submit(quick(|_| {}))
        .start()
        .unwrap()
        .wait()
        .unwrap();
    door.open();
    blocked.wait().unwrap();
}

/// LO-05: a wait inside a phase needs a thread as well. Without a thread the wait fails the fom, not the locality.
#[test]
fn a_wait_without_a_thread_fails_the_fom_alone() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .spawn_with(only(2))
        .build()
        .unwrap();
    let door = Door::default();
    let (operation, began) = copy(&door, false);
    let blocked = runtime.submit(operation).start().unwrap();
    began.recv().unwrap();
    let waits = quick(|cx| {
        let child = cx.runtime().submit(quick(|_| {})).start().unwrap();
        let _ = child.wait();
    });
    let failure = runtime.submit(waits).start().unwrap().wait().unwrap_err();
    assert!(
        failure.cause.to_string().contains("no more threads"),
        "{failure:?}"
    );
    door.open();
    blocked.wait().unwrap();
}

/// LO-06: threads are created up to `most`. After the idle time they go down to `least`, and no further.
#[test]
fn followers_come_and_go() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .followers(Followers {
            least: 2,
            most: 6,
            idle: Duration::from_millis(20),
        })
        .build()
        .unwrap();
    assert_eq!(
        locality(&runtime, 0).threads,
        3,
        "a handler and the least of followers"
    );
    for _ in 0..2 {
        let door = Door::default();
        let (all, begun): (Vec<_>, Vec<_>) = (0..6)
            .map(|_| {
                let (operation, began) = copy(&door, false);
                (runtime.submit(operation).start().unwrap(), began)
            })
            .unzip();
        for began in begun {
            began.recv().unwrap();
        }
        // While a thread takes over from the last section, a listing may not count that section.
        until("all sections are blocked", || {
            locality(&runtime, 0).blocked_threads == 6
        });
        assert_eq!(locality(&runtime, 0).threads, 7);
        door.open();
        for handle in all {
            handle.wait().unwrap();
        }
        until("the threads above the least go", || {
            locality(&runtime, 0).threads == 3
        });
    }
    // The least stays, and is enough to block.
    let blocks = quick(|cx| drop(cx.enter_block().unwrap()));
    runtime.submit(blocks).start().unwrap().wait().unwrap();
    assert_eq!(locality(&runtime, 0).threads, 3);
}

/// LO-06: at `most`, a further enter-block waits until a thread is back, and then goes on.
#[test]
fn at_most_a_further_enter_waits() {
    alone(|| {
        let _limit = limit();
        let runtime = Runtime::builder()
            .localities(1)
            .pin(false)
            .followers(Followers {
                least: 1,
                most: 2,
                idle: Duration::from_secs(10),
            })
            .build()
            .unwrap();
        let doors: Vec<_> = (0..2).map(|_| Door::default()).collect();
        let first: Vec<_> = doors
            .iter()
            .map(|door| {
                let (operation, began) = copy(door, false);
                let handle = runtime.submit(operation).start().unwrap();
                began.recv().unwrap();
                handle
            })
            .collect();
        assert_eq!(locality(&runtime, 0).threads, 3);
        let open = Door::default();
        open.open();
        let (asks, asked) = mpsc::channel();
        let entered = Arc::new(AtomicBool::new(false));
        let further = {
            let entered = Arc::clone(&entered);
            runtime.submit(quick(move |cx| {
                asks.send(()).unwrap();
                let _guard = cx.enter_block().unwrap();
                entered.store(true, SeqCst);
            }))
        };
        let further = further.start().unwrap();
        asked.recv().unwrap();
        until("the third waits", || sleeps(&runtime));
        assert!(!entered.load(SeqCst));
        assert_eq!(locality(&runtime, 0).threads, 3, "no thread above the most");
        doors[1].open();
        let mut first = first.into_iter();
        let (still, back) = (first.next().unwrap(), first.next().unwrap());
        back.wait().unwrap();
        further.wait().unwrap();
        assert!(entered.load(SeqCst));
        doors[0].open();
        still.wait().unwrap();
        // Many foms block at the same time, with few places: all go through.
        let crowd: Vec<_> = (0..50)
            .map(|_| {
                let blocks = quick(|cx| {
                    let _guard = cx.enter_block().unwrap();
                    std::thread::yield_now();
                });
                runtime.submit(blocks).start().unwrap()
            })
            .collect();
        for handle in crowd {
            handle.wait().unwrap();
        }
        assert!(locality(&runtime, 0).threads <= 3);
    });
}
