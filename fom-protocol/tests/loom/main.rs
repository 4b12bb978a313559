//! The lock-free pieces under loom. Loom tries every order of the threads' steps (with at most two forced switches),
//! and every value that a load may see.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_loom" cargo test --release -p fom-protocol --test loom
//! ```
//!
//! A lost wake shows as a deadlock: a thread waits, and no thread calls it. Each model was made to fail by each of
//! its seeded changes to the library, one at a time.
#![cfg(fom_loom)]

mod counters;
mod cycle;
mod free_list;
mod hand_over;
mod handoff_slot;
mod in_flight;
mod inbox;
mod lazy_box;
mod moved;
mod outcome_bits;
mod reply;
mod state;
mod trace_ring;
mod watched;

use std::{ptr::NonNull, sync::Arc};

use fom_protocol::{
    Cancelled, Detached, FomState, FreeList, HandoffSlot, InFlight, Inbox, LazyBox, Link, Linked,
    OutcomeBits, Owner, Reader, ReplyReceiver, ReplySender, Returned, StateCell, Stopped, Taken,
    TraceRing, Waiters, Watched, all_idle, reply,
};
use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, Notify,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` may ask for more.
    model.preemption_bound.get_or_insert(2);
    model.check(f);
}

/// Laid out so that a pointer to the link is a pointer to the item.
#[repr(C)]
struct Content {
    link: Link,
    pusher: usize,
    /// Written by the pusher just before the push, read by the reader: loom reports it when the two are not ordered.
    content: UnsafeCell<usize>,
    /// Counts the items that have not been dropped.
    alive: Option<Arc<()>>,
}

struct Item(Box<Content>);

// SAFETY: the content of a box does not move with it. The holder of the item is alone with its content; the models
// check this.
unsafe impl Send for Item {}

// SAFETY: the content of a box does not move with it.
unsafe impl Linked for Item {
    fn into_link(self) -> NonNull<Link> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    // SAFETY (caller): as `Linked` says.
    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: leaked above, and the link is its beginning.
        Self(unsafe { Box::from_raw(link.cast().as_ptr()) })
    }
}

fn item(pusher: usize, content: usize) -> Item {
    counted(pusher, content, None)
}

fn counted(pusher: usize, content: usize, alive: Option<Arc<()>>) -> Item {
    Item(Box::new(Content {
        link: Link::new(),
        pusher,
        content: UnsafeCell::new(content),
        alive,
    }))
}

impl Item {
    fn content(&self) -> usize {
        // SAFETY: see the impl of `Send`.
        self.0.content.with(|content| unsafe { *content })
    }

    fn set_content(&self, new: usize) {
        // SAFETY: as above.
        self.0.content.with_mut(|content| unsafe { *content = new });
    }
}
