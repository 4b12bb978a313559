//! The least: the operation itself is the node of two lists, one each way, which are drained by one swap. Whoever finds
//! nothing looks 200 times more before it sleeps.

use std::{
    hint, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence},
    thread::{self, Thread},
};

use kit::pin;

use crate::{CALLS, Load, service::Answer};

struct Op {
    next: *mut Op,
    x: u64,
    given: u64,
    left: u32,
}

/// A stack that is taken as a whole.
#[derive(Default)]
#[repr(align(128))]
struct Inbox {
    head: AtomicPtr<Op>,
    asleep: AtomicBool,
}

impl Inbox {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    fn push(&self, op: *mut Op, reader: &Thread) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: whoever pushes an operation owns it until the exchange below succeeds.
            unsafe { (*op).next = head };
            match self
                .head
                .compare_exchange_weak(head, op, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            reader.unpark();
        }
    }

    /// All that is there, oldest first; sleeps while there is nothing.
    fn take(&self) -> *mut Op {
        loop {
            for _ in 0..200 {
                if !self.head.load(Ordering::Relaxed).is_null() {
                    return reversed(self.head.swap(ptr::null_mut(), Ordering::Acquire));
                }
                hint::spin_loop();
            }
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            while self.head.load(Ordering::SeqCst).is_null() && self.asleep.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

fn reversed(mut from: *mut Op) -> *mut Op {
    let mut to = ptr::null_mut();
    while !from.is_null() {
        // SAFETY: the list was taken by this thread alone, and its operations were written before they were pushed.
        let next = unsafe { std::mem::replace(&mut (*from).next, to) };
        (to, from) = (from, next);
    }
    to
}

pub(crate) fn start(load: Load) {
    let (there, back) = (Inbox::new(), Inbox::new());
    let worker = thread::spawn(move || {
        pin(0);
        // The service's thread.
        thread::park();
        work(load, there, back);
    });
    let reader = worker.thread().clone();
    let service = thread::spawn(move || {
        pin(1);
        loop {
            let mut list = there.take();
            while let Some(op) = ptr::NonNull::new(list) {
                // SAFETY: as in `reversed`; after the push it is the worker's.
                unsafe {
                    list = (*op.as_ptr()).next;
                    let answer = Answer::to((*op.as_ptr()).x);
                    (*op.as_ptr()).x = answer.x;
                    (*op.as_ptr()).given = answer.given;
                }
                back.push(op.as_ptr(), &reader);
            }
        }
    });
    SERVICE.set(service.thread().clone()).expect("one service");
    worker.thread().unpark();
}

static SERVICE: std::sync::OnceLock<Thread> = std::sync::OnceLock::new();

fn work(load: Load, there: &Inbox, back: &Inbox) -> ! {
    let service = loop {
        if let Some(service) = SERVICE.get() {
            break service;
        }
        thread::park();
    };
    let mut ended = 0;
    let start = |x| {
        there.push(
            Box::into_raw(Box::new(Op {
                next: ptr::null_mut(),
                x,
                given: 0,
                left: CALLS,
            })),
            service,
        )
    };
    (0..load.flying as u64).for_each(start);
    loop {
        let mut list = back.take();
        while let Some(op) = ptr::NonNull::new(list) {
            // SAFETY: as in `reversed`; nobody else has it now, and it was made by `Box::into_raw`.
            let mut op = unsafe {
                list = (*op.as_ptr()).next;
                Box::from_raw(op.as_ptr())
            };
            op.x = Answer {
                x: op.x,
                given: op.given,
            }
            .arrived(load.wakes);
            op.left -= 1;
            if op.left > 0 {
                there.push(Box::into_raw(op), service);
            } else {
                let x = op.x;
                drop(op);
                ended += 1;
                load.ended.set(ended);
                start(x);
            }
        }
    }
}
