//! Which locality becomes the home of a fom.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use fom_runtime::{Cx, Runtime, error::RefusedReason, prelude::*};

use crate::kit::task::{self, limit, pause, quick, task};

fn four() -> Runtime {
    Runtime::builder().localities(4).pin(false).build().unwrap()
}

/// A fom that stays until it is cancelled.
fn stays() -> task::Task {
    task(|_| Box::pin(std::future::pending()))
}

fn counts(homes: impl IntoIterator<Item = usize>) -> [usize; 4] {
    let mut counts = [0; 4];
    homes.into_iter().for_each(|home| counts[home] += 1);
    counts
}

/// FL-08: round-robin gives every locality the same share, also when it is requested inside a locality.
#[test]
fn round_robin_is_even() {
    let _limit = limit();
    let runtime = four();
    let homes: Vec<_> = (0..40)
        .map(|_| {
            runtime
                .submit(quick(|_| {}))
                .place(Placement::RoundRobin)
                .start()
                .unwrap()
                .locality()
        })
        .collect();
    assert_eq!(counts(homes), [10; 4]);
    let inside = quick(|cx| {
        let homes = (0..8).map(|_| {
            let child = cx
                .runtime()
                .submit(quick(|_| {}))
                .place(Placement::RoundRobin)
                .start()
                .unwrap();
            child.locality()
        });
        assert_eq!(counts(homes), [2; 4]);
    });
    runtime.submit(inside).start().unwrap().wait().unwrap();
}

/// Trap 21: by default, submissions from outside go round: no home by an identity that many foms share. FL-08.
#[test]
fn the_default_goes_round() {
    let _limit = limit();
    let runtime = four();
    let homes: Vec<_> = (0..40)
        .map(|_| runtime.submit(quick(|_| {})).start().unwrap().locality())
        .collect();
    assert_eq!(counts(homes), [10; 4]);
}

/// FL-08: children stay with their parent, by default and with `Here`.
#[test]
fn here_is_the_parents_home() {
    let _limit = limit();
    let runtime = four();
    for index in 0..4 {
        let parent = quick(move |cx| {
            assert_eq!(cx.locality(), index);
            for placement in [None, Some(Placement::Here)] {
                let child = cx.submit(quick(move |cx| assert_eq!(cx.locality(), index)));
                let child = match placement {
                    Some(placement) => child.place(placement),
                    None => child,
                };
                let child = child.start().unwrap();
                assert_eq!(child.locality(), index);
                child.wait().unwrap();
            }
        });
        runtime
            .submit(parent)
            .place(Placement::Locality(index))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    // Outside there is no `Here`.
    let homes: Vec<_> = (0..8)
        .map(|_| {
            runtime
                .submit(quick(|_| {}))
                .place(Placement::Here)
                .start()
                .unwrap()
                .locality()
        })
        .collect();
    assert_eq!(counts(homes), [2; 4]);
}

/// FL-08: `Here` inside a fom of another runtime is no home in this runtime.
#[test]
fn here_is_of_the_same_runtime() {
    let _limit = limit();
    let (runtime, other) = (four(), task::one());
    let inside = quick(move |_| {
        let homes = (0..8).map(|_| {
            runtime
                .submit(quick(|_| {}))
                .place(Placement::Here)
                .start()
                .unwrap()
                .locality()
        });
        assert_eq!(counts(homes), [2; 4]);
    });
    other.submit(inside).start().unwrap().wait().unwrap();
}

/// FL-08: pinned to an index; an index that does not exist is refused, with the operation.
#[test]
fn pinned_by_index() {
    let _limit = limit();
    let runtime = four();
    for index in [3, 0, 2, 1] {
        let pinned = runtime.submit(quick(move |cx| assert_eq!(cx.locality(), index)));
        pinned
            .place(Placement::Locality(index))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    }
    let refused = runtime
        .submit(quick(|_| {}))
        .place(Placement::Locality(4))
        .start()
        .unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::NoSuchLocality);
    let again = runtime
        .submit(refused.into_operation())
        .place(Placement::Locality(0));
    again.start().unwrap().wait().unwrap();
    assert_eq!(runtime.in_flight(), 0);
}

/// FL-08: the least loaded locality is the one with the fewest foms in flight; equal ones take turns.
#[test]
fn least_loaded() {
    let _limit = limit();
    let runtime = four();
    let all: Vec<_> = (0..12)
        .map(|_| {
            runtime
                .submit(stays())
                .place(Placement::LeastLoaded)
                .start()
                .unwrap()
        })
        .collect();
    assert_eq!(counts(all.iter().map(|fom| fom.locality())), [3; 4]);
    // Six more in one locality: the others are filled up first.
    let heavy: Vec<_> = (0..6)
        .map(|_| {
            runtime
                .submit(stays())
                .place(Placement::Locality(2))
                .start()
                .unwrap()
        })
        .collect();
    let more: Vec<_> = (0..18)
        .map(|_| {
            runtime
                .submit(stays())
                .place(Placement::LeastLoaded)
                .start()
                .unwrap()
        })
        .collect();
    assert_eq!(counts(more.iter().map(|fom| fom.locality())), [6, 6, 0, 6]);
    // Ended foms are no load.
    for fom in heavy {
        fom.cancel();
        assert!(fom.wait().is_err());
    }
    let next: Vec<_> = (0..6)
        .map(|_| {
            runtime
                .submit(stays())
                .place(Placement::LeastLoaded)
                .start()
                .unwrap()
        })
        .collect();
    assert_eq!(counts(next.iter().map(|fom| fom.locality())), [0, 0, 6, 0]);
}

/// FL-08: the same number or the same key has the same home, and different ones are spread.
#[test]
fn keys_are_stable_and_spread() {
    let _limit = limit();
    let runtime = four();
    let home_of_number = |n: u64| {
        runtime
            .submit(quick(|_| {}))
            .place(Placement::Key(n))
            .start()
            .unwrap()
            .locality()
    };
    let home_of_key = |n: u64| {
        let handle = runtime
            .submit(quick(|_| {}))
            .key(format!("call {n}"))
            .start()
            .unwrap();
        let home = handle.locality();
        handle.wait().unwrap();
        home
    };
    let numbers: Vec<_> = (0..400).map(home_of_number).collect();
    let keys: Vec<_> = (0..400).map(home_of_key).collect();
    assert_eq!(numbers, (0..400).map(home_of_number).collect::<Vec<_>>());
    assert_eq!(keys, (0..400).map(home_of_key).collect::<Vec<_>>());
    for homes in [numbers, keys] {
        // An even spread is 100 each. A hash is not even, but this far off has a chance of one in many millions.
        let counts = counts(homes);
        assert!(
            counts.iter().all(|count| (40..=180).contains(count)),
            "{counts:?}"
        );
    }
    // An explicit placement goes before the key.
    let placed = runtime
        .submit(quick(|_| {}))
        .key("call 7")
        .place(Placement::Locality(1))
        .start()
        .unwrap();
    assert_eq!(placed.locality(), 1);
    placed.wait().unwrap();
}

/// FL-07: the home is chosen once. The fom runs there, however often it is woken and by any waker.
#[test]
fn a_fom_never_moves() {
    let _limit = limit();
    let runtime = four();
    let homes = Arc::new(Mutex::new(BTreeMap::<u64, Vec<usize>>::new()));
    let _listening = {
        let homes = Arc::clone(&homes);
        runtime.listen(move |transition| {
            let mut homes = homes.lock().unwrap();
            homes
                .entry(transition.id().get())
                .or_default()
                .push(transition.locality());
        })
    };
    async fn wander(cx: &mut Cx<'_>, n: u64) {
        let home = cx.locality();
        for round in 0..20 {
            match (n + round) % 4 {
                0 => drop(cx.enter_block().unwrap()),
                1 => pause().await,
                // Woken by a thread that belongs to no locality.
                2 => {
                    let (tell, told) = tokio::sync::oneshot::channel();
                    std::thread::spawn(move || tell.send(()).unwrap());
                    told.await.unwrap();
                }
                // Woken by another locality.
                _ => {
                    let other = (home + 1) % 4;
                    cx.runtime().call(other, |_| ()).await.unwrap();
                }
            }
            assert_eq!(cx.locality(), home);
            let index = cx.runtime().call(home, |local| local.index()).await;
            assert_eq!(index, Ok(home));
            assert!(
                std::thread::current()
                    .name()
                    .unwrap()
                    .starts_with(&format!("fom-{home}-"))
            );
        }
    }
    let handles: Vec<_> = (0..16)
        .map(|n| {
            let wanders = task(move |cx| Box::pin(wander(cx, n)));
            runtime
                .submit(wanders)
                .place(Placement::Locality(n as usize % 4))
                .start()
                .unwrap()
        })
        .collect();
    for (n, handle) in handles.into_iter().enumerate() {
        let id = handle.id().get();
        assert_eq!(handle.locality(), n % 4);
        handle.wait().unwrap();
        assert_eq!(homes.lock().unwrap()[&id], [n % 4; 2]);
    }
}
