//! The handle of a service's owner.

use std::{fmt, sync::Arc};

use crate::service::{
    CallCause, CancelledBy, Happened, LifeError, ServiceState, Services,
    entry::Entry,
    lifecycle::{Leaving, spawn},
};
use fom_protocol::caught;
use fom_runtime::{FomId, extension::RuntimeState, observe::IncidentKind};

/// The treatment of running calls when a service is unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
        let (services, entry) = (self.services.clone(), Arc::clone(&self.entry));
        let start = async move { services.start_one(&entry).await };
        self.services.run_apart(start).await?
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
        let but = self.services.runtime.extension().current_fom();
        let (services, entry) = (self.services.clone(), Arc::clone(&self.entry));
        let stop = async move { services.stop_one(&entry, but).await };
        self.services.run_apart(stop).await
    }

    /// Resolves when the service has no waiting and no running call, other than the call that awaits this.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn idle(&self) {
        let but = self.services.runtime.extension().current_fom();
        self.entry.idle(but).await;
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
        let but = self.services.runtime.extension().current_fom();
        self.withdraw(running, but);
        if let Some(leaving) = self.leaving()
            && self.services.run_apart(leaving.finish(but)).await.is_err()
            && self.services.runtime.extension().state() != RuntimeState::Closed
        {
            // The fom that unregistered the service was cancelled.
            self.entry.idle(but).await;
        }
    }

    /// Takes the service out: its name is free, and no call finds it. Ends its calls.
    fn withdraw(&mut self, running: Running, but: Option<FomId>) {
        self.is_left = true;
        let (services, entry) = (&self.services, &self.entry);
        services.with_names(|names| {
            names.by_name.remove(&entry.name);
            names.leaving.push(Arc::clone(entry));
            names.tell(entry, Happened::Unregistered);
            entry.leave(services.runtime.now());
        });
        let cause = || {
            CallCause::Cancelled(CancelledBy::Unregistered {
                service: entry.name.clone(),
                owner: entry.owner.clone(),
            })
        };
        for call in entry.calls() {
            let done = caught(|| {
                if !call.cancel_waiting(cause())
                    && running == Running::Stop
                    && (but.is_none() || call.fom() != but)
                {
                    call.stop(cause());
                }
            });
            if let Err(panic) = done {
                let runtime = &services.runtime;
                runtime.report(
                    IncidentKind::Panicked,
                    "a call",
                    format!("a call could not be cancelled: {panic}"),
                );
            }
        }
    }

    /// Returns what is left to wait for, unless no call runs and there is no stop. Then the service is gone at once.
    fn leaving(&self) -> Option<Leaving> {
        let leaving = Leaving {
            services: self.services.clone(),
            entry: Arc::clone(&self.entry),
        };
        let is_empty = self.entry.lifecycle(|lifecycle| lifecycle.is_empty());
        (self.entry.stops || !is_empty).then_some(leaving)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_left {
            self.withdraw(Running::Finish, None);
            if let Some(leaving) = self.leaving() {
                // A refused task is dropped, and that drop does what is still possible.
                spawn(&self.services.runtime, leaving.finish(None));
            }
        }
    }
}
