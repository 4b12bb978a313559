//! Many keys: none stands in another's way, an unused key is not kept, and a busy key starves no other.
//!
//! `KEYED_KEYS=10000000` uses that many.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc, Mutex,
        atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::alone::alone;
use crate::kit::task::{quick, task};
use crate::kit::{Gate, limited, many, one};

/// Bytes allocated now.
static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: asks of its caller what the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: asks of its caller what the trait says.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// KY-03, traps 23 and 24: used keys leave nothing behind.
#[test]
fn an_unused_key_is_not_kept() {
    alone(|| {
        limited(|| async {
            let runtime = one(&TestClock::new()).build().unwrap();
            let use_keys = async |from: u64, to: u64| {
                for first in (from..to).step_by(1000) {
                    for key in first..first + 1000 {
                        for _ in 0..1 + key % 2 {
                            runtime
                                .submit(quick(|_| {}))
                                .key(key)
                                .queue()
                                .detach()
                                .unwrap();
                        }
                    }
                    runtime.idle().await;
                }
            };
            // Memory that the first keys need is kept for later ones.
            use_keys(0, 5_000).await;
            let before = LIVE.load(SeqCst);
            let keys = std::env::var("KEYED_KEYS").map_or(30_000, |keys| keys.parse().unwrap());
            use_keys(5_000, 5_000 + keys).await;
            let grown = LIVE.load(SeqCst) - before;
            assert!(grown < 500_000, "{grown} bytes of {keys} keys are left");
            // Also when all keys were there at the same time. The memory of foms is kept for other foms, so it is taken
            // before.
            let all_at_once = async || {
                let gate = Gate::close(&runtime, 0);
                let hold = |key: u64| {
                    runtime.submit(quick(|_| {})).key(key).detach().unwrap();
                };
                (0..20_000).for_each(hold);
                let held = LIVE.load(SeqCst);
                gate.open();
                runtime.idle().await;
                held
            };
            all_at_once().await;
            let after = LIVE.load(SeqCst);
            let held = all_at_once().await;
            let (grown, keys) = (LIVE.load(SeqCst) - after, held - after);
            assert!(grown < 500_000, "{grown} bytes of {keys} are left");
            assert!(keys > 2_000_000, "{keys}");
        });
    });
}

/// KY-03: foms that ask for a key while its last holder goes are never lost, and never together.
#[test]
fn a_fom_that_comes_while_the_last_one_goes_is_not_lost() {
    limited(|| async {
        const EACH: usize = 10_000;
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let (ran, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..3)
            .map(|by| {
                let (runtime, ran, inside) =
                    (runtime.clone(), Arc::clone(&ran), Arc::clone(&inside));
                thread::spawn(move || {
                    for n in 0..EACH {
                        let (ran, inside) = (Arc::clone(&ran), Arc::clone(&inside));
                        let fom = quick(move |_| {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            ran.fetch_add(1, SeqCst);
                            inside.fetch_sub(1, SeqCst);
                        });
                        let place = Placement::Locality((by + n) % 2);
                        let submission = runtime.submit(fom).key("k").place(place).queue();
                        if n % 50 == 0 {
                            submission.start().unwrap().wait().unwrap();
                        } else {
                            submission.detach().unwrap();
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        runtime.idle().await;
        assert_eq!(ran.load(SeqCst), 3 * EACH);
        assert_eq!(runtime.operations().types[0].failed, 0);
    });
}

/// KY-02, trap 22: keys are compared whole: each of many can be held while all others are.
#[test]
fn no_two_keys_share_a_queue() {
    limited(|| async {
        const KEYS: u64 = 20_000;
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> = (0..KEYS)
            .map(|key| {
                let inside = Arc::clone(&inside);
                let hold = task(move |_| {
                    Box::pin(async move {
                        inside.fetch_add(1, SeqCst);
                        std::future::pending().await
                    })
                });
                runtime.submit(hold).key(key).queue().start().unwrap()
            })
            .collect();
        runtime.quiet().await;
        assert_eq!(inside.load(SeqCst) as u64, KEYS);
        drop(all);
    });
}

/// KY-06, trap 33: a busy key has one run before each of the others has its turn, however much waits for it. The number
/// of keys bounds the wait of a rare key, not the length of their queues.
#[test]
fn a_hot_key_never_starves_a_rare_one() {
    limited(|| async {
        const HOT: u64 = 4;
        let runtime = one(&TestClock::new()).build().unwrap();
        let runs = Arc::new(Mutex::new(Vec::new()));
        let submit = |key: u64| {
            let runs = Arc::clone(&runs);
            let notes = quick(move |_| runs.lock().unwrap().push(key));
            runtime.submit(notes).key(key).queue().detach().unwrap();
        };
        let gate = Gate::close(&runtime, 0);
        for _ in 0..1000 {
            (0..HOT).for_each(submit);
        }
        // Behind four thousand others.
        submit(100);
        submit(101);
        submit(100);
        gate.open();
        runtime.idle().await;
        let runs = runs.lock().unwrap();
        assert_eq!(runs.len(), 4003);
        for (rare, times) in [(100, 2), (101, 1)] {
            let found: Vec<_> = (0..runs.len()).filter(|at| runs[*at] == rare).collect();
            assert_eq!(found.len(), times);
            let most = HOT as usize + 2;
            assert!(found[0] < most, "{rare} at {found:?}");
            assert!(found[times - 1] < times * most, "{rare} at {found:?}");
        }
        // The hot keys take turns.
        for window in runs[30..].windows(HOT as usize) {
            assert!((0..HOT).all(|key| window.contains(&key)), "{window:?}");
        }
    });
}
