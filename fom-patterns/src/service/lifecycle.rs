//! The start and stop of one service, or of all services by their levels.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio::sync::oneshot;

use crate::service::{
    CallCx, DomainState, Happened, LifeError, ServiceState, Services,
    call_fom::ServiceTask,
    entry::{Entry, Stop},
    provider::Hook,
    registry::Registry,
};
use fom_protocol::{
    panic_message,
    sync::{Condvar, Mutex},
};
use fom_runtime::{FomId, Runtime, extension::RuntimeState};

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
    let here = runtime.current_locality().unwrap_or(0);
    let cx = CallCx::new(runtime.detached(), here);
    let mut future = super::caught(|| hook(cx)).map_err(|panic| format!("it panicked: {panic}"))?;
    let ran = AssertUnwindSafe(&mut future).catch_unwind().await;
    // The drop of the future is user code, and so is the text of an error.
    super::fenced(move || drop(future));
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(super::caught(move || error.to_string()).unwrap_or_default()),
        Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
    }
}

/// Starts a service that is not started.
pub(super) async fn start_one(
    runtime: &Runtime,
    registry: &Registry,
    entry: &Arc<Entry>,
) -> Result<(), LifeError> {
    use ServiceState as S;
    let _turn = entry.turn.lock().await;
    let now = runtime.now();
    if !entry.go(&[S::Registered, S::Stopped, S::Failed], S::Starting, now) {
        return Ok(());
    }
    let hooks = entry.hooks();
    let starting = Starting(Some(entry));
    let ran = run(
        runtime,
        hooks.as_ref().and_then(|hooks| hooks.start.as_ref()),
    )
    .await;
    starting.end(runtime, registry, &ran);
    ran.map_err(|reason| LifeError::Failed {
        service: entry.name.clone(),
        reason,
    })
}

/// A start that is running. A start that is dropped before its end has failed.
struct Starting<'a>(Option<&'a Arc<Entry>>);

impl Starting<'_> {
    fn end(mut self, runtime: &Runtime, registry: &Registry, ran: &Result<(), String>) {
        let Some(entry) = self.0.take() else {
            return;
        };
        let now = runtime.now();
        registry.change(runtime, entry, |lifecycle| {
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

/// Admits only calls that the service [accepts](crate::service::Provider::accepts), and waits for the admitted calls.
async fn drain_one(runtime: &Runtime, entry: &Entry, but: Option<FomId>) {
    use ServiceState as S;
    entry.go(&[S::Started, S::Starting], S::Stopping, runtime.now());
    entry.idle(but).await;
}

/// Stops a service that is started.
pub(super) async fn stop_one(
    runtime: &Runtime,
    registry: &Registry,
    entry: &Arc<Entry>,
    but: Option<FomId>,
) {
    drain_one(runtime, entry, but).await;
    let _turn = entry.turn.lock().await;
    take_down(runtime, entry).await;
    let now = runtime.now();
    registry.change(runtime, entry, |lifecycle| {
        if lifecycle.state != ServiceState::Stopping {
            return None;
        }
        lifecycle.state = ServiceState::Stopped;
        lifecycle.since = now;
        Some(Happened::Stopped)
    });
}

/// Runs the stop of a service after a finished start, or again after a cancelled stop.
async fn take_down(runtime: &Runtime, entry: &Entry) {
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
    let stop = hooks.as_ref().and_then(|hooks| hooks.stop.as_ref());
    if let Err(reason) = run(runtime, stop).await {
        runtime.report(format!(
            "the stop of service `{}` failed: {reason}",
            entry.name
        ));
    }
    entry.lifecycle(|lifecycle| lifecycle.stop = Stop::Nothing);
}

/// An unregistered service. After the drop, only its running calls are left of it.
pub(super) struct Leaving {
    pub(super) runtime: Runtime,
    pub(super) registry: Arc<Registry>,
    pub(super) entry: Arc<Entry>,
}

impl Leaving {
    /// Waits for the last call of an unregistered service, then runs its stop.
    pub(super) async fn finish(self, but: Option<FomId>) {
        let Self { runtime, entry, .. } = &self;
        entry.idle(but).await;
        let _turn = entry.turn.lock().await;
        take_down(runtime, entry).await;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let entry = &self.entry;
        entry.forget();
        entry.lifecycle(|lifecycle| lifecycle.state = ServiceState::Stopped);
        let unfinished = entry.unfinished();
        {
            let mut names = self.registry.names.lock();
            names.leaving.retain(|one| !Arc::ptr_eq(one, entry));
            if names.ended {
                // The shutdown report already names this stop.
                return;
            }
            if unfinished.is_some() && self.runtime.state() != RuntimeState::Open {
                names.cut_off.push(Arc::clone(entry));
            }
        }
        if let Some(unfinished) = unfinished {
            let why = "it was unregistered, and the runtime ends, or its fom was cancelled";
            self.runtime.report(format!("{unfinished}: {why}"));
        }
    }
}

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
        let turn = Arc::clone(&self.registry.turn);
        let turn = turn.try_lock_owned().map_err(|_| LifeError::Busy)?;
        let but = self.runtime.current_fom();
        let (runtime, registry) = (self.runtime.clone(), Arc::clone(&self.registry));
        let start = async move {
            let _turn = turn;
            start_all(&runtime, &registry, but).await
        };
        self.run_apart(start).await?
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
        let turn = Arc::clone(&self.registry.turn);
        let turn = turn.try_lock_owned().map_err(|_| LifeError::Busy)?;
        let but = self.runtime.current_fom();
        let (runtime, registry) = (self.runtime.clone(), Arc::clone(&self.registry));
        let stop = async move {
            let _turn = turn;
            stop_all(&runtime, &registry, but).await;
        };
        self.run_apart(stop).await
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
        told.await.map_err(|_| match self.runtime.state() {
            RuntimeState::Closed => LifeError::ShuttingDown,
            _ => LifeError::Cancelled,
        })
    }
}

async fn start_all(
    runtime: &Runtime,
    registry: &Registry,
    but: Option<FomId>,
) -> Result<(), LifeError> {
    registry.go(DomainState::Init);
    let mut started: Vec<Arc<Entry>> = Vec::new();
    for entry in registry.registered() {
        let was_up = entry.lifecycle(|lifecycle| lifecycle.stop != Stop::Nothing);
        if let Err(error) = start_one(runtime, registry, &entry).await {
            for entry in started.iter().rev() {
                stop_one(runtime, registry, entry, but).await;
            }
            return Err(error);
        }
        if !was_up {
            started.push(entry);
        }
    }
    registry.go(DomainState::Normal);
    Ok(())
}

async fn stop_all(runtime: &Runtime, registry: &Registry, but: Option<FomId>) {
    registry.go(DomainState::Drain);
    for entry in registry.all().iter().rev() {
        drain_one(runtime, entry, but).await;
    }
    registry.go(DomainState::Stopping);
    for entry in registry.registered().iter().rev() {
        stop_one(runtime, registry, entry, but).await;
    }
    registry.go(DomainState::Stopped);
}

impl Registry {
    /// Stops all services, and blocks this thread until that is done, at most until `by`. After this, every call is
    /// refused.
    pub(super) fn stop_by(self: &Arc<Self>, runtime: &Runtime, by: Instant) {
        if self.is_empty() {
            return self.refuse_all();
        }
        let done = Arc::new((Mutex::new(false), Condvar::default()));
        let (of, registry) = (runtime.detached(), Arc::clone(self));
        let tell = Done(Arc::clone(&done));
        let spawned = spawn(runtime, async move {
            // Reports the end when it is dropped, even if the task has not begun.
            let _tell = tell;
            let _turn = registry.turn.lock().await;
            if registry.domain(&of) < DomainState::Stopped {
                stop_all(&of, &registry, None).await;
            }
        });
        if spawned {
            let mut is_done = done.0.lock();
            while !*is_done {
                let left = by.saturating_duration_since(fom_protocol::sync::now());
                if left.is_zero() {
                    break;
                }
                (is_done, _) = done
                    .1
                    .wait_for(is_done, left.min(Duration::from_secs(3600)));
            }
        }
        self.refuse_all();
    }
}

struct Done(Arc<(Mutex<bool>, Condvar)>);

impl Drop for Done {
    fn drop(&mut self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}
