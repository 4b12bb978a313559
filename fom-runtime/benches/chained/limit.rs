//! The least: the operation itself is the node of two lists, one for each direction.

use std::{ptr, thread};

use kit::{Inbox, Node, pin};

use crate::{CALLS, Load, service::Answer};

struct Op {
    next: *mut Self,
    x: u64,
    given: u64,
    left: u32,
}

impl Node for Op {
    fn next(&mut self) -> &mut *mut Self {
        &mut self.next
    }
}

pub(crate) fn start(load: Load) {
    let (there, back) = (Inbox::<Op>::new(), Inbox::<Op>::new());
    thread::spawn(move || {
        pin(1);
        loop {
            for op in there.take() {
                // SAFETY: the operation came by the list; after the push it is the worker's.
                unsafe {
                    let answer = Answer::to((*op).x);
                    (*op).x = answer.x;
                    (*op).given = answer.given;
                    back.push(op);
                }
            }
        }
    });
    thread::spawn(move || {
        pin(0);
        work(load, there, back);
    });
}

fn work(load: Load, there: &Inbox<Op>, back: &Inbox<Op>) -> ! {
    let start = |x| {
        let next = ptr::null_mut();
        let op = Op {
            next,
            x,
            given: 0,
            left: CALLS,
        };
        // SAFETY: the box has no other owner.
        unsafe { there.push(Box::into_raw(Box::new(op))) };
    };
    (0..load.flying as u64).for_each(start);
    loop {
        for op in back.take() {
            // SAFETY: the operation came by the list, and was made by `Box::into_raw`.
            let mut op = unsafe { Box::from_raw(op) };
            let (x, given) = (op.x, op.given);
            op.x = Answer { x, given }.arrived(load.wakes);
            op.left -= 1;
            if op.left > 0 {
                // SAFETY: as in `start`.
                unsafe { there.push(Box::into_raw(op)) };
                continue;
            }
            let x = op.x;
            drop(op);
            load.ended.add_alone();
            start(x);
        }
    }
}
