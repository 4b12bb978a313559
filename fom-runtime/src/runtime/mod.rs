//! The runtime: a set of localities, and the ways into them.

mod builder;
mod carry;
mod error;
pub mod extension;
mod handle;
mod keys;
mod local;
pub(crate) mod observe;
mod registered;
mod resources;
mod room;
mod shared;
mod shutdown;
mod spawn;
mod submit;
mod types;

use std::{any::TypeId, fmt, sync::Arc};

pub use builder::{Budget, Builder, Recording};
pub(crate) use carry::save as save_carried;
pub(crate) use error::RefusedInner;
pub use error::{BuildError, Refused};
pub(crate) use handle::watch;
pub use handle::{EventSender, FomRef, Handle, JoinedOutcome, Reached, Waiting};
pub use keys::{Announced, Joined, KeyClaim, SuspendedKey};
pub use local::{CallError, Local};
pub use registered::{
    Machine, Registered, Restorer, Revival, Revived, RevivedHome, RevivedVisit, all, registered,
};
pub use room::WhenRoom;
#[cfg(not(fom_shuttle))]
pub(crate) use shutdown::end_by_hand;
pub(crate) use shutdown::end_moved;
pub use shutdown::{Shutdown, ShutdownReport};
pub use submit::{Now, Placement, Recorded, Submission};
pub(crate) use submit::{Once, Special, StartOnce};

pub use shared::Shared;
pub(crate) use types::totals;

use crate::{
    fom::{FailedAttempt, Transition},
    id::{FomId, Key},
    operation::{Operation, Persistent},
    runtime::observe::{FomInfo, Interposed, Listening, Operations, fom_info, operations},
    snapshot::{Meta, RestoreError, Snapshot},
    typed::{self, Interpose, TransitionOf},
};
use fom_protocol::FomState;

/// Runs foms. A clone is another handle to the same runtime. When the last handle is dropped, the runtime shuts down at
/// once, and every caller that waits for a fom gets an answer.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    /// `None` in the handles that foms hold: those must not keep the runtime alive.
    _guard: Option<Arc<shutdown::Guard>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("localities", &self.localities())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

impl Runtime {
    /// Builds a runtime with one locality for each core that the process may use.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError`] if threads or reactors cannot be created.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Returns a builder for a runtime with other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the runtime of the fom that runs on this thread.
    pub fn current() -> Option<Self> {
        crate::locality::with_core(|core| Self::of(Shared::behind(core.home.env())))
    }

    pub(crate) fn of(shared: &Shared) -> Self {
        Self {
            shared: shared.owned(),
            _guard: None,
        }
    }

    /// Submits an operation. Nothing happens until the submission is started or awaited.
    #[inline(always)]
    pub fn submit<O: Operation>(&self, operation: O) -> Submission<'_, O> {
        Submission::new(&self.shared, operation)
    }

    /// Submits a saved fom again. It enters the function of the phase that it was saved in; nothing else runs again.
    ///
    /// The deadline continues with the time that was left when the fom was saved. The submission sets the key, the
    /// priority and the home anew. Events that the fom had not taken were not saved.
    ///
    /// # Errors
    ///
    /// Fails with [`RestoreError`] if the snapshot does not fit.
    pub fn resume<O: Persistent>(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Submission<'_, O>, RestoreError> {
        let (operation, phase) = O::restore(snapshot)?;
        Ok(Submission::resumed(
            &self.shared,
            operation,
            phase,
            Meta {
                resumed: true,
                ..snapshot.meta()?
            },
        ))
    }

    /// Returns the live fom that has this key.
    pub fn find<O: Operation>(&self, key: impl Into<Key>) -> Option<FomRef<O>> {
        self.shared.find(&key.into())
    }

    /// Returns the live fom that has this id, if `O` is its type. A fom that rests in the journal comes back. This call
    /// looks at each fom in flight. With a key, [`find`](Self::find) looks at one fom only.
    ///
    /// ```
    /// # use fom_runtime::prelude::*;
    /// # struct Call;
    /// # enum News { Answer }
    /// # #[fom(operation(Call), event(News), transient)]
    /// # enum Route {
    /// #     #[phase(start, sync, to(Over), on(Answer))]
    /// #     Ring,
    /// #     #[phase(end)]
    /// #     Over,
    /// # }
    /// # impl RouteTransitions for Call {
    /// #     fn ring(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<RouteAfterRing, BoxError> {
    /// #         Ok(RouteAfterRing::Over)
    /// #     }
    /// # }
    /// let runtime = Runtime::new()?;
    /// let call = runtime.submit(Call).start()?;
    /// let found = runtime.find_id::<Call>(call.id()).expect("it rings");
    /// found.send(News::Answer)?;
    /// call.wait()?;
    /// assert!(runtime.find_id::<Call>(found.id()).is_none());
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn find_id<O: Operation>(&self, id: FomId) -> Option<FomRef<O>> {
        let found = self.shared.find_id_revived(id)?;
        let is_live = found.token.state() != FomState::Finished;
        is_live.then(|| FomRef::of_any(&found)).flatten()
    }

    /// Adds a listener that hears of every transition of every fom. It runs in the fom's locality, and hears the
    /// transitions of one fom in order.
    ///
    /// A listener cannot change the outcome, and must not block. A listener that panics is removed and reported in
    /// [`Operations::incidents`].
    pub fn listen(&self, listener: impl Fn(&Transition<'_>) + Send + Sync + 'static) -> Listening {
        let id = self.shared.env.hooks.listen(Box::new(listener));
        Listening {
            shared: Arc::downgrade(&self.shared),
            id,
        }
    }

    /// As [`listen`](Self::listen), for one operation type. The listener also gets the operation and the phase.
    pub fn listen_to<O: Operation>(
        &self,
        listener: impl for<'a> Fn(&TransitionOf<'a, O>) + Send + Sync + 'static,
    ) -> Listening {
        let id = typed::listen_to::<O>(&self.shared.env.hooks, Box::new(listener));
        Listening {
            shared: Arc::downgrade(&self.shared),
            id,
        }
    }

    /// Adds a listener that hears of every failed attempt at a phase, with its error and the time of the next attempt. An
    /// attempt fails by an error, a panic, a deadline without `late`, or a gate that never opens. An error of a `late`,
    /// `exhausted` or `failed` function counts too, with the number of the attempt before it.
    ///
    /// The listener hears of an attempt at once, before a journal commits anything of it. So it may hear of an attempt
    /// again after a crash. It runs in the fom's locality, after the phase function has returned, and must not block. A
    /// listener that panics is removed and reported in [`Operations::incidents`].
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// let runtime = Runtime::builder().build()?;
    /// runtime
    ///     .listen_to_failures(|attempt| eprintln!("{attempt}"))
    ///     .forever();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listen_to_failures(
        &self,
        listener: impl Fn(&FailedAttempt<'_>) + Send + Sync + 'static,
    ) -> Listening {
        let hooks = &self.shared.env.hooks;
        let id = hooks.listen_to_failures(Box::new(listener));
        Listening {
            shared: Arc::downgrade(&self.shared),
            id,
        }
    }

    /// Adds an interposer on top of those of this operation type.
    pub fn interpose<O: Operation>(&self, interposer: impl Interpose<O>) -> Interposed {
        let id = typed::interpose::<O>(&self.shared.env.hooks, Box::new(interposer));
        Interposed {
            shared: Arc::downgrade(&self.shared),
            id,
            of: TypeId::of::<O>(),
        }
    }

    /// Lists the foms in flight, with totals. The call asks no locality, so it also lists a fom that never returns.
    /// [`inspect`](Self::inspect) has each part of the listing by itself, and counters, waits and the flight recorder.
    pub fn operations(&self) -> Operations {
        operations(&self.shared)
    }

    /// Counts transitions, and measures the time in each phase, from now on. A further call does nothing.
    ///
    /// Each locality also counts its foms in flight, in pieces of one millisecond between its runs. In a locality that
    /// never gets to this, a fom counts from its next transition on. [`Builder::observe`] counts from the start.
    pub fn observe(&self) {
        if self.shared.env.hooks.count() {
            for home in self.shared.localities.iter() {
                home.count_foms(&self.shared.env);
            }
        }
    }

    /// Describes one fom in flight. A resting fom is brought back first.
    pub fn operation(&self, id: FomId) -> Option<FomInfo> {
        let fom = self.shared.find_id_revived(id)?;
        Some(fom_info(&fom))
    }

    /// Wakes a fom, as [`FomRef::wake`] does. Returns `false` if the fom is not in flight.
    pub fn wake(&self, id: FomId) -> bool {
        self.shared.tell(id, |fom| fom.wake_to_retry())
    }

    /// Cancels a fom, as [`FomRef::cancel`] does. Returns `false` if the fom is not in flight. The answer `true` does not
    /// say that the fom hears the cancel.
    pub fn cancel(&self, id: FomId) -> bool {
        self.shared.tell(id, |fom| {
            fom.cancel();
        })
    }

    /// Drops an operation without a way back, as [`FomRef::abort`] does. Returns `false` if the fom is not in flight.
    pub fn abort(&self, id: FomId) -> bool {
        self.shared.tell(id, |fom| {
            fom.abort();
        })
    }

    /// Returns the number of foms that were submitted and have not ended. This includes resting foms and [pending
    /// work](extension::PendingWork) in front of the localities.
    pub fn in_flight(&self) -> usize {
        self.shared
            .localities
            .iter()
            .map(|home| home.counts.in_flight())
            .sum::<usize>()
            + self.shared.queued.in_flight()
            + self.shared.env.resting()
    }

    /// Returns the number of localities. They are numbered from zero.
    pub fn localities(&self) -> usize {
        self.shared.localities.len()
    }

    /// Returns the time on the runtime's clock.
    pub fn now(&self) -> crate::instant::Instant {
        self.shared.env.clock.now()
    }
}
