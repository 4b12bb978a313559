//! Sleeping on the runtime's clock.

use std::{
    fmt,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{
    fom::{
        Header, Sleeping, WaitingFor,
        hand::{Sleeper, TimerKey},
    },
    instant::Instant,
    locality::{Core, Home, SharedHome, share, with_core},
};

/// A sleep on the runtime's clock; a test's clock ends it too. See [`Cx::sleep`](crate::Cx::sleep).
///
/// A `Sleep` that outlives its runtime ends with the runtime: without a runtime no timer fires.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    home: SharedHome,
    at: u64,
    armed: Armed,
}

/// What the home knows of a sleep.
enum Armed {
    /// Nothing.
    Not,
    /// The thread that held the core made this entry, which may have fired.
    Here(TimerKey),
    /// A job about the timer may be on its way, which later changes must not overtake. So they are jobs, too.
    ByJob(Option<Arc<Sleeper>>),
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("at", &Instant::from_nanos(self.at))
            .finish()
    }
}

impl Sleep {
    /// A sleep with its timer in the locality that the fom lives in.
    pub(crate) fn of(fom: &Header, time: Duration) -> Self {
        let here = with_core(|core| {
            let here = core.home.is(fom.env(), fom.home_index());
            here.then(|| (SharedHome::clone(&core.home.shared), core.look()))
        });
        match here.flatten() {
            Some((home, now)) => Self::with(home, now, time),
            None => Self::new(Home::of(fom), time),
        }
    }

    pub(crate) fn new(home: Home, time: Duration) -> Self {
        let now = home.env().clock.nanos();
        Self::with(share(home), now, time)
    }

    fn with(home: SharedHome, now: u64, time: Duration) -> Self {
        Self {
            home,
            at: now.saturating_add(fom_protocol::nanos(time)),
            armed: Armed::Not,
        }
    }

    /// Runs `f` with the core of the home, if this thread holds it. `f` must not drop the user's wakers.
    fn here<R>(&self, f: impl FnOnce(&mut Core) -> R) -> Option<R> {
        with_core(|core| {
            let here = core.home.is(self.home.env(), self.home.index);
            here.then(|| f(core))
        })
        .flatten()
    }

    /// Returns whether the time has come, as far as that is known without the entry in the home. In the home, the time
    /// may be some steps old: then the entry fires soon.
    fn is_over(&self) -> bool {
        match self.armed {
            Armed::Here(_) => false,
            Armed::Not => match self.here(|core| core.now()) {
                Some(now) => now >= self.at,
                None => self.is_due(),
            },
            Armed::ByJob(_) => self.is_due(),
        }
    }

    /// Reads the clock.
    fn is_due(&self) -> bool {
        self.home.env().clock.nanos() >= self.at
    }

    /// Arms the sleep, or gives it the waker of this poll. Returns `Ready` if its entry has fired or is due.
    fn arm(&mut self, waker: &Waker) -> Poll<()> {
        match &self.armed {
            Armed::Not => {}
            Armed::Here(key) => {
                let wakes = self.here(|core| core.timers.entry_wakes(*key, waker));
                if wakes == Some(None) {
                    self.armed = Armed::Not;
                    return Poll::Ready(());
                }
                // This poll is not the timer's, or it is elsewhere.
                if self.is_due() {
                    return Poll::Ready(());
                }
                if wakes == Some(Some(true)) {
                    return Poll::Pending;
                }
                self.disarm();
            }
            Armed::ByJob(None) => {}
            Armed::ByJob(Some(sleeper)) => {
                let old = {
                    let mut armed = sleeper.waker.lock();
                    match &*armed {
                        Some(armed) if armed.will_wake(waker) => return Poll::Pending,
                        Some(_) => armed.replace(waker.clone()),
                        // It has fired just now, by a clock that is ahead of the one read here.
                        None => None,
                    }
                };
                if let Some(old) = old {
                    // The waker may be the user's, so it is dropped without the lock.
                    drop(old);
                    return Poll::Pending;
                }
            }
        }
        let mut own = Some(waker.clone());
        if matches!(self.armed, Armed::Not) {
            let entry = |core: &mut Core| Some(core.timers.arm_entry(own.take()?, self.at));
            if let Some(key) = self.here(entry).flatten() {
                self.armed = Armed::Here(key);
                return Poll::Pending;
            }
        }
        let Some(own) = own else {
            return Poll::Pending;
        };
        let sleeper = Sleeper::new(own);
        self.armed = Armed::ByJob(Some(Arc::clone(&sleeper)));
        let (at, arming) = (self.at, Arming(Some(sleeper)));
        self.home
            .post_job(Box::new(move |core| arming.arm(core, at)));
        Poll::Pending
    }

    fn disarm(&mut self) {
        match mem::replace(&mut self.armed, Armed::Not) {
            Armed::Not => {}
            Armed::Here(key) => {
                let waker = self.here(|core| core.timers.disarm_entry(key));
                if waker.is_none() {
                    self.armed = Armed::ByJob(None);
                    self.home.post_job(Box::new(move |core| {
                        drop(core.timers.disarm_entry(key));
                    }));
                }
            }
            Armed::ByJob(sleeper) => {
                self.armed = Armed::ByJob(None);
                let Some(sleeper) = sleeper else { return };
                let waker = sleeper.waker.lock().take();
                // Without a waker it has fired, and nothing is armed.
                if waker.is_some() {
                    self.home.post_job(Box::new(move |core| {
                        core.timers.disarm_sleeper(&sleeper);
                    }));
                }
            }
        }
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
        if self.home.is_closed() || self.is_over() || self.arm(cx.waker()).is_ready() {
            return Poll::Ready(());
        }
        // Said at each poll, because what a fom waits for is forgotten before each.
        WaitingFor::Timer.say();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
