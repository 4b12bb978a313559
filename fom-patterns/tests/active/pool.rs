//! Pools of active objects, through the same proxies.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use fom_patterns::{active::Pool, prelude::*};
use fom_runtime::time::TestClock;

use crate::kit::{self, limited, many};

struct Desk {
    number: usize,
    open: bool,
}

#[active]
impl Desk {
    pub fn number(&self) -> usize {
        self.number
    }

    pub fn open(&mut self) {
        self.open = true;
    }

    #[when(self.open)]
    pub fn serve(&mut self) -> usize {
        self.number
    }
}

fn desk(number: usize) -> fom_patterns::active::Activation<Desk> {
    Desk {
        number,
        open: false,
    }
    .activation()
}

/// AO-08: a pool gives each call to the object with the least work, through the proxy of a single object. The objects are
/// spread over the localities.
#[test]
fn calls_go_to_a_free_object() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let desks = Pool::start(&runtime, 3, desk).unwrap();
        let homes: Vec<_> = desks.all().iter().map(|desk| desk.locality()).collect();
        assert_eq!(homes, [0, 1, 0]);
        // One call keeps each object busy, so that the next call goes to another object.
        let waiting: Vec<_> = (0..3).map(|_| desks.free().serve()).collect();
        let mut queued: Vec<_> = desks.all().iter().map(|desk| desk.queued()).collect();
        assert_eq!(queued, [1, 1, 1]);
        desks.all()[1].open().await.unwrap();
        runtime.quiet().await;
        // The object that has become free gets all calls.
        for _ in 0..4 {
            assert_eq!(desks.free().number().await.unwrap(), 1);
            // The call is answered before the object is done with it.
            runtime.quiet().await;
        }
        for desk in desks.all() {
            desk.open().await.unwrap();
        }
        queued.clear();
        for call in waiting {
            queued.push(call.await.unwrap());
        }
        queued.sort_unstable();
        assert_eq!(queued, [0, 1, 2]);
    });
}

/// AO-08: one key, one object.
#[test]
fn calls_of_one_key_go_to_one_object() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let desks = Pool::start(&runtime, 4, desk).unwrap();
        let other = desks.clone();
        for key in ["ada", "bob", "cy", "dee"] {
            let first = desks.by_key(key).number().await.unwrap();
            for _ in 0..3 {
                assert_eq!(other.by_key(key.to_owned()).number().await.unwrap(), first);
            }
        }
        drop((desks, other));
        runtime.idle().await;
    });
}

/// A pool of none would have no object to call, so it has one.
#[test]
fn a_pool_has_one_object_at_least() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let desks = Pool::start(&runtime, 0, desk).unwrap();
        assert_eq!(desks.free().number().await.unwrap(), 0);
        runtime.shutdown_blocking(Shutdown::Now, kit::secs(5));
        let refused = Pool::start(&runtime, 2, desk).unwrap_err();
        assert_eq!(refused.object.number, 0);
    });
}
