//! The least: the state and a link, in one allocation each or in one for all. A wake is a push to the worker's list.

use std::{cell::Cell, hint::black_box, ptr, sync::mpsc, thread};

use kit::{Figures, Inbox, Node, One, pin};

use crate::{Load, Message, State, WORKERS, measure, state};

struct Op<M> {
    next: *mut Self,
    state: State,
    event: M,
}

impl<M> Node for Op<M> {
    fn next(&mut self) -> &mut *mut Self {
        &mut self.next
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// An allocation for each operation.
    Malloc,
    /// A piece of one allocation.
    Slab,
}

/// What the main thread holds of an operation: a pointer. The turn tells which worker it belongs to.
struct Handle<M>(*mut Op<M>);

// SAFETY: one thread at a time uses an operation. Its worker makes it, sends the handle away, and gets the operation
// back by its inbox.
unsafe impl<M: Send> Send for Handle<M> {}

pub(crate) fn run<M: Message>(one: &One, memory: Memory) -> Figures {
    let inboxes: [&'static Inbox<Op<M>>; WORKERS] = std::array::from_fn(|_| Inbox::new());
    let turn = Cell::new(0);
    let start = |load: Load<Handle<M>>| {
        for (n, inbox) in inboxes.into_iter().enumerate() {
            let load = load.clone();
            thread::spawn(move || {
                pin(n);
                park(n, load.each, memory, &load.parked);
                finish(inbox, &load, n, memory);
            });
        }
    };
    measure(one, start, |handle| {
        // SAFETY: its worker gave it away, and gets it back by its inbox.
        unsafe {
            (*handle.0).event = M::default();
            inboxes[turn.get() % WORKERS].push(handle.0);
        }
        turn.set(turn.get() + 1);
    })
}

fn park<M: Message>(
    n: usize,
    each: usize,
    memory: Memory,
    parked: &mpsc::Sender<(usize, Vec<Handle<M>>)>,
) {
    let new = |x: usize| Op {
        next: ptr::null_mut(),
        state: state(x as u64),
        event: M::default(),
    };
    let mut handles = Vec::with_capacity(each);
    match memory {
        Memory::Malloc => {
            handles.extend((0..each).map(|x| Handle(Box::into_raw(Box::new(new(x))))));
        }
        Memory::Slab => {
            let mut slab = Vec::with_capacity(each);
            slab.extend((0..each).map(new));
            handles.extend(slab.leak().iter_mut().map(|op| Handle(ptr::from_mut(op))));
        }
    }
    parked
        .send((n, handles))
        .unwrap_or_else(|_| unreachable!("main waits"));
}

fn finish<M: Message>(inbox: &Inbox<Op<M>>, load: &Load<Handle<M>>, n: usize, memory: Memory) -> ! {
    let mut free = Vec::with_capacity(load.each);
    loop {
        for op in inbox.take() {
            // SAFETY: the operation came by the list. `Box::into_raw` made it, in the case that turns it into a box
            // again.
            unsafe {
                black_box((*op).state.iter().sum::<u64>() + (*op).event.value());
                match memory {
                    Memory::Malloc => drop(Box::from_raw(op)),
                    Memory::Slab => free.push(op),
                }
            }
            load.ended[n].add_alone();
        }
    }
}
