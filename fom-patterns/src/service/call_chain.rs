//! The chains of calls that wait for each other. A call that queues behind a call that waits for it would wait forever.

use std::{cell::RefCell, sync::Arc};

use fom_protocol::sync::{Mutex, thread_local};
use fom_runtime::Key;

/// The most links to follow. A longer chain counts as one that does not close.
const FAR: usize = 1000;

/// A call: the key that it holds while its function runs, and the call that waits for its answer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: Option<Key>,
    pub(super) awaited_in: Mutex<Option<Arc<Link>>>,
}

impl Link {
    pub(super) fn new(key: Option<Key>) -> Arc<Self> {
        Arc::new(Self {
            key,
            awaited_in: Mutex::new(None),
        })
    }

    /// Returns whether this call, or a call that waits for it, holds the key.
    pub(super) fn holds(self: &Arc<Self>, key: &Key) -> bool {
        let mut link = Arc::clone(self);
        for _ in 0..FAR {
            if link.key.as_ref() == Some(key) {
                return true;
            }
            let above = link.awaited_in.lock().clone();
            match above {
                Some(above) => link = above,
                None => return false,
            }
        }
        false
    }
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "shuttle has none")]
    static CURRENT: RefCell<Option<Arc<Link>>> = RefCell::new(None);
}

/// Returns the call that runs on this thread.
pub(super) fn current() -> Option<Arc<Link>> {
    CURRENT.with(|link| link.borrow().clone())
}

/// Runs `f` as part of this call.
pub(super) fn inside<R>(link: &Arc<Link>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<Link>>);

    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.with(|link| *link.borrow_mut() = self.0.take());
        }
    }

    let before = CURRENT.with(|now| now.replace(Some(Arc::clone(link))));
    let _back = Back(before);
    f()
}
