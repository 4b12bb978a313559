//! The least: the state and a link, an allocation each or all in one; waking is a push to the worker's list.

use std::{
    hint::black_box,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use kit::{Figures, One, Tally, pin};

use crate::{Load, State, WORKERS, measure, state};

struct Op {
    next: *mut Op,
    state: State,
}

#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// An allocation each.
    Malloc,
    /// A piece of one.
    Slab,
}

/// What main holds of an operation: a pointer. The worker of it is known from its place.
struct Handle(*mut Op);

// SAFETY: an operation is used by one thread at a time: its worker makes it and sends the handle away, and gets it back
// by the list.
unsafe impl Send for Handle {}

pub(crate) fn run(one: &One, memory: Memory) -> Figures {
    let lists: Arc<[List; WORKERS]> = Arc::default();
    let mut turn = 0;
    let turns = std::cell::RefCell::new(&mut turn);
    let of_main = Arc::clone(&lists);
    let start = |load: Load<Handle>| {
        for n in 0..WORKERS {
            let (load, lists) = (load.clone(), Arc::clone(&lists));
            thread::spawn(move || {
                pin(n);
                park(n, load.each, memory, &load.parked);
                let Load { ended, parked, .. } = load;
                drop(parked);
                finish(&lists[n], &ended[n], memory);
            });
        }
    };
    measure(one, start, |handle| {
        let mut turn = turns.borrow_mut();
        of_main[**turn % WORKERS].push(handle.0);
        **turn += 1;
    })
}

#[derive(Default)]
#[repr(align(128))]
struct List(AtomicPtr<Op>);

impl List {
    fn push(&self, op: *mut Op) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: main alone has the operation until the exchange succeeds.
            unsafe { (*op).next = head };
            match self
                .0
                .compare_exchange_weak(head, op, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

fn park(n: usize, each: usize, memory: Memory, parked: &mpsc::Sender<(usize, Vec<Handle>)>) {
    let new = |x: usize| Op {
        next: ptr::null_mut(),
        state: state(x as u64),
    };
    let mut handles = Vec::with_capacity(each);
    match memory {
        Memory::Malloc => {
            handles.extend((0..each).map(|x| Handle(Box::into_raw(Box::new(new(x))))))
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

fn finish(list: &List, ended: &Tally, memory: Memory) -> ! {
    let (mut count, mut free) = (0, Vec::new());
    loop {
        let mut op = list.0.swap(ptr::null_mut(), Ordering::Acquire);
        if op.is_null() {
            ended.set(count);
            // It would sleep in a futex; main would wake it once for many.
            thread::sleep(Duration::from_micros(20));
        }
        while !op.is_null() {
            // SAFETY: it came by the list, which was taken by this thread alone; made by `Box::into_raw` where it is made
            // a box again.
            unsafe {
                let next = (*op).next;
                black_box((*op).state.iter().sum::<u64>());
                match memory {
                    Memory::Malloc => drop(Box::from_raw(op)),
                    Memory::Slab => free.push(op),
                }
                op = next;
            }
            count += 1;
        }
    }
}
