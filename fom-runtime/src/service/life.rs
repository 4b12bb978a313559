//! Starting and stopping: one service, or all of them by their levels.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio::sync::oneshot;

use crate::{
    fom::{Header, panic_message},
    id::FomId,
    locality::Home,
    runtime::{Submission, World},
    service::{
        CallCx, DomainState, Happened, LifeError, ServiceState, Services,
        entry::{Entry, Stop},
        job::ServiceTask,
        provider::{BoxFuture, Hook},
        registry::Registry,
    },
    sync::{Condvar, Mutex},
};

/// The fom that runs on this thread.
pub(super) fn current_fom() -> Option<FomId> {
    crate::locality::with_core(|core| core.running().map(Header::id))?
}

/// Runs this as a fom, so that it goes on whatever becomes of who asked for it. Given back when the runtime takes nothing more.
pub(super) fn spawn(
    world: &Arc<World>,
    task: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Option<BoxFuture<()>>> {
    // Also if there is no room: this fom may make some.
    let submission = Submission::new(world, ServiceTask::new(task)).beyond_capacity();
    submission
        .detach()
        .map(drop)
        .map_err(|refused| refused.into_operation().into_future())
}

/// Why what was spawned did not come to its end.
pub(super) fn unanswered(world: &World) -> LifeError {
    if world.is_closed() {
        LifeError::ShuttingDown
    } else {
        LifeError::Cancelled
    }
}

/// Runs a start or a stop of the user's.
async fn run(world: &Arc<World>, hook: Option<&Hook>) -> Result<(), String> {
    let Some(hook) = hook else {
        return Ok(());
    };
    let here = crate::locality::here_in(world).unwrap_or(0);
    let cx = CallCx::new(Home::new(Arc::clone(world), here));
    let mut future = super::caught(|| hook(cx)).map_err(|panic| format!("it panicked: {panic}"))?;
    let ran = AssertUnwindSafe(&mut future).catch_unwind().await;
    // The drop of the future is the user's code, as is the text of an error.
    super::fenced(move || drop(future));
    match ran {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(super::caught(move || error.to_string()).unwrap_or_default()),
        Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
    }
}

/// Starts a service that is not started.
pub(super) async fn start_one(
    world: &Arc<World>,
    registry: &Registry,
    entry: &Arc<Entry>,
) -> Result<(), LifeError> {
    use ServiceState as S;
    let _turn = entry.turn.lock().await;
    let now = world.clock.nanos();
    if !entry.go(&[S::Registered, S::Stopped, S::Failed], S::Starting, now) {
        return Ok(());
    }
    let hooks = entry.hooks.lock().clone();
    let starting = Starting(Some(entry));
    let ran = run(world, hooks.as_ref().and_then(|hooks| hooks.start.as_ref())).await;
    starting.end(world, registry, &ran);
    ran.map_err(|reason| LifeError::Failed {
        service: entry.name.clone(),
        reason,
    })
}

/// A start that is under way. Dropped before its end, it has failed.
struct Starting<'a>(Option<&'a Arc<Entry>>);

impl Starting<'_> {
    fn end(mut self, world: &Arc<World>, registry: &Registry, ran: &Result<(), String>) {
        let Some(entry) = self.0.take() else {
            return;
        };
        let now = world.clock.nanos();
        registry.change(world, entry, |life| {
            if ran.is_ok() {
                life.stop = Stop::Due;
            }
            if life.state != ServiceState::Starting {
                // Told to stop meanwhile: who did that goes on when this is over.
                return (None, ());
            }
            life.since = now;
            match ran {
                Ok(()) => {
                    life.state = ServiceState::Started;
                    (Some(Happened::Started), ())
                }
                Err(reason) => {
                    life.state = ServiceState::Failed;
                    life.reason = Some(reason.clone());
                    (None, ())
                }
            }
        });
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.life(|life| {
                life.reason = Some("its start was cancelled".to_owned());
                if life.state == ServiceState::Starting {
                    life.state = ServiceState::Failed;
                }
            });
        }
    }
}

/// Takes no more calls, but those that the service [accepts](crate::service::Provider::accepts), and waits for the others.
async fn drain_one(world: &Arc<World>, entry: &Entry, but: Option<FomId>) {
    use ServiceState as S;
    entry.go(&[S::Started, S::Starting], S::Stopping, world.clock.nanos());
    // It is answered: the service is held here.
    let _ = entry.idle(but).await;
}

/// Stops a service that is started.
pub(super) async fn stop_one(
    world: &Arc<World>,
    registry: &Registry,
    entry: &Arc<Entry>,
    but: Option<FomId>,
) {
    drain_one(world, entry, but).await;
    let _turn = entry.turn.lock().await;
    take_down(world, entry).await;
    let now = world.clock.nanos();
    registry.change(world, entry, |life| {
        if life.state != ServiceState::Stopping {
            return (None, ());
        }
        life.state = ServiceState::Stopped;
        life.since = now;
        (Some(Happened::Stopped), ())
    });
}

/// Runs the stop of a service after a finished start, or again after a cancelled stop.
async fn take_down(world: &Arc<World>, entry: &Entry) {
    let is_due = entry.life(|life| {
        let is_due = life.stop != Stop::Nothing && !life.has_ended();
        if is_due {
            life.stop = Stop::Begun;
        }
        is_due
    });
    if !is_due {
        return;
    }
    let hooks = entry.hooks.lock().clone();
    let stop = hooks.as_ref().and_then(|hooks| hooks.stop.as_ref());
    if let Err(reason) = run(world, stop).await {
        world.incident(format!(
            "the stop of service `{}` failed: {reason}",
            entry.name
        ));
    }
    entry.life(|life| life.stop = Stop::Nothing);
}

/// A service that was unregistered. When this is dropped nothing is left of it but the calls that run.
pub(super) struct Leaving {
    pub(super) world: Arc<World>,
    pub(super) registry: Arc<Registry>,
    pub(super) entry: Arc<Entry>,
}

impl Leaving {
    /// The rest of an unregistration, when nothing of it runs any more.
    pub(super) async fn finish(self, but: Option<FomId>) {
        let Self { world, entry, .. } = &self;
        // As in `drain_one`.
        let _ = entry.idle(but).await;
        let _turn = entry.turn.lock().await;
        take_down(world, entry).await;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let entry = &self.entry;
        entry.forget();
        entry.life(|life| life.state = ServiceState::Stopped);
        let unfinished = entry.unfinished();
        {
            let mut names = self.registry.names.lock();
            names.leaving.retain(|one| !Arc::ptr_eq(one, entry));
            if names.ended {
                // The report of the shutdown names this stop already.
                return;
            }
            if unfinished.is_some() && self.world.takes_nothing() {
                names.cut_off.push(Arc::clone(entry));
            }
        }
        if let Some(unfinished) = unfinished {
            let why = "it was unregistered, and the runtime ends, or its fom was cancelled";
            self.world.incident(format!("{unfinished}: {why}"));
        }
    }
}

impl Services {
    /// Starts every service that is not started: those of the lowest level first, one after the other. Meanwhile the services are in
    /// [`DomainState::Init`], and calls are refused with [`Refusal::Retry`](crate::service::Refusal::Retry).
    ///
    /// # Errors
    ///
    /// [`LifeError::Failed`] when one cannot be started: it is [`Failed`](ServiceState::Failed), those that were started by this are
    /// stopped again, the last one first, and the services stay in [`DomainState::Init`] until they are started with success.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on.
    pub async fn start_all(&self) -> Result<(), LifeError> {
        let turn = Arc::clone(&self.registry.turn);
        let turn = turn.try_lock_owned().map_err(|_| LifeError::Busy)?;
        let but = current_fom();
        let (tell, told) = oneshot::channel();
        let (world, registry) = (Arc::clone(&self.world), Arc::clone(&self.registry));
        let task = async move {
            let started = start_all(&world, &registry, but).await;
            drop(turn);
            // Who asked may have gone.
            let _ = tell.send(started);
        };
        spawn(&self.world, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await.unwrap_or_else(|_| Err(unanswered(&self.world)))
    }

    /// Stops every service: no call is taken but those that a service [accepts](crate::service::Provider::accepts), what was admitted
    /// runs to its end, services of the highest level first; then each is stopped in the reverse order of the start. Called in a
    /// call, it does not wait for that one. They can be [started](Self::start_all) again.
    ///
    /// # Errors
    ///
    /// [`LifeError::Busy`] and [`LifeError::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on.
    pub async fn stop_all(&self) -> Result<(), LifeError> {
        let turn = Arc::clone(&self.registry.turn);
        let turn = turn.try_lock_owned().map_err(|_| LifeError::Busy)?;
        let but = current_fom();
        let (tell, told) = oneshot::channel();
        let (world, registry) = (Arc::clone(&self.world), Arc::clone(&self.registry));
        let task = async move {
            stop_all(&world, &registry, but).await;
            drop(turn);
            // Who asked may have gone.
            let _ = tell.send(());
        };
        spawn(&self.world, task).map_err(|_| LifeError::ShuttingDown)?;
        told.await.map_err(|_| unanswered(&self.world))
    }
}

async fn start_all(
    world: &Arc<World>,
    registry: &Registry,
    but: Option<FomId>,
) -> Result<(), LifeError> {
    registry.go(DomainState::Init);
    let mut started: Vec<Arc<Entry>> = Vec::new();
    for entry in registry.registered() {
        let was_up = entry.life(|life| life.stop != Stop::Nothing);
        if let Err(error) = start_one(world, registry, &entry).await {
            for entry in started.iter().rev() {
                stop_one(world, registry, entry, but).await;
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

async fn stop_all(world: &Arc<World>, registry: &Registry, but: Option<FomId>) {
    registry.go(DomainState::Drain);
    for entry in registry.all().iter().rev() {
        drain_one(world, entry, but).await;
    }
    registry.go(DomainState::Stopping);
    for entry in registry.registered().iter().rev() {
        stop_one(world, registry, entry, but).await;
    }
    registry.go(DomainState::Stopped);
}

impl Registry {
    /// Stops all services, blocking this thread, until `by`; from then on no call is taken in any case.
    pub(crate) fn drain(self: &Arc<Self>, world: &Arc<World>, by: Instant) {
        if self.is_empty() {
            return self.refuse_all();
        }
        let done = Arc::new((Mutex::new(false), Condvar::default()));
        let (of, registry) = (Arc::clone(world), Arc::clone(self));
        let tell = Done(Arc::clone(&done));
        let spawned = spawn(world, async move {
            // Tells also when it is dropped, even if it has not begun.
            let _tell = tell;
            let _turn = registry.turn.lock().await;
            if registry.domain(&of) < DomainState::Stopped {
                stop_all(&of, &registry, None).await;
            }
        });
        if spawned.is_ok() {
            let mut is_done = done.0.lock();
            while !*is_done {
                let left = by.saturating_duration_since(crate::sync::now());
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
