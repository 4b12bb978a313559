//! Which keys a call holds while its function runs, and those that wait for it: who stands behind itself would wait for ever.

use std::{cell::RefCell, sync::Arc};

use crate::{id::Key, sync::thread_local};

/// One key, and those of the calls that wait for this one.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: Key,
    pub(super) above: Option<Arc<Held>>,
}

thread_local! {
    static HELD: RefCell<Option<Arc<Held>>> = RefCell::new(None);
}

/// What is held by the call that runs on this thread.
pub(super) fn current() -> Option<Arc<Held>> {
    HELD.with(|held| held.borrow().clone())
}

/// Runs `f` as part of a call that holds this.
pub(super) fn holding<R>(held: &Option<Arc<Held>>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<Held>>);

    impl Drop for Back {
        fn drop(&mut self) {
            HELD.with(|held| *held.borrow_mut() = self.0.take());
        }
    }

    let before = HELD.with(|now| now.replace(held.clone()));
    let _back = Back(before);
    f()
}

/// Whether this key is among them.
pub(super) fn contains(mut held: Option<&Arc<Held>>, key: &Key) -> bool {
    while let Some(one) = held {
        if one.key == *key {
            return true;
        }
        held = one.above.as_ref();
    }
    false
}
