//! The localities of a runtime, and what their handlers share.

use std::{
    ops::Deref,
    slice,
    sync::{Arc, Weak},
};

use crate::{
    balance::Balance,
    fom::{Env, EnvRef, EnvSettings, Header, Host, hand::BudgetLimits},
    heap::Heap,
    locality::{BlockWatch, IdleSet, Locality, Spawner},
};
use fom_protocol::Waiters;

/// What the handlers of a runtime tell it.
pub(crate) trait Owner: Send + Sync {
    /// Wakes the callers that wait until no fom is in flight, if there is none.
    fn tell_idle(&self);

    /// Called once by each locality, when it has ended.
    fn locality_ended(&self);
}

/// The localities of a runtime, and what their handlers share. It derefs to the localities. Its host begins with it.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
#[repr(C)]
pub struct Localities {
    /// First: see [`Localities::of`].
    pub(crate) env: Env,
    owner: Weak<dyn Owner>,
    /// The callers that wait until no fom is in flight.
    pub(crate) waiters: Waiters,
    pub(crate) spawner: Spawner,
    pub(crate) block_watch: BlockWatch,
    pub(crate) budget: BudgetLimits,
    pub(crate) balance: Balance,
    /// The localities that want foms, if foms are moved.
    pub(crate) idle_set: IdleSet,
    /// How long a handler looks for work before it sleeps, in nanoseconds.
    #[cfg_attr(
        fom_shuttle,
        allow(dead_code, reason = "the model's reactor knows no time")
    )]
    pub(crate) spin: u64,
    pub(crate) heap: Heap,
    all: Box<[Locality]>,
}

/// The settings of [`Localities`].
pub(crate) struct Settings {
    pub(crate) env: EnvSettings,
    pub(crate) spawner: Spawner,
    pub(crate) budget: BudgetLimits,
    pub(crate) balance: Balance,
    /// How long a handler looks for work before it sleeps, in nanoseconds.
    pub(crate) spin: u64,
    pub(crate) localities: Box<[Locality]>,
}

impl Localities {
    /// Creates the beginning of a host.
    pub(crate) fn new<H: Host + Owner>(host: &Weak<H>, settings: Settings) -> Self {
        let all = settings.localities;
        let homes = all.iter().map(|home| Arc::clone(&home.foms)).collect();
        Self {
            env: Env::new(host, settings.env, homes),
            owner: host.clone(),
            waiters: Waiters::default(),
            spawner: settings.spawner,
            block_watch: BlockWatch::default(),
            budget: settings.budget,
            balance: settings.balance,
            idle_set: IdleSet::new(all.len()),
            spin: settings.spin,
            heap: Heap::default(),
            all,
        }
    }

    /// Returns a time that no timer precedes, or `None` if no timer is armed. A locality that has ended has none.
    pub(crate) async fn next_timer(&self) -> Option<u64> {
        let mut next = None;
        for home in &self.all {
            let (tell, told) = tokio::sync::oneshot::channel();
            home.post_job(Box::new(move |core| {
                // The caller may be gone.
                let _ = tell.send(core.timers.next_at());
            }));
            next = next.into_iter().chain(told.await.ok().flatten()).min();
        }
        next
    }

    /// Returns the localities of a runtime.
    #[inline]
    pub(crate) fn of(env: &EnvRef) -> &Self {
        // SAFETY: `EnvRef::new` has checked that the host begins with its environment. `Localities::new` alone makes an
        // environment, as the first field, so the localities begin there, too. The pointer may be used for the whole
        // host, and `env` keeps the host alive.
        unsafe { env.start().cast::<Self>().as_ref() }
    }

    /// Wakes the callers that wait until no fom is in flight, if there is none. Called when a handler has nothing to
    /// run, and when a count went down.
    pub(crate) fn tell_idle(&self) {
        if self.waiters.any()
            && let Some(owner) = self.owner.upgrade()
        {
            owner.tell_idle();
        }
    }

    /// Notes that one of the localities has ended.
    pub(super) fn one_ended(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.locality_ended();
        }
    }
}

impl Locality {
    /// Returns the locality that the fom lives in.
    pub(crate) fn of(fom: &Header) -> &Self {
        &Localities::of(fom.env())[fom.home_index()]
    }
}

impl Deref for Localities {
    type Target = [Locality];

    #[inline]
    fn deref(&self) -> &[Locality] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a Localities {
    type Item = &'a Locality;
    type IntoIter = slice::Iter<'a, Locality>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}
