//! Sleeping on the runtime's clock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::locality::{Core, Due, Locality, TimerKey, with_core};

/// A sleep on the runtime's clock; a test's clock ends it too. See [`Cx::sleep`](crate::Cx::sleep).
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    home: Arc<Locality>,
    at: u64,
    armed: Option<(TimerKey, Waker)>,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("at", &Duration::from_nanos(self.at)).finish()
    }
}

impl Sleep {
    pub(super) fn new(home: Arc<Locality>, time: Duration) -> Self {
        let at = home.world.clock.nanos().saturating_add(crate::clock::nanos(time));
        Self { home, at, armed: None }
    }

    /// With the core of the home, if this thread holds it.
    fn at_home<R>(&self, f: impl FnOnce(&mut Core) -> R) -> Option<R> {
        with_core(|core| Arc::ptr_eq(&core.home, &self.home).then(|| f(core))).flatten()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.home.world.clock.nanos() >= self.at {
            return Poll::Ready(());
        }
        if self.armed.as_ref().is_some_and(|(_, waker)| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        self.disarm();
        let (at, waker) = (self.at, cx.waker().clone());
        if let Some(key) = self.at_home(|core| core.timers.arm(at, Due::Waker(waker.clone()))) {
            self.armed = Some((key, waker));
        } else {
            // Polled by somebody else's task. Without a key it cannot be taken out again, and wakes in vain at worst.
            self.home.post_job(Box::new(move |core| {
                core.timers.arm(at, Due::Waker(waker));
            }));
        }
        Poll::Pending
    }
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some((key, _)) = self.armed.take()
            && self.at_home(|core| core.timers.disarm(key)).is_none()
        {
            self.home.post_job(Box::new(move |core| core.timers.disarm(key)));
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
