//! Sleeping on the runtime's clock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    fom::WaitingFor,
    locality::{Core, Locality, TimerKey, with_core},
};

/// A sleep on the runtime's clock; a test's clock ends it too. See [`Cx::sleep`](crate::Cx::sleep).
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    home: Arc<Locality>,
    key: TimerKey,
    /// The waker that it is armed with.
    armed: Option<Waker>,
    /// A job about its timer may be on its way: whatever comes next must not overtake it.
    posted: bool,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("at", &Duration::from_nanos(self.key.at()))
            .finish()
    }
}

impl Sleep {
    pub(crate) fn new(home: Arc<Locality>, time: Duration) -> Self {
        let at = home
            .world
            .clock
            .nanos()
            .saturating_add(crate::clock::nanos(time));
        let key = TimerKey::new(at, home.world.next_number());
        Self {
            home,
            key,
            armed: None,
            posted: false,
        }
    }

    /// With the core of the home: at once on its thread, else as a job. Always as a job after the first one.
    fn at_home(&mut self, f: impl FnOnce(&mut Core) + Send + 'static) {
        let mut f = Some(f);
        if !self.posted {
            with_core(|core| {
                if Arc::ptr_eq(&core.home, &self.home)
                    && let Some(f) = f.take()
                {
                    f(core);
                }
            });
        }
        if let Some(f) = f {
            self.posted = true;
            self.home.post_job(Box::new(f));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let key = self.key;
        if self.home.world.clock.nanos() >= key.at() {
            return Poll::Ready(());
        }
        if !self
            .armed
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            let waker = cx.waker().clone();
            self.armed = Some(waker.clone());
            self.at_home(move |core| core.timers.arm(key, waker));
        }
        // Said at each poll: what a fom waits for is forgotten before each.
        with_core(|core| {
            if let Some(fom) = &core.running {
                fom.header().set_waiting_for(WaitingFor::Timer);
            }
        });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.armed.is_some() {
            let key = self.key;
            self.at_home(move |core| core.timers.disarm(key));
        }
    }
}
