//! The least for a wake by another thread: a list with the operations themselves as nodes.

use std::{
    fmt, hint, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
    thread::{self, Thread},
};

/// A type that can be in an [`Inbox`].
pub trait Node {
    /// Returns its link.
    fn next(&mut self) -> &mut *mut Self;
}

/// A stack: the reader takes everything with one swap, and looks 200 times before it sleeps.
#[repr(align(128))]
pub struct Inbox<T> {
    head: AtomicPtr<T>,
    asleep: AtomicBool,
    reader: OnceLock<Thread>,
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            asleep: AtomicBool::new(false),
            reader: OnceLock::new(),
        }
    }
}

impl<T: Node> Inbox<T> {
    /// Makes an inbox that lives forever.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Adds a node, from any thread.
    ///
    /// # Safety
    ///
    /// The node must be valid and owned by the caller alone. From this call on it is the reader's.
    pub unsafe fn push(&self, node: *mut T) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is the caller's until the exchange succeeds.
            unsafe { *(*node).next() = head };
            match self
                .head
                .compare_exchange_weak(head, node, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        // Either this thread sees that the reader is about to sleep, or the reader sees the node: both threads write
        // before they look.
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(reader) = self.reader.get()
        {
            reader.unpark();
        }
    }

    /// Takes all nodes, oldest first; sleeps while there are none. Always call it from the same thread.
    pub fn take(&self) -> Taken<T> {
        self.reader.get_or_init(thread::current);
        loop {
            for _ in 0..200 {
                if !self.head.load(Ordering::Relaxed).is_null() {
                    return Taken::new(self.head.swap(ptr::null_mut(), Ordering::Acquire));
                }
                hint::spin_loop();
            }
            self.asleep.store(true, Ordering::SeqCst);
            while self.head.load(Ordering::SeqCst).is_null() && self.asleep.load(Ordering::SeqCst) {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

/// The taken nodes. A node that the caller does not take out is leaked.
#[derive(Debug)]
pub struct Taken<T>(*mut T);

impl<T: Node> Taken<T> {
    fn new(mut newest: *mut T) -> Self {
        let mut oldest = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the list was taken by this thread alone, and its nodes were written before they were pushed.
            let next = unsafe { std::mem::replace((*newest).next(), oldest) };
            (oldest, newest) = (newest, next);
        }
        Self(oldest)
    }
}

impl<T: Node> Iterator for Taken<T> {
    type Item = *mut T;

    fn next(&mut self) -> Option<*mut T> {
        let node = ptr::NonNull::new(self.0)?.as_ptr();
        // SAFETY: as in `new`.
        self.0 = unsafe { *(*node).next() };
        Some(node)
    }
}
