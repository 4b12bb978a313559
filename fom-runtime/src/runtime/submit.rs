//! Submission of an operation to the runtime.

mod launch;

use std::{
    any::TypeId,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

pub(in crate::runtime) use launch::{New, Turned};
use launch::{may_run_in_place, start_in_place, starts_once};

#[cfg(doc)]
use crate::fom::Cause;
use crate::{
    fom::{
        AnyRef, Carried, Guard, NewFom, Order, Priority, RefusedReason, durability::KeptFom, hand,
    },
    id::{FomId, Key, KeyHash, KeyOf},
    operation::{Form, Operation},
    runtime::{Handle, Refused, Shared, room::HeldRoom},
    snapshot::Meta,
    typed::{Ended, Failure, Launched, Outcome, Seed, settle},
};
use fom_protocol::sync::atomic::Ordering;

/// Decides which locality becomes the home of a fom. The choice is made when the fom is submitted.
///
/// A fom stays in its home, unless the runtime moves foms to [balance](crate::balance::Balance::Foms) its load. Even
/// then a fom stays if its submission chose the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// Each locality in turn.
    RoundRobin,
    /// The locality with the fewest foms.
    LeastLoaded,
    /// The locality of the calling thread. For a thread outside of the runtime, each locality in turn.
    Here,
    /// The locality with this index, counted from zero.
    Locality(usize),
    /// A locality that is the same for the same number. Use it for foms that belong together.
    Key(u64),
}

/// An operation on its way into the runtime. It starts when it is awaited, or by [`start`](Self::start).
#[must_use = "a submission does nothing until it is started or awaited"]
pub struct Submission<'a, O: Operation> {
    pub(crate) shared: &'a Shared,
    pub(crate) operation: O,
    pub(crate) phase: O::Phase,
    pub(crate) key: Option<Key>,
    pub(crate) placement: Option<Placement>,
    pub(crate) priority: Priority,
    pub(crate) order: Order,
    /// What few submissions have. A box, because each byte here is copied for every submission.
    pub(crate) special: Option<Box<Special<O>>>,
}

/// What few submissions have.
pub(crate) struct Special<O: Operation> {
    /// What a snapshot says of a resumed fom.
    pub(super) meta: Meta,
    /// Set if the operation was in an outbox.
    pub(crate) recorded: Option<Recorded>,
    /// The operation id, and the function that reads a remembered outcome.
    pub(crate) once: Option<Once<O>>,
    /// Dropped when the fom has ended.
    pub(super) guard: Option<Guard>,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// Room that was kept for the fom.
    pub(super) room: Option<HeldRoom>,
    /// The name of its series.
    pub(super) series: Option<Key>,
    /// What the fom carries, as far as the submission says it.
    pub(super) carried: Option<Arc<Carried>>,
}

/// A submission that an outbox has sent.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct Recorded {
    /// The id of the fom.
    pub id: FomId,
    /// The index of the home.
    pub home: usize,
    /// The number of the fom in the order of what outboxes sent, if it has a record and a key.
    pub number: Option<u64>,
    /// The state of a fom that has a record.
    pub state: Option<Box<dyn KeptFom>>,
}

/// A submission that runs once.
pub(crate) struct Once<O: Operation> {
    pub(crate) id: Key,
    /// Starts the operation, unless one with its id was started before.
    pub(crate) start: StartOnce<O>,
}

/// Starts the operation, unless an operation with its id was started before.
pub(crate) type StartOnce<O> = fn(Submission<'_, O>) -> Result<Handle<O>, Refused<O>>;

impl<O: Operation> Default for Special<O> {
    fn default() -> Self {
        Self {
            meta: Meta::default(),
            recorded: None,
            once: None,
            guard: None,
            after: None,
            room: None,
            series: None,
            carried: None,
        }
    }
}

impl<O: Operation> fmt::Debug for Submission<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("operation", &O::GRAPH.operation())
            .field("key", &self.key)
            .field("placement", &self.placement)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

impl<'a, O: Operation> Submission<'a, O> {
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared, operation: O) -> Self {
        Self {
            shared,
            operation,
            phase: O::start(),
            key: None,
            placement: None,
            priority: Priority::Normal,
            order: Order::Refuse,
            special: None,
        }
    }

    pub(super) fn resumed(shared: &'a Shared, operation: O, phase: O::Phase, meta: Meta) -> Self {
        let mut submission = Self {
            phase,
            ..Self::new(shared, operation)
        };
        submission.special().meta = meta;
        submission
    }

    pub(crate) fn special(&mut self) -> &mut Special<O> {
        self.special.get_or_insert_default()
    }

    /// Gives the operation a key, which at most one live fom of its type has.
    ///
    /// While another fom has the key or waits for it, this submission is refused. Use [`queue`](Self::queue) to wait
    /// instead, or [`join`](Self::join) to learn which fom it is. Foms with the same key share a home, unless the
    /// submission asks for a placement.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        if self.order == Order::Chain {
            self.order = Order::Refuse;
        }
        self
    }

    /// Makes the operation a part of the series with this name. The operations of a series have one type, and run one
    /// after the other, first in, first out. Other series go on meanwhile.
    ///
    /// A series is not a [key](Self::key). The key is the name by which callers find one operation. So the orders of a
    /// customer can run one after the other, and callers can find each of them:
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// struct Order;
    ///
    /// #[fom(operation(Order), transient)]
    /// enum Fulfil {
    ///     #[phase(start, sync, to(Shipped))]
    ///     Ship,
    ///     #[phase(end)]
    ///     Shipped,
    /// }
    /// # impl FulfilTransitions for Order {
    /// #     fn ship(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// let runtime = Runtime::new()?;
    /// let first = runtime.submit(Order).key("order 1").serial("customer 7").start()?;
    /// let second = runtime.submit(Order).key("order 2").serial("customer 7").start()?;
    /// second.wait()?;
    /// # first.wait()?;
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// The fom waits in the queue of its series, as [`queue`](Self::queue) says for a key. [`shared`](Self::shared) and
    /// [`shed_oldest`](Self::shed_oldest) apply to this queue, and [`key_queue`](crate::Builder::key_queue) limits it.
    /// For its key such a fom does not wait: while another fom has the key, the submission is refused. Foms of a series
    /// share a home, unless the submission asks for a placement.
    ///
    /// With a journal, the place in the queue is not on disk yet when [`start`](Self::start) returns. `committed` of the
    /// handle, in `fom-durable`, waits until it is.
    pub fn serial(mut self, name: impl Into<Key>) -> Self {
        if self.order == Order::Chain {
            self.order = Order::Refuse;
        }
        self.special().series = Some(name.into());
        self.queue()
    }

    /// Chooses the home. Default: the home of the key. Without a key, an operation that a fom submits gets the home of
    /// this fom. All other operations go to each locality in turn.
    pub fn place(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Sets a value that the runtime drops when the fom has ended in any way, or could not be made. A runtime that
    /// drains takes such a submission, because the operation was let in before the drain began.
    pub fn guard(mut self, guard: impl Send + 'static) -> Self {
        self.special().guard = Some(Box::new(guard));
        self
    }

    /// Starts the fom even if the runtime is at its [capacity](crate::Builder::capacity). Use it for a fom without
    /// which no other fom could end.
    pub fn beyond_capacity(mut self) -> Self {
        self.shared.env.room.take_again();
        self.special().room = Some(HeldRoom::new(self.shared));
        self
    }

    /// Sets the priority in the run queue of the home.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Starts the fom.
    ///
    /// With a journal, the fom is not on disk yet when this method returns. `committed` of its handle, in
    /// `fom-durable`, waits until the fom is on disk. A fom that has [reached](crate::FomRef::reached) its first phase is
    /// on disk, too. If that commit fails, the handle returns [`Cause::Journal`] and the operation.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back:
    ///
    /// - The runtime is full or shuts down.
    /// - The key is in use, or its queue is full.
    /// - The locality does not exist.
    /// - The operation with this id is quarantined.
    ///
    /// A refused submission leaves nothing behind.
    #[inline(always)]
    pub fn start(self) -> Result<Handle<O>, Refused<O>> {
        if let Some(start) = starts_once(&self) {
            return start(self);
        }
        self.launch(true).map(|(fom, _)| Handle::of_new(fom))
    }

    /// Starts the fom and blocks the thread until the fom ends, as `.await` does without blocking. Inside a phase function
    /// the wait is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// Fails with the fom's [`Failure`]. Its cause is [`Refused`](crate::Cause::Refused) if the submission was refused.
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`].
    pub fn wait(self) -> Result<Ended<O>, Failure<O>> {
        self.start()?.wait()
    }

    /// Starts the fom without a handle. The runtime counts the outcome and drops it. A submission without a handle costs
    /// less than one with a handle that is dropped.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for [`start`](Self::start).
    #[inline(always)]
    pub fn detach(self) -> Result<FomId, Refused<O>> {
        if let Some(start) = starts_once(&self) {
            return start(self).map(|handle| handle.id());
        }
        self.launch(false).map(|(_, id)| id)
    }

    /// Starts the fom and runs it at once, on the stack of the fom that submits it, until it ends or first waits. An
    /// operation that never waits costs least this way: it enters no queue, and its outcome is returned.
    ///
    /// ```
    /// use fom_runtime::{prelude::*, submission::Now};
    /// # struct Add(u64, u64);
    /// # #[fom(operation(Add), transient)]
    /// # enum Adding { #[phase(start, sync, to(Sum))] Add, #[phase(end)] Sum { sum: u64 } }
    /// # impl AddingTransitions for Add {
    /// #     fn add(&mut self, _: &mut Cx<'_>) -> Result<AddingAfterAdd, BoxError> {
    /// #         Ok(AddingAfterAdd::Sum { sum: self.0 + self.1 })
    /// #     }
    /// # }
    /// struct Client { sums: Vec<u64> }
    ///
    /// #[fom(operation(Client), transient)]
    /// enum Serving {
    ///     #[phase(start, to(Gone))]
    ///     Serve,
    ///     #[phase(end)]
    ///     Gone,
    /// }
    ///
    /// impl ServingTransitions for Client {
    ///     async fn serve(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
    ///         let added = match cx.submit(Add(1, 2)).now()? {
    ///             Now::Ended(outcome) => outcome?,
    ///             Now::GoesOn(handle) => handle.await?,
    ///         };
    ///         let AddingEnd::Sum { sum } = added.end;
    ///         self.sums.push(sum);
    ///         Ok(())
    ///     }
    /// }
    /// # let client = Runtime::new()?.submit(Client { sums: Vec::new() }).wait()?;
    /// # assert_eq!(client.operation.sums, [3]);
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// The fom runs before all foms that wait for their turn. It has a budget of its own, and the run counts as one step
    /// of the submitter. If the fom enters a blocking section, other foms of the locality run meanwhile, while the
    /// submitter is in its phase function.
    ///
    /// In these cases the fom is started as by [`start`](Self::start), and the answer is [`Now::GoesOn`]:
    ///
    /// - The submission has a key, a placement or another setting than its priority.
    /// - The runtime has a journal, a capacity, a history or values that foms carry.
    /// - The caller is no phase function, is in a blocking section, or was itself started by `now`.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for [`start`](Self::start).
    #[inline]
    pub fn now(self) -> Result<Now<O>, Refused<O>> {
        if may_run_in_place(&self) {
            Ok(start_in_place(self))
        } else {
            self.start().map(Now::GoesOn)
        }
    }

    /// Returns the name of the series.
    #[inline(always)]
    pub(crate) fn series(&self) -> Option<&Key> {
        self.special.as_ref()?.series.as_ref()
    }

    /// Returns the name by which the home is chosen: foms of a series share one.
    #[inline(always)]
    pub(crate) fn home_name(&self) -> Option<&Key> {
        self.series().or(self.key.as_ref())
    }

    /// Returns the turn that the fom will need.
    pub(crate) fn turn(&self) -> Option<KeyOf> {
        KeyOf::turn(TypeId::of::<O>(), self.key.as_ref(), self.series())
    }

    /// Starts the operation, whether or not it has an id. Calls `began` with the fom before the handle is made.
    pub(crate) fn start_now(self, began: impl FnOnce(AnyRef)) -> Result<Handle<O>, Refused<O>> {
        match self.launch_anywhere(true) {
            Ok((fom, _)) => {
                let handle = Handle::of_new(fom);
                began(handle.fom().any().clone());
                Ok(handle)
            }
            Err(turned) => {
                drop(began);
                Err(turned.refuse())
            }
        }
    }

    /// Starts an operation that came through an outbox, without a handle.
    pub(crate) fn launch_sent(self) -> Result<(), Refused<O>> {
        let launched = self.launch_anywhere(false);
        launched.map(drop).map_err(Turned::refuse)
    }

    /// Gives the operation back.
    pub(crate) fn refused(self, reason: RefusedReason) -> Refused<O> {
        Turned {
            shared: self.shared,
            sent: None,
            reason,
            operation: self.operation,
            live: None,
        }
        .refuse()
    }

    /// Makes a fom with this id that has ended with this outcome. The caller gets a handle to it.
    pub(crate) fn settled(
        self,
        id: FomId,
        outcome: impl FnOnce() -> Outcome<O>,
    ) -> Result<Handle<O>, Refused<O>> {
        let shared = self.shared;
        let home = &shared.localities[0];
        // Counted before the mode is read, as in `launch_anywhere`.
        home.counts.one_sent();
        if self.shared.is_late() {
            home.take_back();
            let reason = self.shared.env.late_reason();
            return Err(self.refused(reason));
        }
        shared.env.room.take_again();
        let outcome = outcome();
        let birth = NewFom {
            id,
            home: home.index,
            priority: Priority::Normal,
            now: shared.env.clock.nanos(),
            phase: outcome
                .as_ref()
                .map_or(0, |ended| O::index(O::kind(&ended.phase))),
            settled: true,
            resumed: false,
            cold: None,
            wanted: true,
            ready: false,
        };
        let launched: Launched<O> = O::Form::build(Seed {
            stocks: &mut home.outer.lock(),
            env: &shared.env,
            birth,
            operation: || self.operation,
            phase: O::start(),
        });
        settle(launched.resident, outcome);
        shared.tell_idle();
        Ok(Handle::of_new(launched.handle))
    }

    /// Returns the index of the home, or `None` if the placement names a locality that does not exist. `hash`: the hash of
    /// the name by which the home is chosen.
    #[inline]
    pub(crate) fn home(&self, hash: Option<KeyHash>) -> Option<usize> {
        let recorded = self.special.as_ref();
        if let Some(recorded) = recorded.and_then(|special| special.recorded.as_ref()) {
            return Some(recorded.home);
        }
        let shared = self.shared;
        let count = shared.localities.len();
        let next = || shared.turn.fetch_add(1, Ordering::Relaxed) % count;
        match (self.placement, hash) {
            (Some(Placement::Locality(index)), _) => (index < count).then_some(index),
            (Some(Placement::Key(key)), _) => Some(shared.home_of(&Key::Int(key))),
            (None, Some(hash)) => Some(hash.home(count)),
            (Some(Placement::LeastLoaded), _) => {
                // Starts after the last one taken, so that equally loaded localities take turns.
                let first = next();
                (0..count)
                    .map(|n| (first + n) % count)
                    .min_by_key(|index| shared.localities[*index].counts.in_flight())
            }
            (Some(Placement::RoundRobin), _) => Some(next()),
            (Some(Placement::Here) | None, _) => {
                Some(hand::here_in(&shared.env).unwrap_or_else(next))
            }
        }
    }
}

impl<O: Operation> IntoFuture for Submission<'_, O> {
    type Output = Result<Ended<O>, Failure<O>>;
    type IntoFuture = Started<O>;

    fn into_future(self) -> Started<O> {
        Started(self.start().map_err(|refused| Some(Err(refused.into()))))
    }
}

/// The result of [`Submission::now`]. Await it for the outcome in either case.
#[must_use = "the outcome is dropped with this value"]
pub enum Now<O: Operation> {
    /// The fom has ended.
    Ended(Result<Ended<O>, Failure<O>>),
    /// The fom waits, has used up its budget, or was only started.
    GoesOn(Handle<O>),
}

impl<O: Operation> fmt::Debug for Now<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(Ok(ended)) => f.debug_tuple("Ended").field(&ended.kind()).finish(),
            Self::Ended(Err(_)) => f.write_str("Ended(failure)"),
            Self::GoesOn(handle) => f.debug_tuple("GoesOn").field(handle).finish(),
        }
    }
}

impl<O: Operation> IntoFuture for Now<O> {
    type Output = Result<Ended<O>, Failure<O>>;
    type IntoFuture = Started<O>;

    fn into_future(self) -> Started<O> {
        Started(match self {
            Self::Ended(outcome) => Err(Some(outcome)),
            Self::GoesOn(handle) => Ok(handle),
        })
    }
}

/// A submission that was started by awaiting it. Without a handle there is an answer already.
pub struct Started<O: Operation>(Result<Handle<O>, Answer<O>>);

/// The outcome, or `None` after it was taken.
type Answer<O> = Option<Result<Ended<O>, Failure<O>>>;

impl<O: Operation> fmt::Debug for Started<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Started")
    }
}

// An answer in here is only moved out, never pinned.
impl<O: Operation> Unpin for Started<O> {}

impl<O: Operation> Future for Started<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        match &mut self.0 {
            Ok(handle) => Pin::new(handle).poll(cx),
            Err(answer) => {
                let answer = answer.take().expect("polled after it was ready");
                std::task::Poll::Ready(answer)
            }
        }
    }
}
