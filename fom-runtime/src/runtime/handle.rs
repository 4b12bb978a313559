//! What the outside holds of a fom: a handle that gets the outcome, and addresses.

use std::{
    fmt,
    future::{Future, poll_fn},
    ops::Deref,
    pin::{Pin, pin},
    sync::Weak,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    fom::{
        AnyRef, Attached, BlockError, FomAddress, Header, MailRef, Mailed, SendError, TimedOut,
        Told, WaitingFor, Watcher,
    },
    id::{FomId, Key},
    locality::{Home, Sleep},
    operation::Operation,
    runtime::keys::bar_if_stuck,
    typed::{AtEnd, Ended, Failure, Outcome, Typed, TypedRef},
};
use fom_protocol::FomState;

/// Gets the outcome of a fom. Await it, or call [`wait`](Self::wait) in a plain thread. It derefs to the fom's
/// [`FomRef`]. If the handle is dropped, the fom runs on and its outcome is dropped.
///
/// # Cancel safety
///
/// Cancel safe as a future: the outcome stays until it is taken.
#[must_use = "the outcome of the fom is dropped with its handle"]
pub struct Handle<O: Operation> {
    fom: FomRef<O>,
    /// Set if the fom's own handle belongs to an earlier submission.
    joined: Option<JoinedOutcome<O>>,
}

/// The outcome of a fom that was submitted before, with the same operation id.
pub type JoinedOutcome<O> = Pin<Box<dyn Future<Output = Outcome<O>> + Send + Sync>>;

impl<O: Operation> fmt::Debug for Handle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.fom).finish()
    }
}

impl<O: Operation> Handle<O> {
    /// Makes the handle of a new fom, which has a reference for it.
    #[inline]
    pub(super) fn of_new(fom: Option<TypedRef<O>>) -> Self {
        let fom = fom.expect("a wanted fom has a reference for its handle");
        let fom = FomRef(fom);
        Self { fom, joined: None }
    }

    /// Returns the outcome if it is there.
    pub(super) fn outcome_now(&self) -> Option<Result<Ended<O>, Failure<O>>> {
        self.fom.typed().outcome_now()
    }

    /// Makes a handle of a fom that an earlier submission started.
    pub(crate) fn joined(fom: FomRef<O>, outcome: JoinedOutcome<O>) -> Self {
        Self {
            fom,
            joined: Some(outcome),
        }
    }

    /// Returns the address of the fom. A program can keep the address and pass it on.
    pub fn fom(&self) -> &FomRef<O> {
        &self.fom
    }

    /// Blocks the thread until the fom ends. Inside a phase function this call is a blocking section
    /// ([`enter_block`](crate::Cx::enter_block)), so the awaited fom may live in the same locality.
    ///
    /// # Errors
    ///
    /// Fails with the fom's [`Failure`].
    ///
    /// # Panics
    ///
    /// Panics inside `Cx::local`, where it would wait forever. Also panics if a thread must take over the locality, and
    /// none is available.
    pub fn wait(self) -> Result<Ended<O>, Failure<O>> {
        block_on(self)
    }
}

/// Blocks this thread on a future. If the thread runs a phase function, the wait is a blocking section by itself.
///
/// # Panics
///
/// Panics inside a closure that holds the locality, and where
/// [`Cx::enter_block`](crate::Cx::enter_block) fails: the wait would last forever.
pub fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        !crate::fom::hand::context::is_taken(),
        "waiting inside a closure that holds the locality would be for ever; wait after it"
    );
    let _away = match crate::locality::enter_block() {
        Ok(away) => Some(away),
        Err(BlockError::NotInPhase) => None,
        Err(error) => panic!("cannot wait here: {error}"),
    };
    fom_protocol::sync::block_on(future)
}

impl<O: Operation> Deref for Handle<O> {
    type Target = FomRef<O>;

    fn deref(&self) -> &FomRef<O> {
        &self.fom
    }
}

impl<O: Operation> Future for Handle<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(joined) = &mut this.joined {
            let polled = joined.as_mut().poll(cx);
            if polled.is_pending() {
                WaitingFor::Fom.say();
            }
            return polled.map(|outcome| outcome.map(AtEnd::ended));
        }
        match self.fom.typed().poll_outcome(cx.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.fom.expect_end();
                WaitingFor::Fom.say();
                Poll::Pending
            }
        }
    }
}

impl<O: Operation> Drop for Handle<O> {
    fn drop(&mut self) {
        if self.joined.is_none() {
            self.fom.typed().detach();
        }
    }
}

/// The address of a fom. Cheap to clone. It keeps the fom's memory, not the fom.
pub struct FomRef<O: Operation>(TypedRef<O>);

impl<O: Operation> Clone for FomRef<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: Operation> fmt::Debug for FomRef<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} in {}",
            O::GRAPH.operation(),
            self.id(),
            self.0.phase_name()
        )
    }
}

impl<O: Operation> FomRef<O> {
    /// Returns one more address, if this is a fom of `O`.
    pub(crate) fn of_any(fom: &AnyRef) -> Option<Self> {
        TypedRef::of(fom.clone()).map(Self)
    }

    fn typed(&self) -> &Typed<O> {
        self.0.typed()
    }

    /// Returns the reference without its type.
    pub(crate) fn any(&self) -> &AnyRef {
        &self.0
    }

    /// Returns its home, to be kept.
    pub(crate) fn home(&self) -> Home {
        Home::of(&self.0)
    }

    /// Drops an event that the fom has not taken, as a crash would.
    pub(crate) fn lose_event(&self) -> bool {
        self.typed().lose_event()
    }

    /// Announces that the fom on this thread is about to wait for the end of this fom. For packages on top of the
    /// runtime.
    ///
    /// If this fom waits for a key that the running fom has, this fom never begins: it ends with
    /// [`Cause::Stuck`](crate::Cause::Stuck). In all other cases, and outside a fom, the call does nothing.
    pub fn expect_end(&self) {
        bar_if_stuck(&self.0);
    }

    /// Returns the address of the fom, for parts of other packages; see [`extension`](crate::extension).
    pub fn fom_address(&self) -> FomAddress {
        FomAddress::of(&self.0)
    }

    /// Adds a part that tells listings more about the fom, as long as the part exists.
    pub fn attach(&self, part: Weak<dyn Attached>) {
        self.0.cold_made().rare_made().attachments.attach(part);
    }

    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.0.id()
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&Key> {
        self.0.key()
    }

    /// Returns the name of the [series](crate::Submission::serial) that the fom was submitted to.
    pub fn serial(&self) -> Option<&Key> {
        self.0.turn().serial().map(|of| &of.key)
    }

    /// Returns the index of the fom's home.
    pub fn locality(&self) -> usize {
        self.0.home_index()
    }

    /// Returns what the runtime does with the fom at this moment.
    pub fn state(&self) -> FomState {
        self.0.token.state()
    }

    /// Returns the name of the fom's phase at this moment.
    pub fn phase(&self) -> &'static str {
        self.0.phase_name()
    }

    /// Sends the fom an event. Events are kept in order until a phase takes them.
    ///
    /// The event is only in memory when this returns. With a journal, a crash loses the event unless a committed step has
    /// taken it. `send_durably`, in `fom-durable`, returns when the event is on disk.
    ///
    /// # Errors
    ///
    /// Fails with [`SendError`], which returns the event, if the fom has ended or its mailbox is full.
    pub fn send(&self, event: O::Event) -> Result<(), SendError<O::Event>> {
        self.typed().send(event)
    }

    /// As [`send`](Self::send), for an event that the sender can send again with the same id. Such an id is the
    /// idempotency key of a client's request, or the id of a message in a queue. The
    /// [step key](crate::Cx::step_key) of an effect of this event is made of this fom and this id. So another service can
    /// tell a repeated request from a new request.
    ///
    /// The runtime does not drop a repeated event: the phase takes it as any other. Two different events for this fom
    /// must have different ids. As after `send`, the event is only in memory when this returns.
    ///
    /// # Errors
    ///
    /// Fails with [`SendError`], which returns the event, if the fom has ended or its mailbox is full.
    pub fn send_with_id(
        &self,
        id: impl Into<Key>,
        event: O::Event,
    ) -> Result<(), SendError<O::Event>> {
        self.typed().send_with_id(&id.into(), event)
    }

    /// Returns a way to send the fom events without knowing its operation type.
    pub fn sender(&self) -> EventSender<O::Event> {
        EventSender::of(self.typed())
    }

    /// Wakes the fom, which checks again what it waits for. Wakes coalesce, and a wake after the end does nothing.
    ///
    /// If the fom waits in the pause of a retry, its next attempt starts now. The attempt counts as any other. The wake
    /// is not written to a journal: after a crash before the attempt, the fom waits for the rest of the pause.
    pub fn wake(&self) {
        // Most machines have no retry, and their wake has nothing to look for.
        if const { O::GRAPH.needs().deadlines() } {
            self.0.wake_to_retry();
        } else {
            self.0.wake();
        }
    }

    /// Asks the fom to end:
    ///
    /// - Before its first phase: it never runs.
    /// - In a phase with `cancelled`: the phase's `_failed` function chooses the next phase, and the fom goes on there.
    ///   The fom hears one cancel. Later cancels do nothing.
    /// - On the way back from such a phase after a failure: only a later phase with `cancelled` hears the cancel.
    /// - In a phase with `cancelled = "later"`: the cancel waits until the fom leaves the phase.
    /// - While it waits in another phase: it ends at once.
    /// - While it runs: [`Cx::is_cancelled`](crate::Cx::is_cancelled) returns `true` from now on. At its next wait, or
    ///   when it has used up its budget, the rules above hold.
    ///
    /// A cancelled fom fails with [`Cause::Cancelled`](crate::Cause::Cancelled), unless it has ended before. The request
    /// to cancel is not in a journal: a crash before the transition loses it. [`abort`](Self::abort) drops the operation
    /// in any phase.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Drops the operation in any phase, without a transition to a further phase. In a phase without `cancelled` this is
    /// the same as [`cancel`](Self::cancel), unless the fom is on the way back.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Waits until the fom is in one of these phases. The fom may be there already. A phase that it only passes through
    /// counts. A phase that it left before this call does not count, so call `reached` before you make the fom go on.
    ///
    /// If the fom has ended in another phase, the answer comes at once. If the fom is in a phase that leads to none of
    /// these phases, the answer is [`Reached::Unreachable`] at once. A wait for no phase lasts until the end.
    pub fn reached(&self, phases: impl IntoIterator<Item = O::Kind>) -> Waiting<O> {
        let kinds: Vec<_> = phases.into_iter().collect();
        Waiting {
            told: watch(&self.0, kinds.iter().map(|kind| O::index(*kind)).collect()),
            kinds,
            home: Home::of(&self.0),
        }
    }
}

/// Waits until the fom is in one of the phases with these indexes, or ends.
pub(crate) fn watch(fom: &AnyRef, phases: Vec<usize>) -> oneshot::Receiver<Told> {
    let (tell, told) = oneshot::channel();
    let looks = !phases.is_empty();
    // Registered at once, not by the job below. A running fom may take an event sent after this call, and pass
    // through phases, before its locality runs the job. Because of the mailbox's lock, the fom sees the mark by
    // then.
    if fom.waiters().watch(Watcher::new(phases, tell)) && looks {
        // Checks whether it is there already. Inside its locality, between two of its steps: no transition happens
        // meanwhile.
        let fom = fom.clone();
        let look = |fom: &AnyRef| fom.waiters().arrived(visited(fom));
        let looked = crate::locality::with_core(|core| {
            let here = core.home.is(fom.env(), fom.home_index());
            if here {
                look(&fom);
            }
            here
        });
        if looked != Some(true) {
            crate::locality::at_home_of(fom, look);
        }
    }
    told
}

/// Returns the phase that a fom has begun, or `usize::MAX` before its first phase and until the begin is committed.
fn visited(fom: &Header) -> usize {
    let committed = fom.kept().is_none_or(|kept| kept.is_recorded());
    if fom.flags.has_begun() && committed {
        fom.visit().index()
    } else {
        usize::MAX
    }
}

/// The result of a wait for a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached<K> {
    /// The fom is in this phase, or has been since the wait began.
    Phase(K),
    /// The fom is in a phase that leads to none of the listed ones, and was in none of them since the wait began.
    Unreachable,
    /// The fom ended. It was in no listed phase since the wait began.
    Ended,
}

/// A wait for one of a set of phases; see [`FomRef::reached`].
///
/// # Cancel safety
///
/// Cancel safe: dropping it ends the wait.
#[must_use = "a wait does nothing until it is awaited"]
pub struct Waiting<O: Operation> {
    kinds: Vec<O::Kind>,
    told: oneshot::Receiver<Told>,
    home: Home,
}

impl<O: Operation> fmt::Debug for Waiting<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiting").field(&self.kinds).finish()
    }
}

impl<O: Operation> Waiting<O> {
    fn answer(&self, told: Told) -> Reached<O::Kind> {
        match told {
            Told::Phase(index) => {
                let kind = self.kinds.iter().find(|kind| O::index(**kind) == index);
                kind.map_or(Reached::Ended, |kind| Reached::Phase(*kind))
            }
            Told::Unreachable => Reached::Unreachable,
            Told::Ended => Reached::Ended,
        }
    }

    /// Waits with a time limit, on the runtime's clock.
    ///
    /// # Errors
    ///
    /// Fails with [`TimedOut`] if neither a phase nor the end was reached by then.
    pub async fn within(self, time: Duration) -> Result<Reached<O::Kind>, TimedOut> {
        let mut sleep = pin!(Sleep::new(self.home.clone(), time));
        let mut waiting = pin!(self);
        poll_fn(|cx| match waiting.as_mut().poll(cx) {
            Poll::Ready(reached) => Poll::Ready(Ok(reached)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| Err(TimedOut(time))),
        })
        .await
    }

    /// Blocks the thread. Inside a phase function this is a blocking section by itself.
    pub fn wait(self) -> Reached<O::Kind> {
        block_on(self)
    }
}

// Nothing in here is pinned.
impl<O: Operation> Unpin for Waiting<O> {}

impl<O: Operation> Future for Waiting<O> {
    type Output = Reached<O::Kind>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = Pin::new(&mut self.told).poll(cx);
        told.map(|told| self.answer(told.unwrap_or(Told::Ended)))
    }
}

/// Sends events to a fom of any operation type that takes events of type `E`.
pub struct EventSender<E>(MailRef<E>);

impl<E> Clone for EventSender<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E> fmt::Debug for EventSender<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventSender({})", self.0.id())
    }
}

impl<E> EventSender<E> {
    pub(crate) fn of(fom: &Mailed<E>) -> Self {
        Self(MailRef::of(fom))
    }

    /// Sends the fom an event.
    ///
    /// # Errors
    ///
    /// Fails with [`SendError`], which returns the event, if the fom has ended or its mailbox is full.
    pub fn send(&self, event: E) -> Result<(), SendError<E>> {
        self.0.send(event)
    }

    /// As [`FomRef::send_with_id`].
    ///
    /// # Errors
    ///
    /// Fails with [`SendError`], which returns the event, if the fom has ended or its mailbox is full.
    pub fn send_with_id(&self, id: impl Into<Key>, event: E) -> Result<(), SendError<E>> {
        self.0.send_with_id(&id.into(), event)
    }
}
