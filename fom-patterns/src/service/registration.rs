//! The handle of a service's owner.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::service::{
    CallCause, CancelledBy, Happened, LifeError, ServiceState, Services,
    entry::Entry,
    events::Tell,
    lifecycle::{Leaving, spawn, start_one, stop_one, unanswered},
    registry::Registry,
};
use fom_runtime::{FomId, Runtime, extension::RuntimeState};

/// The treatment of running calls when a service is unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// They run to their end.
    Finish,
    /// They are told to end: an async function is dropped at its next wait. A plain function sees
    /// [`Cx::is_cancelled`](fom_runtime::Cx::is_cancelled), and its result still counts.
    Stop,
}

/// A registered service, held by its owner. Dropping it unregisters the service without waiting: waiting calls fail
/// with [`CancelledBy::Unregistered`], and running calls run to their end.
#[must_use = "the service is unregistered when this value is dropped"]
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

    /// Returns the name of the service.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the state of the service.
    pub fn state(&self) -> ServiceState {
        self.entry.state()
    }

    /// Starts the service, unless it is started.
    ///
    /// # Errors
    ///
    /// [`LifeError`]. After [`LifeError::Failed`] the service is [`Failed`](ServiceState::Failed) and can be started
    /// again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the start continues.
    pub async fn start(&self) -> Result<(), LifeError> {
        let (tell, told) = oneshot::channel();
        let Services { runtime, registry } = self.services.clone();
        let entry = Arc::clone(&self.entry);
        let task = async move {
            // The caller may be gone.
            let _ = tell.send(start_one(&runtime, &registry, &entry).await);
        };
        spawn(&self.services.runtime, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await
            .unwrap_or_else(|_| Err(unanswered(&self.services.runtime)))
    }

    /// Stops the service. Admitted calls run to their end. More calls are admitted only if the service
    /// [accepts](crate::service::Provider::accepts) them. A call that stops its own service is not waited for.
    ///
    /// # Errors
    ///
    /// [`LifeError::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the stop continues.
    pub async fn stop(&self) -> Result<(), LifeError> {
        let but = self.services.runtime.current_fom();
        let (tell, told) = oneshot::channel();
        let Services { runtime, registry } = self.services.clone();
        let entry = Arc::clone(&self.entry);
        let task = async move {
            stop_one(&runtime, &registry, &entry, but).await;
            // The caller may be gone.
            let _ = tell.send(());
        };
        spawn(&self.services.runtime, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await.map_err(|_| unanswered(&self.services.runtime))
    }

    /// Resolves when the service has no waiting and no running call, other than the call that awaits this.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn idle(&self) {
        // Never fails: the entry is held here, and with it the sender.
        let but = self.services.runtime.current_fom();
        let _ = self.entry.idle(but).await;
    }

    /// Unregisters the service. The name is free at once. Waiting calls fail with [`CancelledBy::Unregistered`] and get
    /// their arguments back. `running` says what happens to running calls. Calls of other owners' services are not
    /// touched.
    ///
    /// Resolves when nothing of the service runs, its stop is over, and its functions are dropped. A call that
    /// unregisters its own service is not waited for.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the unregistration continues.
    pub async fn unregister(mut self, running: Running) {
        let but = self.services.runtime.current_fom();
        self.withdraw(running, but);
        let (tell, told) = oneshot::channel();
        self.finish(but, Some(tell));
        if told.await.is_err() && self.services.runtime.state() != RuntimeState::Closed {
            // The fom that unregistered the service was cancelled.
            let _ = self.entry.idle(but).await;
        }
    }

    fn withdraw(&mut self, running: Running, but: Option<FomId>) {
        self.is_left = true;
        let Services { runtime, registry } = &self.services;
        registry.withdraw(runtime, &self.entry);
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
                runtime.report(format!("a call could not be cancelled: {panic}"));
            }
        }
    }

    fn finish(&self, but: Option<FomId>, tell: Option<oneshot::Sender<()>>) {
        let Services { runtime, registry } = self.services.clone();
        let leaving = Leaving {
            runtime,
            registry,
            entry: Arc::clone(&self.entry),
        };
        if self.entry.lifecycle(|lifecycle| lifecycle.is_empty()) && !self.entry.stops {
            return;
        }
        let task = async move {
            leaving.finish(but).await;
            // The caller may be gone.
            let _ = tell.map(|tell| tell.send(()));
        };
        // A refused task is dropped, and that drop does what is still possible.
        drop(spawn(&self.services.runtime, task));
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
    /// Takes a service out: its name is free, and no call finds it.
    fn withdraw(&self, runtime: &Runtime, entry: &Arc<Entry>) {
        let mut tell = Tell::default();
        {
            let mut names = self.names.lock();
            names.by_name.remove(&entry.name);
            names.leaving.push(Arc::clone(entry));
            names
                .watchers
                .tell(entry, Happened::Unregistered, &mut tell);
            let now = runtime.now();
            entry.leave(now);
        }
        tell.all(runtime);
    }
}
