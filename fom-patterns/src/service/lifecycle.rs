//! The start and stop of one service, or of all services by their levels.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt;
use tokio::sync::oneshot;

use crate::service::{
    CallCx, DomainState, Happened, LifeError, ServiceState, Services,
    call_fom::ServiceTask,
    entry::{Entry, Stop},
    fenced,
    provider::Hook,
};
use fom_protocol::{
    caught, panic_message,
    sync::{Condvar, Mutex},
};
use fom_runtime::{FomId, Runtime, extension::RuntimeState, observe::IncidentKind};

/// Runs the task as a fom, so that the task continues if its caller is gone. Returns whether the runtime has taken the
/// task.
pub(super) fn spawn(runtime: &Runtime, task: impl Future<Output = ()> + Send + 'static) -> bool {
    // Even without room: this fom may make some.
    let submission = runtime.submit(ServiceTask::new(task)).beyond_capacity();
    submission.detach().is_ok()
}

/// Runs the user's start or stop.
async fn run(runtime: &Runtime, hook: Option<&Hook>) -> Result<(), String> {
    let Some(hook) = hook else {
        return Ok(());
    };
    let here = runtime.extension().current_locality().unwrap_or(0);
    let cx = CallCx::new(runtime.detached(), here);
    let mut future = caught(|| hook(cx)).map_err(|panic| format!("it panicked: {panic}"))?;
    let ran = AssertUnwindSafe(&mut future).catch_unwind().await;
    // The drop of the future is user code, and so is the text of an error.
    fenced(move || drop(future));
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(caught(move || error.to_string()).unwrap_or_default()),
        Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
    }
}

/// A start that is running. A start that is dropped before its end has failed.
struct Starting<'a>(Option<&'a Arc<Entry>>);

impl Starting<'_> {
    fn end(mut self, services: &Services, ran: &Result<(), String>) {
        let Some(entry) = self.0.take() else {
            return;
        };
        let now = services.runtime.now();
        services.change(entry, |lifecycle| {
            if ran.is_ok() {
                lifecycle.stop = Stop::Due;
            }
            if lifecycle.state != ServiceState::Starting {
                // The service was told to stop meanwhile. That stop continues when this start is over.
                return None;
            }
            lifecycle.since = now;
            match ran {
                Ok(()) => {
                    lifecycle.state = ServiceState::Started;
                    Some(Happened::Started)
                }
                Err(reason) => {
                    lifecycle.state = ServiceState::Failed;
                    lifecycle.reason = Some(reason.clone());
                    None
                }
            }
        });
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.lifecycle(|lifecycle| {
                lifecycle.reason = Some("its start was cancelled".to_owned());
                if lifecycle.state == ServiceState::Starting {
                    lifecycle.state = ServiceState::Failed;
                }
            });
        }
    }
}

/// An unregistered service. After the drop, only its running calls are left of it.
pub(super) struct Leaving {
    pub(super) services: Services,
    pub(super) entry: Arc<Entry>,
}

impl Leaving {
    /// Waits for the last call of an unregistered service, then runs its stop.
    pub(super) async fn finish(self, but: Option<FomId>) {
        self.entry.idle(but).await;
        let _turn = self.entry.turn.lock().await;
        self.services.take_down(&self.entry).await;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Self { services, entry } = self;
        entry.forget();
        entry.lifecycle(|lifecycle| lifecycle.state = ServiceState::Stopped);
        let unfinished = entry.unfinished();
        {
            let mut names = services.registry.names.lock();
            names.leaving.retain(|one| !Arc::ptr_eq(one, entry));
            if names.ended {
                // The shutdown report already names this stop.
                return;
            }
            if unfinished.is_some() && services.runtime.extension().state() != RuntimeState::Open {
                names.cut_off.push(Arc::clone(entry));
            }
        }
        if let Some(unfinished) = unfinished {
            let why = "it was unregistered, and the runtime ends, or its fom was cancelled";
            services.runtime.report(
                IncidentKind::Stop,
                unfinished.name.clone(),
                format!("{unfinished}: {why}"),
            );
        }
    }
}

/// One service.
impl Services {
    /// Starts a service that is not started.
    pub(super) async fn start_one(&self, entry: &Arc<Entry>) -> Result<(), LifeError> {
        use ServiceState as S;
        let _turn = entry.turn.lock().await;
        let now = self.runtime.now();
        if !entry.go(&[S::Registered, S::Stopped, S::Failed], S::Starting, now) {
            return Ok(());
        }
        let hooks = entry.hooks();
        let starting = Starting(Some(entry));
        let ran = run(&self.runtime, hooks.start.as_ref()).await;
        starting.end(self, &ran);
        ran.map_err(|reason| LifeError::Failed {
            service: entry.name.clone(),
            reason,
        })
    }

    /// Admits only calls that the service [accepts](crate::service::Provider::accepts), and waits for the admitted
    /// calls.
    async fn drain_one(&self, entry: &Entry, but: Option<FomId>) {
        use ServiceState as S;
        entry.go(&[S::Started, S::Starting], S::Stopping, self.runtime.now());
        entry.idle(but).await;
    }

    /// Stops a service that is started.
    pub(super) async fn stop_one(&self, entry: &Arc<Entry>, but: Option<FomId>) {
        self.drain_one(entry, but).await;
        let _turn = entry.turn.lock().await;
        self.take_down(entry).await;
        let now = self.runtime.now();
        self.change(entry, |lifecycle| {
            if lifecycle.state != ServiceState::Stopping {
                return None;
            }
            lifecycle.state = ServiceState::Stopped;
            lifecycle.since = now;
            Some(Happened::Stopped)
        });
    }

    /// Runs the stop of a service after a finished start, or again after a cancelled stop.
    async fn take_down(&self, entry: &Entry) {
        let is_due = entry.lifecycle(|lifecycle| {
            let is_due = lifecycle.stop != Stop::Nothing && !lifecycle.ended;
            if is_due {
                lifecycle.stop = Stop::Begun;
            }
            is_due
        });
        if !is_due {
            return;
        }
        let hooks = entry.hooks();
        if let Err(reason) = run(&self.runtime, hooks.stop.as_ref()).await {
            self.runtime.report(
                IncidentKind::Stop,
                format!("service `{}`", entry.name),
                format!("the stop of service `{}` failed: {reason}", entry.name),
            );
        }
        entry.lifecycle(|lifecycle| lifecycle.stop = Stop::Nothing);
    }
}

/// All services.
impl Services {
    /// Starts every service that is not started, one after the other, from the lowest level. Meanwhile the services are
    /// in [`DomainState::Init`], and calls are refused with [`Refusal::Retry`](crate::service::Refusal::Retry).
    ///
    /// # Errors
    ///
    /// [`LifeError::Failed`] if a service cannot be started. That service is then [`Failed`](ServiceState::Failed). The
    /// services that this call started are stopped again, the last one first. All services stay in
    /// [`DomainState::Init`] until a start succeeds.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the start continues.
    pub async fn start_all(&self) -> Result<(), LifeError> {
        let start = |services: Self, but| async move { services.start_each(but).await };
        self.run_alone(start).await?
    }

    /// Stops every service. A service admits only calls that it [accepts](crate::service::Provider::accepts). Admitted
    /// calls run to their end, those of the highest level first. After that, the services are stopped in the reverse
    /// order of the start. A call that stops all services is not waited for. The services can be
    /// [started](Self::start_all) again.
    ///
    /// # Errors
    ///
    /// [`LifeError::Busy`] or [`LifeError::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the stop continues.
    pub async fn stop_all(&self) -> Result<(), LifeError> {
        let stop = |services: Self, but| async move { services.stop_each(but).await };
        self.run_alone(stop).await
    }

    /// Runs a start or stop of all services, apart from its caller. Fails if another one runs.
    async fn run_alone<F: Future<Output: Send> + Send + 'static>(
        &self,
        task: impl FnOnce(Self, Option<FomId>) -> F,
    ) -> Result<F::Output, LifeError> {
        let turn = Arc::clone(&self.registry.turn);
        let turn = turn.try_lock_owned().map_err(|_| LifeError::Busy)?;
        let task = task(self.clone(), self.runtime.extension().current_fom());
        let alone = async move {
            let _turn = turn;
            task.await
        };
        self.run_apart(alone).await
    }

    /// Runs the task as a fom, so that the task continues if its caller is gone. Returns the result of the task.
    pub(super) async fn run_apart<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LifeError> {
        let (tell, told) = oneshot::channel();
        let task = async move {
            // The caller may be gone.
            let _ = tell.send(task.await);
        };
        if !spawn(&self.runtime, task) {
            return Err(LifeError::ShuttingDown);
        }
        told.await
            .map_err(|_| match self.runtime.extension().state() {
                RuntimeState::Closed => LifeError::ShuttingDown,
                _ => LifeError::Cancelled,
            })
    }

    async fn start_each(&self, but: Option<FomId>) -> Result<(), LifeError> {
        self.registry.go(DomainState::Init);
        let mut started: Vec<Arc<Entry>> = Vec::new();
        for entry in self.registry.registered() {
            let was_up = entry.lifecycle(|lifecycle| lifecycle.stop != Stop::Nothing);
            if let Err(error) = self.start_one(&entry).await {
                for entry in started.iter().rev() {
                    self.stop_one(entry, but).await;
                }
                return Err(error);
            }
            if !was_up {
                started.push(entry);
            }
        }
        self.registry.go(DomainState::Normal);
        Ok(())
    }

    async fn stop_each(&self, but: Option<FomId>) {
        self.registry.go(DomainState::Drain);
        for entry in self.registry.all().iter().rev() {
            self.drain_one(entry, but).await;
        }
        self.registry.go(DomainState::Stopping);
        for entry in self.registry.registered().iter().rev() {
            self.stop_one(entry, but).await;
        }
        self.registry.go(DomainState::Stopped);
    }

    /// Stops all services, and blocks this thread until that is done, at most until `by`. After this, every call is
    /// refused.
    pub(super) fn stop_by(self, by: Instant) {
        let registry = Arc::clone(&self.registry);
        if registry.is_empty() {
            return registry.refuse_all();
        }
        let done = Arc::new((Mutex::new(false), Condvar::default()));
        let tell = Done(Arc::clone(&done));
        let runtime = self.runtime.clone();
        let spawned = spawn(&runtime, async move {
            // Reports the end when it is dropped, even if the task has not begun.
            let _tell = tell;
            let _turn = self.registry.turn.lock().await;
            if self.domain() < DomainState::Stopped {
                self.stop_each(None).await;
            }
        });
        if spawned {
            drop(done.1.wait_until(done.0.lock(), by, |is_done| *is_done));
        }
        registry.refuse_all();
    }
}

struct Done(Arc<(Mutex<bool>, Condvar)>);

impl Drop for Done {
    fn drop(&mut self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}
