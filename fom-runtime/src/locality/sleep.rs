//! Sleeping on the runtime's clock.

use std::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    fom::{Sleeping, WaitingFor, hand::Sleeper},
    instant::Instant,
    locality::{Core, Home, with_core},
};

/// A sleep on the runtime's clock; a test's clock ends it too. See [`Cx::sleep`](crate::Cx::sleep).
///
/// A `Sleep` that outlives its runtime ends with the runtime: without a runtime no timer fires.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    home: Home,
    at: u64,
    /// The sleeper that is armed.
    armed: Option<Arc<Sleeper>>,
    /// Whether a job about the timer may be on its way, which later changes must not overtake.
    posted: bool,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("at", &Instant::from_nanos(self.at))
            .finish()
    }
}

impl Sleep {
    pub(crate) fn new(home: Home, time: Duration) -> Self {
        let at = home
            .env()
            .clock
            .nanos()
            .saturating_add(fom_protocol::nanos(time));
        Self {
            home,
            at,
            armed: None,
            posted: false,
        }
    }

    /// Runs `f` with the core of the home: at once on its thread, else as a job. After the first job, always as a
    /// job.
    fn at_home(&mut self, f: impl FnOnce(&mut Core) + Send + 'static) {
        let mut f = Some(f);
        if !self.posted {
            with_core(|core| {
                if core.home.is(self.home.env(), self.home.index)
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

    /// Arms the sleep, or gives it the waker of this poll.
    fn arm(&mut self, waker: &Waker) {
        if let Some(sleeper) = &self.armed {
            let old = {
                let mut armed = sleeper.waker.lock();
                match &*armed {
                    Some(armed) if armed.will_wake(waker) => return,
                    Some(_) => armed.replace(waker.clone()),
                    // It has fired just now, by a clock that is ahead of the one read here.
                    None => None,
                }
            };
            if let Some(old) = old {
                // The waker may be the user's, so it is dropped without the lock.
                drop(old);
                return;
            }
        }
        let sleeper = Sleeper::new(waker.clone());
        self.armed = Some(Arc::clone(&sleeper));
        let (at, arming) = (self.at, Arming(Some(sleeper)));
        self.at_home(move |core| arming.arm(core, at));
    }
}

/// A sleeper on its way into its locality. If the locality has ended, the sleeper does not arrive there and is woken.
struct Arming(Option<Arc<Sleeper>>);

impl Arming {
    fn arm(mut self, core: &mut Core, at: u64) {
        if let Some(sleeper) = self.0.take() {
            core.timers.arm_sleeper(&sleeper, at);
        }
    }
}

impl Drop for Arming {
    fn drop(&mut self) {
        let waker = self.0.take().and_then(|it| it.waker.lock().take());
        if let Some(waker) = waker {
            // The waker may belong to another executor, and this may be any thread.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl Sleeping for Sleep {
    fn until(&self) -> u64 {
        self.at
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.home.env().clock.nanos() >= self.at || self.home.is_closed() {
            return Poll::Ready(());
        }
        self.arm(cx.waker());
        // Said at each poll, because what a fom waits for is forgotten before each.
        WaitingFor::Timer.say();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(sleeper) = self.armed.take() {
            let waker = sleeper.waker.lock().take();
            // Without a waker it has fired, and nothing is armed.
            if waker.is_some() {
                self.at_home(move |core| core.timers.disarm_sleeper(&sleeper));
            }
        }
    }
}
