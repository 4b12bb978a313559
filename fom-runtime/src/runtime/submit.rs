//! The way of an operation into the runtime.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

use crate::{
    error::{Cause, Failure, Refused, RefusedInner, RefusedReason},
    fom::{Header, Launch, Seed},
    id::{FomId, Key},
    locality::Locality,
    operation::Operation,
    runtime::{Ended, FomRef, Handle, Runtime, world::Mode},
    snapshot::Meta,
    sync::atomic::Ordering,
};

/// Which of the ready foms of a locality goes first; inside one priority it is first in, first out.
///
/// Preference is bounded: one pick in sixteen goes to the lowest priority that has work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Before all others.
    High = 0,
    /// What a fom gets that asks for nothing.
    #[default]
    Normal = 1,
    /// After all others.
    Low = 2,
}

impl Priority {
    pub(crate) const COUNT: usize = 3;
}

/// Which locality becomes the home of a fom. Chosen once, when it is submitted; a fom never moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// One locality after the other.
    RoundRobin,
    /// The one with the fewest foms.
    LeastLoaded,
    /// The one that this is called in; round-robin from outside.
    Here,
    /// This one, counted from zero.
    Locality(usize),
    /// One that is the same for the same number, for whatever belongs together.
    Key(u64),
}

/// An operation on its way in. It starts when it is awaited, or by [`start`](Self::start).
#[must_use = "a submission does nothing until it is started or awaited"]
pub struct Submission<O: Operation> {
    runtime: Runtime,
    operation: O,
    phase: O::Phase,
    meta: Meta,
    key: Option<Key>,
    placement: Option<Placement>,
    priority: Priority,
}

impl<O: Operation> fmt::Debug for Submission<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("operation", &O::GRAPH.operation())
            .field("key", &self.key)
            .field("placement", &self.placement)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

impl<O: Operation> Submission<O> {
    pub(super) fn new(runtime: Runtime, operation: O) -> Self {
        Self::resumed(runtime, operation, O::start(), Meta::default())
    }

    pub(super) fn resumed(runtime: Runtime, operation: O, phase: O::Phase, meta: Meta) -> Self {
        Self {
            runtime,
            operation,
            phase,
            meta,
            key: None,
            placement: None,
            priority: Priority::Normal,
        }
    }

    /// Makes it findable by this key, and refuses it while another fom of its type has the key. Foms of one key share a
    /// home, unless a placement is asked for.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Where it is to live. By default by its key; without one, here when submitted from inside a fom, else one
    /// locality after the other.
    pub fn place(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Its priority in its home's run queue.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the operation given back: the runtime is full or shutting down, the key is in use, or there is
    /// no such locality. A refused submission leaves nothing behind.
    pub fn start(self) -> Result<Handle<O>, Refused<O>> {
        let world = &self.runtime.world;
        // Counted before it is looked at, so that a shutdown that begins meanwhile waits for it or refuses it.
        world.count_in();
        let refuse = |reason, operation, live| {
            if !matches!(reason, RefusedReason::ShuttingDown | RefusedReason::Full) {
                world.give_room();
            }
            world.count_out();
            Err(Refused(Box::new(RefusedInner {
                reason,
                operation,
                live,
            })))
        };
        match world.mode() {
            Mode::Open => {}
            Mode::Draining if crate::locality::runs_fom_of(world) => {}
            _ => return refuse(RefusedReason::ShuttingDown, self.operation, None),
        }
        if !world.take_room() {
            return refuse(RefusedReason::Full, self.operation, None);
        }
        let Some(home) = self.home() else {
            return refuse(RefusedReason::NoSuchLocality, self.operation, None);
        };
        let (operation, phase, meta, priority) =
            (self.operation, self.phase, self.meta, self.priority);
        let fom = match self.key {
            None => make(&home, operation, phase, meta, priority, None),
            Some(key) => {
                let mut operation = Some(operation);
                let claimed = world.directory.claim(&key, || {
                    let operation = operation.take().expect("claim calls this once");
                    make(&home, operation, phase, meta, priority, Some(key.clone()))
                });
                match (claimed, operation) {
                    (Ok(fom), _) => fom,
                    (Err(live), Some(operation)) => {
                        return refuse(RefusedReason::KeyInUse, operation, Some(live));
                    }
                    (Err(live), None) => live,
                }
            }
        };
        let any = fom.any();
        home.live.fetch_add(1, Ordering::AcqRel);
        any.header().entry.started();
        home.registry.insert(Arc::clone(&any));
        crate::locality::enqueue(any);
        Ok(Handle::new(fom))
    }

    fn home(&self) -> Option<Arc<Locality>> {
        let all = &self.runtime.localities;
        let here = || {
            crate::locality::with_core(|core| Arc::clone(&core.home))
                .filter(|home| Arc::ptr_eq(&home.world, &self.runtime.world))
        };
        let next = || self.runtime.world.turn.fetch_add(1, Ordering::Relaxed) % all.len();
        let by_hash = |hash: u64| (hash % all.len() as u64) as usize;
        let index = match (self.placement, &self.key) {
            (Some(Placement::Locality(index)), _) => index,
            (Some(Placement::Key(key)), _) => {
                by_hash(self.runtime.world.directory.hash(&Key::Int(key)))
            }
            (None, Some(key)) => by_hash(self.runtime.world.directory.hash(key)),
            (Some(Placement::LeastLoaded), _) => {
                // The first after the last one taken, so that equally loaded ones take turns.
                let first = next();
                (0..all.len())
                    .map(|n| (first + n) % all.len())
                    .min_by_key(|index| all[*index].live.load(Ordering::Relaxed))?
            }
            (Some(Placement::RoundRobin), _) => next(),
            (Some(Placement::Here) | None, _) => match here() {
                Some(home) => return Some(home),
                None => next(),
            },
        };
        all.get(index).cloned()
    }
}

fn make<O: Operation>(
    home: &Arc<Locality>,
    operation: O,
    phase: O::Phase,
    meta: Meta,
    priority: Priority,
    key: Option<Key>,
) -> FomRef<O> {
    let world = &home.world;
    let header = Header::new(
        FomId(world.next_number()),
        Arc::clone(home),
        priority,
        key,
        home.types.of::<O>(),
        O::index(O::kind(&phase)),
    );
    FomRef::new(
        O::Form::launch(Seed {
            header,
            operation,
            phase,
            tries: meta.attempt,
            left: meta.left,
            resumed: meta.resumed,
        })
        .0,
    )
}

impl<O: Operation> IntoFuture for Submission<O> {
    type Output = Result<Ended<O>, Failure<O>>;
    type IntoFuture = Started<O>;

    fn into_future(self) -> Started<O> {
        Started(self.start().map_err(Some))
    }
}

/// A submission that was started by awaiting it.
pub struct Started<O: Operation>(Result<Handle<O>, Option<Refused<O>>>);

impl<O: Operation> fmt::Debug for Started<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Started")
    }
}

// A refused operation in here is only ever moved out, never pinned.
impl<O: Operation> Unpin for Started<O> {}

impl<O: Operation> Future for Started<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match &mut self.0 {
            Ok(handle) => Pin::new(handle).poll(cx),
            Err(refused) => {
                let refused = refused.take().expect("polled after it was ready");
                std::task::Poll::Ready(Err(Failure::new(
                    Cause::Refused(refused.reason()),
                    O::GRAPH.phases()[O::index(O::kind(&O::start()))].name(),
                    Some(refused.into_operation()),
                )))
            }
        }
    }
}
