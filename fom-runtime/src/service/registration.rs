//! What the owner of a service holds.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::service::{
    CallCause, CancelledBy, Happened, LifeError, ServiceState, Services,
    entry::Entry,
    events::Tell,
    life::{Leaving, current_fom, spawn, start_one, stop_one, unanswered},
    registry::Registry,
};

/// What becomes of the calls that run when a service is unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// They come to their end.
    Finish,
    /// They are told to end: an async function is dropped at its next wait, a plain one sees
    /// [`Cx::is_cancelled`](crate::Cx::is_cancelled), and what it returns counts nevertheless.
    Stop,
}

/// A service that is registered, in the hands of its owner. Dropping it unregisters the service, and does not wait: calls that wait
/// are answered with [`CancelledBy::Unregistered`], calls that run come to their end.
#[must_use = "the service is unregistered when this is dropped"]
pub struct Registration {
    services: Services,
    entry: Arc<Entry>,
    is_left: bool,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("service", &self.entry.name)
            .field("owner", &self.entry.owner)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Registration {
    pub(super) fn new(services: Services, entry: Arc<Entry>) -> Self {
        Self {
            services,
            entry,
            is_left: false,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its state.
    pub fn state(&self) -> ServiceState {
        self.entry.state()
    }

    /// Starts it, if it is not started.
    ///
    /// # Errors
    ///
    /// [`LifeError`]; with [`LifeError::Failed`] it is [`Failed`](ServiceState::Failed), and may be started again.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on.
    pub async fn start(&self) -> Result<(), LifeError> {
        let (tell, told) = oneshot::channel();
        let Services { world, registry } = self.services.clone();
        let entry = Arc::clone(&self.entry);
        let task = async move {
            // Who asked may have gone.
            let _ = tell.send(start_one(&world, &registry, &entry).await);
        };
        spawn(&self.services.world, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await
            .unwrap_or_else(|_| Err(unanswered(&self.services.world)))
    }

    /// Stops it: what was admitted runs to its end, more is taken only if the service [accepts](crate::service::Provider::accepts)
    /// it. Called in a call of its own, it does not wait for that one.
    ///
    /// # Errors
    ///
    /// [`LifeError::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on.
    pub async fn stop(&self) -> Result<(), LifeError> {
        let but = current_fom();
        let (tell, told) = oneshot::channel();
        let Services { world, registry } = self.services.clone();
        let entry = Arc::clone(&self.entry);
        let task = async move {
            stop_one(&world, &registry, &entry, but).await;
            // Who asked may have gone.
            let _ = tell.send(());
        };
        spawn(&self.services.world, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await.map_err(|_| unanswered(&self.services.world))
    }

    /// Resolves when it has no calls: none that wait and none that run, but the one that this is called in.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn idle(&self) {
        // It is answered: the service is held here.
        let _ = self.entry.idle(current_fom()).await;
    }

    /// Unregisters it. The name is free at once. Calls that wait are answered with [`CancelledBy::Unregistered`] and get their
    /// arguments back; those that run, as `running` says. Other owners' calls are not touched. Resolves when nothing of the service
    /// runs any more, its stop is over, and its functions are dropped; called in a call of its own, it does not wait for that one.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on.
    pub async fn unregister(mut self, running: Running) {
        let but = current_fom();
        self.withdraw(running, but);
        let (tell, told) = oneshot::channel();
        self.finish(but, Some(tell));
        if told.await.is_err() && !self.services.world.is_closed() {
            // The fom that did it was cancelled.
            let _ = self.entry.idle(but).await;
        }
    }

    fn withdraw(&mut self, running: Running, but: Option<crate::FomId>) {
        self.is_left = true;
        let Services { world, registry } = &self.services;
        registry.withdraw(world, &self.entry);
        let cause = || {
            CallCause::Cancelled(CancelledBy::Unregistered {
                service: self.entry.name.clone(),
                owner: self.entry.owner.clone(),
            })
        };
        for call in self.entry.calls() {
            let done = super::caught(|| {
                if !call.cancel_waiting(cause())
                    && running == Running::Stop
                    && (but.is_none() || call.fom() != but)
                {
                    call.stop(cause());
                }
            });
            if let Err(panic) = done {
                world.incident(format!("a call could not be cancelled: {panic}"));
            }
        }
    }

    fn finish(&self, but: Option<crate::FomId>, tell: Option<oneshot::Sender<()>>) {
        let Services { world, registry } = self.services.clone();
        let leaving = Leaving {
            world,
            registry,
            entry: Arc::clone(&self.entry),
        };
        if self.entry.life(|life| life.is_empty()) && !self.entry.stops {
            return;
        }
        let task = async move {
            leaving.finish(but).await;
            // Who asked may have gone.
            let _ = tell.map(|tell| tell.send(()));
        };
        // Refused, it is dropped, and does what can be done.
        drop(spawn(&self.services.world, task));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_left {
            self.withdraw(Running::Finish, None);
            self.finish(None, None);
        }
    }
}

impl Registry {
    /// Takes a service out: its name is free, and no call finds it any more.
    fn withdraw(&self, world: &Arc<crate::runtime::World>, entry: &Arc<Entry>) {
        let mut tell = Tell::default();
        {
            let mut names = self.names.lock();
            names.by_name.remove(&entry.name);
            names.leaving.push(Arc::clone(entry));
            names
                .watchers
                .tell(entry, Happened::Unregistered, &mut tell);
            let now = world.clock.nanos();
            entry.leave(now);
        }
        tell.all(world);
    }
}
