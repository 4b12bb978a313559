//! What the last heartbeat saw, for callers that wait for a change. The waiters are woken in the order in which they came:
//! `tokio::sync::watch` draws it, and a simulation could not repeat that.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::{Poll, Waker},
};

use fom_protocol::sync::Mutex;

use crate::engine::View;

/// A view that changes with each heartbeat, answered or not.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    view: Arc<View>,
    /// The number of changes.
    version: u64,
    waiting: Vec<Waker>,
}

impl Seen {
    /// Returns the view, and the number of its version.
    pub(crate) fn get(&self) -> (Arc<View>, u64) {
        let inner = self.0.lock();
        (Arc::clone(&inner.view), inner.version)
    }

    /// Sets the view.
    pub(crate) fn set(&self, view: Arc<View>) {
        self.0.lock().view = view;
        self.tell();
    }

    /// Wakes all waiters.
    pub(crate) fn tell(&self) {
        let waiting = {
            let mut inner = self.0.lock();
            inner.version += 1;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until the version is another one.
    pub(crate) fn changed(&self, version: u64) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(move |cx| {
            let mut inner = self.0.lock();
            if inner.version != version {
                return Poll::Ready(());
            }
            // A waiter that has gone stays until the next heartbeat.
            if !inner
                .waiting
                .iter()
                .any(|waker| waker.will_wake(cx.waker()))
            {
                inner.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}
