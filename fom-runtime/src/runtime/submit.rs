//! Submission of an operation to the runtime.

use std::{
    any::TypeId,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

#[cfg(doc)]
use crate::fom::Cause;
use crate::{
    exclusive::Exclusive,
    fom::{
        AnyRef, NewFom, Order, OtherTurn, Priority, RefusedReason, RuntimeState, Ticket,
        durability::KeptFom, hand,
    },
    id::{FomId, Key, KeyOf},
    locality::Locality,
    operation::{Form, Operation},
    runtime::{
        FomRef, Handle, Refused, RefusedInner, Shared,
        keys::{self, Names},
        room::HeldRoom,
        spawn::{Begin, Place, SpawnRequest},
    },
    snapshot::Meta,
    typed::{Ended, Failure, Launched, Outcome, Seed, TypedRef, settle, start_here},
};
use fom_protocol::sync::atomic::Ordering;

/// Decides which locality becomes the home of a fom. The choice is made when the fom is submitted.
///
/// A fom stays in its home, unless the runtime moves foms to [balance](crate::balance::Balance::Foms) its load. Then
/// only foms move for which the submission did not choose a home; see there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// Each locality in turn.
    RoundRobin,
    /// The locality with the fewest foms.
    LeastLoaded,
    /// The locality of the calling thread; round-robin from outside.
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
    pub(super) ticket: Option<Ticket>,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// Room that was kept for the fom.
    pub(super) room: Option<HeldRoom>,
    /// The name of its series.
    pub(super) series: Option<Key>,
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
            ticket: None,
            after: None,
            room: None,
            series: None,
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
    #[inline]
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

    fn has_ticket(&self) -> bool {
        let special = self.special.as_ref();
        special.is_some_and(|special| special.ticket.is_some())
    }

    /// Returns how a submission that runs once is started.
    fn starts_once(&self) -> Option<StartOnce<O>> {
        let once = self.special.as_ref()?.once.as_ref();
        once.map(|once| once.start)
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

    /// Makes the operation one of a series: it runs after the earlier ones of its type with this name have ended, first
    /// in, first out. Other series go on meanwhile.
    ///
    /// The [key](Self::key) is another thing. It is the name by which callers find one operation. So the orders of a
    /// customer run one after the other, and each can be found:
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
    /// The fom waits in the line of its series as [`queue`](Self::queue) says for a key. [`shared`](Self::shared) and
    /// [`shed_oldest`](Self::shed_oldest) are about this line, and [`key_queue`](crate::Builder::key_queue) limits it.
    /// The key of such a fom does not queue: while another fom has the key, the submission is refused. Foms of a series
    /// share a home, unless the submission asks for a placement.
    pub fn serial(mut self, name: impl Into<Key>) -> Self {
        if self.order == Order::Chain {
            self.order = Order::Refuse;
        }
        self.special().series = Some(name.into());
        self.queue()
    }

    /// Chooses the home. By default, an operation with a key goes to the home of its key. Without a key, an operation
    /// that a fom submits stays here; all others go to each locality in turn.
    pub fn place(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Sets a value that is dropped when the fom has ended in any way, or could not be made. A runtime that drains
    /// takes such a submission: its operation was let in before the drain began.
    pub fn guard(mut self, guard: impl Send + 'static) -> Self {
        self.special().ticket = Some(Ticket::Guard(Box::new(guard)));
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
    /// With a journal, the fom is not on disk yet when this returns. `committed` of its handle, in `fom-durable`, waits
    /// until it is. It is on disk when its first phase is [reached](crate::FomRef::reached). If that commit fails, the handle returns [`Cause::Journal`] and the
    /// operation.
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
    #[inline]
    pub fn start(self) -> Result<Handle<O>, Refused<O>> {
        if let Some(start) = self.starts_once() {
            return start(self);
        }
        self.launch(true).map(|(fom, _)| Handle::of_new(fom))
    }

    /// Starts the fom without a handle. The runtime drops and counts its outcome. This costs less than a handle that is
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for [`start`](Self::start).
    #[inline]
    pub fn detach(self) -> Result<FomId, Refused<O>> {
        if let Some(start) = self.starts_once() {
            return start(self).map(|handle| handle.id());
        }
        self.launch(false).map(|(_, id)| id)
    }

    #[inline(always)]
    fn launch(self, wanted: bool) -> Result<New<O>, Refused<O>> {
        if self.key.is_none()
            && self.placement.is_none()
            && self.special.is_none()
            && self.order != Order::Chain
            && self.shared.env.takes_all()
            && hand::here_in(&self.shared.env).is_some()
        {
            Ok(self.launch_here(wanted))
        } else {
            self.launch_anywhere(wanted)
                .map_err(|turned| turned.refuse())
        }
    }

    /// The common way of a fom's submission: straight into the run queue of the locality that this thread holds. The
    /// submitting fom is in flight, so a thread that waits for the runtime to become idle waits on.
    #[inline(always)]
    fn launch_here(self, wanted: bool) -> New<O> {
        let Self {
            shared,
            operation,
            phase,
            key,
            priority,
            special,
            ..
        } = self;
        // Both are `None`: there is nothing to drop.
        std::mem::forget((key, special));
        // This is user code if the operation is written by hand. So it runs before the core is borrowed.
        let number = O::index(O::kind(&phase));
        let birth = NewFom {
            // The locality sets its own number, the id and the time.
            id: FomId(0),
            home: 0,
            priority,
            now: 0,
            phase: number,
            settled: false,
            resumed: false,
            cold: None,
            wanted,
            ready: true,
        };
        start_here(&shared.env, birth, operation, phase)
    }

    #[inline(never)]
    pub(super) fn launch_anywhere(self, wanted: bool) -> Result<New<O>, Turned<'a, O>> {
        let shared = self.shared;
        // This is user code if the operation is written by hand. So it runs before anything is counted, locked or
        // borrowed.
        let phase_index = O::index(O::kind(&self.phase));
        let turned = |sent, reason, operation, live| Turned {
            shared,
            sent,
            reason,
            operation,
            live,
        };
        let Target { index, here, sent } = self.target();
        let (settled, chosen) = self.is_placed();
        let reason = self.refused_by_state(here);
        let special = self.special.map(|special| *special).unwrap_or_default();
        let recorded = special.recorded;
        let is_recorded = recorded.as_ref().is_some_and(|it| it.state.is_some());
        let names = Names {
            key: self.key,
            series: special.series,
        };
        let other = match self.order {
            Order::Chain => {
                let turn = hand::context::running(&shared.env, |fom| fom.turn().key()).flatten();
                turn.map(OtherTurn::Chained)
            }
            _ => names
                .turn(TypeId::of::<O>())
                .filter(|of| of.is_serial)
                .map(OtherTurn::Serial),
        };
        let no_turn = self.order == Order::Chain && other.is_none();
        let reason = reason
            .or(no_turn.then_some(RefusedReason::NoTurn))
            .or_else(|| take_room(shared, is_recorded, special.room));
        let (reason, index) = match (reason, index) {
            (None, Some(index)) => (None, index),
            (None, None) => {
                shared.env.give_room();
                (Some(RefusedReason::NoSuchLocality), 0)
            }
            (reason, _) => (reason, 0),
        };
        if let Some(reason) = reason {
            return Err(turned(sent, reason, self.operation, None));
        }
        let (id, number, state) = match recorded {
            Some(recorded) => (Some(recorded.id), recorded.number, recorded.state),
            None => (None, None, None),
        };
        let request = SpawnRequest {
            shared,
            place: Place {
                index,
                here,
                settled,
                chosen,
            },
            phase: phase_index,
            wanted,
            meta: special.meta,
            priority: self.priority,
            id,
            state,
            back: None,
            operation_id: special.once.map(|once| once.id),
            ticket: special.ticket,
            begin: Begin {
                order: self.order,
                after: special.after,
                other,
            },
        };
        let refused = |(reason, operation, live)| turned(sent, reason, operation, live);
        let (ready, made) =
            keys::enter(request, self.operation, self.phase, names, number).map_err(refused)?;
        if let Some(fom) = ready {
            crate::locality::enqueue(shared, fom);
        }
        Ok(made)
    }

    /// Chooses the home of the fom, and counts the fom there.
    #[inline(always)]
    fn target(&self) -> Target<'a> {
        let index = self.home();
        let here = index.is_some_and(|index| hand::holds(&self.shared.env, index));
        let sent = index
            .filter(|_| !here)
            .map(|index| &self.shared.localities[index]);
        if let Some(home) = sent {
            // Counted before the mode is read: a shutdown that begins meanwhile waits for the fom or refuses it.
            home.counts.one_sent();
        }
        Target { index, here, sent }
    }

    /// Returns whether the fom stays in its home, and whether the submission chose the home other than by the key.
    #[inline(always)]
    fn is_placed(&self) -> (bool, bool) {
        let chosen = matches!(
            self.placement,
            Some(Placement::Here | Placement::Locality(_) | Placement::Key(_))
        );
        match self.home_name() {
            Some(_) => (true, self.placement.is_some()),
            None => (chosen, chosen),
        }
    }

    /// Returns the name of the series.
    #[inline(always)]
    pub(crate) fn series(&self) -> Option<&Key> {
        self.special.as_ref()?.series.as_ref()
    }

    /// Returns the name by which the home is chosen: foms of a series share one.
    #[inline(always)]
    fn home_name(&self) -> Option<&Key> {
        self.series().or(self.key.as_ref())
    }

    /// Returns the turn that the fom will need.
    pub(crate) fn turn(&self) -> Option<KeyOf> {
        KeyOf::turn(TypeId::of::<O>(), self.key.as_ref(), self.series())
    }

    /// Returns why the state of the runtime refuses the submission, if it does.
    #[inline(always)]
    fn refused_by_state(&self, here: bool) -> Option<RefusedReason> {
        match self.shared.env.state() {
            RuntimeState::Open => None,
            RuntimeState::Draining if here || hand::context::runs_fom_of(&self.shared.env) => None,
            RuntimeState::Draining if self.has_ticket() => None,
            _ => Some(RefusedReason::ShuttingDown),
        }
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
            return Err(self.refused(RefusedReason::ShuttingDown));
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
            operation: self.operation,
            phase: O::start(),
        });
        settle(launched.resident, outcome);
        shared.tell_idle();
        Ok(Handle::of_new(launched.handle))
    }

    /// Returns the index of the home, or `None` if the placement names a locality that does not exist.
    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        let recorded = self.special.as_ref();
        if let Some(recorded) = recorded.and_then(|special| special.recorded.as_ref()) {
            return Some(recorded.home);
        }
        let shared = self.shared;
        let count = shared.localities.len();
        let next = || shared.turn.fetch_add(1, Ordering::Relaxed) % count;
        let by_hash = |hash: u64| (hash % count as u64) as usize;
        match (self.placement, self.home_name()) {
            (Some(Placement::Locality(index)), _) => (index < count).then_some(index),
            (Some(Placement::Key(key)), _) => Some(by_hash(shared.key_index.hash(&Key::Int(key)))),
            (None, Some(key)) => Some(by_hash(shared.key_index.hash(key))),
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

/// Takes the room that the fom needs. Returns why there is none.
#[inline(always)]
fn take_room(shared: &Shared, is_recorded: bool, kept: Option<HeldRoom>) -> Option<RefusedReason> {
    if is_recorded {
        // It is in the journal, and takes room there already.
        shared.env.room.take_again();
        return None;
    }
    if let Some(kept) = kept {
        kept.use_up();
        return None;
    }
    (!shared.env.room.take()).then_some(RefusedReason::Full)
}

/// The home of a submission.
struct Target<'a> {
    /// Its index, or `None` if there is no such locality.
    index: Option<usize>,
    /// Whether this thread holds the core of the home.
    here: bool,
    /// The home that counts the fom already.
    sent: Option<&'a Locality>,
}

/// The reference for the handle of a new fom, if one is wanted, and the id of the fom.
pub(super) type New<O> = (Option<TypedRef<O>>, FomId);

/// A submission that was turned away, before its caller learns of it.
pub(super) struct Turned<'a, O: Operation> {
    pub(super) shared: &'a Shared,
    pub(super) sent: Option<&'a Locality>,
    pub(super) reason: RefusedReason,
    pub(super) operation: O,
    pub(super) live: Option<FomRef<O>>,
}

impl<O: Operation> Turned<'_, O> {
    #[cold]
    pub(super) fn refuse(self) -> Refused<O> {
        if let Some(home) = self.sent {
            home.take_back();
            self.shared.tell_idle();
        }
        Refused(Box::new(RefusedInner {
            reason: self.reason,
            operation: Exclusive::new(self.operation),
            live: self.live,
        }))
    }
}

impl<O: Operation> IntoFuture for Submission<'_, O> {
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

// A refused operation in here is only moved out, never pinned.
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
                std::task::Poll::Ready(Err(refused.into()))
            }
        }
    }
}
