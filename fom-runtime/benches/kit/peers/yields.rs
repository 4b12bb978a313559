//! Yielding for executors that have no way of their own, or a slower one.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Wakes itself and waits: the cost of a task that is queued again.
pub fn self_wake() -> impl Future<Output = ()> {
    let mut woken = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A yield for monoio, which puts a task that wakes itself at the *front* of its queue (its issues 322 and 370). No
/// other task would ever run. So tasks put their wakers in a list, which a helper task wakes when its turn comes.
#[derive(Debug, Default)]
pub struct DeferredYield {
    wakers: RefCell<Vec<Waker>>,
    spare: RefCell<Vec<Waker>>,
    helper: RefCell<Option<Waker>>,
    called: Cell<bool>,
}

impl DeferredYield {
    /// Makes one that lives forever. The caller must also spawn [`help`](Self::help).
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Runs the helper task.
    pub async fn help(&self) {
        poll_fn(|cx| {
            self.called.set(false);
            let mut wakers = std::mem::replace(&mut *self.wakers.borrow_mut(), self.spare.take());
            wakers.drain(..).for_each(Waker::wake);
            self.spare.replace(wakers);
            let mut helper = self.helper.borrow_mut();
            if helper
                .as_ref()
                .is_none_or(|helper| !helper.will_wake(cx.waker()))
            {
                *helper = Some(cx.waker().clone());
            }
            Poll::<()>::Pending
        })
        .await;
    }

    /// Goes to the tail of the queue.
    pub fn yields(&self) -> impl Future<Output = ()> + use<'_> {
        Yield {
            of: self,
            put_down: false,
        }
    }
}

struct Yield<'a> {
    of: &'a DeferredYield,
    put_down: bool,
}

impl Future for Yield<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.put_down, true) {
            return Poll::Ready(());
        }
        self.of.wakers.borrow_mut().push(cx.waker().clone());
        if !self.of.called.replace(true)
            && let Some(helper) = &*self.of.helper.borrow()
        {
            helper.wake_by_ref();
        }
        Poll::Pending
    }
}
