//! One operation in flight: a slot with header, mailbox, deadlines and body.
//!
//! # The life of a fom
//!
//! ```text
//!  slot taken   admitted       runs            waits              ends          last reference goes
//!  (pool) ───▶ Init ───▶ Ready ───▶ Running ───▶ Waiting      Finished ───▶ slot back in the pool
//!                          ▲           │  │          │            ▲
//!                          ├── again ──┘  └── end ───┼────────────┘
//!                          └────────── wake ─────────┘
//! ```
//!
//! 1. A submission takes a slot from the pool of its type in the home locality. [`Header::init`] fills the header.
//! 2. The fom goes into the inbox or the run queue of its home. It is in at most one list, because its header has one
//!    [`Link`].
//! 3. The handler of the home runs the fom: the phase function, then the transition (`transition.rs`), and so on, until
//!    the fom waits, ends, or has used up its budget. `next.rs` decides what comes next, and `run.rs` carries it out.
//! 4. A wake ([`StateCell::wake`]) makes a waiting fom ready. Exactly one waker queues it.
//! 5. The end (`Fom::end`) tells the outcome, and gives up the reference of the runtime.
//! 6. With the last reference, the slot returns to its pool.
//!
//! # The state
//!
//! | word | bits | written by |
//! | --- | --- | --- |
//! | `Header::token`, a [`StateCell`] | init, ready, running, waiting or finished; woken; cancelled | wakes and cancels of any thread; the other steps by the thread that runs the fom |
//! | `Header::marks`, an [`OutcomeBits`] | wanted, watched, answered, abandoned, taken, in a phase, observed | the thread that runs the fom, the handle, and waiters |
//! | `Header::own` | priority; begun, blocked, listed, resumed, settled, noted | the thread that runs the fom |
//!
//! # The fields of the header
//!
//! | field | contents | written by |
//! | --- | --- | --- |
//! | `link` | the next fom in a list | the owner of the list |
//! | `pool` | the pool, and through it the runtime, the graph and the functions of the type | never, once the slot is made |
//! | `refs` | one reference of the runtime until the end; one for each address, handle and waker | any thread |
//! | `phase`, `since` | the phase, and the time of its entry | the thread that runs the fom |
//! | `id`, `submitted` | the id, and the time of the submission | the submission |
//! | `home` | the locality; it changes only when foms are moved for balance | the handler that moves the fom |
//! | `waiting` | what the fom waits for, as a small number | the thread that runs the fom |
//! | `cold` | the state that few foms have, made on demand | set once, by any thread |
//!
//! # Access to the parts
//!
//! | part | access |
//! | --- | --- |
//! | [`Header`] | any thread; all fields are atomic or never change |
//! | [`Mail`](mail::Mail), [`Cold`] | any holder of a reference, under the lock of the field |
//! | [`Timing`] | read by any thread; written by the thread that runs the fom or fires its timer, which holds the core |
//! | body (operation and phase, or future; then the outcome) | the thread that runs the fom, and after the end the owner of the outcome; after a blocking section, the thread regains the core of the home first |
//!
//! A header takes 64 bytes. A mailbox takes 16 bytes and the size of one event. A machine that takes events adds 8
//! bytes, and a machine with deadlines adds 64. The operation and its phase follow, or the future.
//!
//! [`Link`]: fom_protocol::Link
//! [`StateCell`]: fom_protocol::StateCell
//! [`StateCell::wake`]: fom_protocol::StateCell::wake
//! [`OutcomeBits`]: fom_protocol::OutcomeBits

mod address;
mod attached;
mod body;
mod cold;
mod commit;
pub(crate) mod durability;
mod env;
mod error;
mod failure;
mod gate;
mod header;
mod host;
mod key_order;
mod key_wait;
pub(crate) mod launch;
mod listeners;
mod local_foms;
mod mail;
mod next;
mod outcome;
mod pool;
mod priority;
mod reference;
mod room;
mod run;
mod serve;
mod step_async;
mod step_sync;
mod ticket;
mod timing;
mod totals;
mod transition;
mod trim;

use std::{
    alloc::Layout,
    any::{Any, TypeId},
    cell::UnsafeCell,
    mem::{MaybeUninit, offset_of},
    num::NonZeroU16,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    ptr::NonNull,
};

pub use address::{FomAddress, FomIdentity};
pub use attached::{Attached, Blocker, Hold, Holder, Wait, WaitKind};
use body::Body;
pub(crate) use cold::{Cold, ColdRare, Told, Watcher};
pub use durability::Recorder;
use durability::{End, KeptFom};
pub use env::RuntimeState;
pub(crate) use env::{Env, EnvSettings};
pub use error::{
    BlockError, Cause, DurabilityError, Failure, RefusedReason, SendError, TimedOut, Unanswered,
};
pub use header::Header;
pub(crate) use header::{Interrupt, NewFom, Seen, WaitingFor};
pub(crate) use host::{EnvRef, Host};
pub(crate) use key_order::Full;
pub use key_order::Order;
pub(crate) use key_wait::{KeyWait, Rejected};
pub(crate) use launch::{Launch, Seed};
pub(crate) use listeners::Hooks;
pub use listeners::Interpose;
pub use listeners::{Transition, TransitionCause, TransitionOf};
pub(crate) use local_foms::LocalFoms;
pub(crate) use mail::Mailed;
pub use next::{Function, Then};
pub use outcome::{Ended, Outcome};
pub(crate) use pool::{Pool, Pools, Stocks};
pub use priority::Priority;
pub(crate) use reference::Vtable;
pub use reference::{AnyRef, Resident};
pub(crate) use serve::Served;
pub(crate) use ticket::{PartPlace, PartTicket, Ticket};
pub(crate) use timing::Timing;
pub(crate) use totals::{Ends, Totals};

use crate::{
    id::Key,
    locality::Timer,
    operation::{Durability, Operation, kept_codec},
    step_key::EventId,
};
use fom_protocol::{FomState, InFlight, panic_message, sync::atomic::Ordering};

/// The result of a run of a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The fom waits.
    Waiting,
    /// The budget is used up, or the fom yields.
    Again,
    /// The fom ended.
    Finished,
}

/// A fom of a known operation type.
#[repr(C)]
pub(crate) struct Typed<O: Operation> {
    /// First: a pointer to the whole is a pointer to this field.
    mailed: Mailed<O::Event>,
    /// The phase that events are taken for, or `None` if it takes none. Only the thread that runs the fom touches this.
    takes: UnsafeCell<Option<O::Kind>>,
}

impl<O: Operation> Deref for Typed<O> {
    type Target = Mailed<O::Event>;

    #[inline]
    fn deref(&self) -> &Mailed<O::Event> {
        &self.mailed
    }
}

impl<O: Operation> Typed<O> {
    /// Sets the phase that events are taken for. Only the thread that runs the fom calls this.
    fn set_takes(&self, kind: Option<O::Kind>) {
        // SAFETY: only the thread that runs the fom touches the field. The kind is `Copy`, so no reference is kept.
        unsafe { *self.takes.get() = kind }
    }

    /// Takes the oldest event that the current phase takes. Only the thread that runs the fom calls this.
    fn take_event(&self) -> Option<O::Event> {
        let (event, _) = self.take_event_sent();
        event.or_else(|| {
            // SAFETY: as above.
            let kind = unsafe { *self.takes.get() }?;
            let takes = |event: &dyn Any| match event.downcast_ref() {
                Some(event) => O::takes(kind, event),
                None => false,
            };
            let event = self.journaled()?.take_event(&takes)?;
            event.downcast().ok().map(|event| *event)
        })
    }

    /// Like [`take_event`](Self::take_event), for a function that is running: its next effect is for this event.
    fn take_further_event(&self) -> Option<O::Event> {
        let event = self.take_event()?;
        if let Some(cold) = self.cold() {
            cold.next_effect();
        }
        Some(event)
    }

    /// Like [`take_event`](Self::take_event), without events in a journal. Also returns whether other events are left.
    #[inline(always)]
    fn take_event_sent(&self) -> (Option<O::Event>, bool) {
        // SAFETY: as above.
        match unsafe { *self.takes.get() } {
            Some(kind) => {
                let takes = |event: &O::Event| O::takes(kind, event);
                self.mail.take(takes, |id| self.took(id))
            }
            None => (None, true),
        }
    }

    /// Returns the deadlines, if the machine has any.
    #[inline(always)]
    fn timing(&self) -> Option<&Timing> {
        if const { O::GRAPH.has_deadlines() } {
            self.mailed.timing()
        } else {
            None
        }
    }

    /// Like [`Header::interrupt`], but checks for deadlines only if the type has any.
    #[inline(always)]
    fn interrupt(&self) -> Option<Interrupt> {
        if const { O::GRAPH.has_deadlines() } {
            self.mailed.interrupt()
        } else {
            self.told_to_end()
        }
    }
}

// SAFETY: only one thread at a time touches `takes`, the one that runs the fom, and `Kind` is `Send`.
unsafe impl<O: Operation> Sync for Typed<O> {}

impl<E> Mailed<E> {
    /// Takes the oldest event that the current phase takes. Only the thread that runs the fom calls this.
    pub(crate) fn take_event(&self) -> Option<E> {
        let mut event = MaybeUninit::<Option<E>>::uninit();
        // SAFETY: the events of this fom are `E`, so its table writes an `Option<E>`.
        unsafe {
            (self.pool().vtable.take_event)(self.whole(), event.as_mut_ptr().cast());
            event.assume_init()
        }
    }

    /// Drops the oldest event that was sent directly, as a crash would. Returns whether there was one.
    #[cfg_attr(fom_shuttle, allow(dead_code, reason = "for `testing`"))]
    pub(crate) fn lose_event(&self) -> bool {
        self.mail.take(|_| true, |_| {}).0.is_some()
    }

    /// Puts the event into the mailbox and wakes the fom.
    pub(crate) fn send(&self, event: E) -> Result<(), crate::fom::SendError<E>> {
        let env = self.env();
        let id = || Some(EventId::Sent(env.host().next_event()));
        self.mail.push(event, id, env.mailbox)?;
        self.wake();
        Ok(())
    }

    /// Like [`send`](Self::send), for an event with an id from its sender.
    pub(crate) fn send_with_id(&self, id: &Key, event: E) -> Result<(), crate::fom::SendError<E>> {
        let most = self.env().mailbox;
        self.mail.push_named(event, EventId::given(id), most)?;
        self.wake();
        Ok(())
    }
}

/// A whole fom. `T` is [`Timing`] if the machine has deadlines, else `()`.
#[repr(C)]
struct Fom<O: Operation, T, B> {
    typed: Typed<O>,
    timing: T,
    body: UnsafeCell<B>,
}

/// Deadlines or none.
trait Clockwork: 'static {
    const IS: bool;
    fn new(offset: u16) -> Self;
    fn reset(&self);
}

impl Clockwork for () {
    const IS: bool = false;
    fn new(_: u16) -> Self {}
    fn reset(&self) {}
}

impl Clockwork for Timing {
    const IS: bool = true;
    fn new(offset: u16) -> Self {
        Self::new(Timer::of_fom(offset))
    }
    fn reset(&self) {
        Self::reset(self);
    }
}

impl<O: Operation, T: Clockwork, B: Body<O>> Fom<O, T, B> {
    const TIMING: u16 = {
        let offset = offset_of!(Self, timing);
        assert!(
            offset <= u16::MAX as usize,
            "an event type of more than 64 KiB"
        );
        offset as u16
    };

    const VTABLE: Vtable = Vtable {
        layout: Layout::new::<Self>(),
        timing: if T::IS {
            NonZeroU16::new(Self::TIMING)
        } else {
            None
        },
        prepare: Self::prepare,
        run: Self::run,
        reject: Self::reject,
        settle: Self::settle,
        take_event: Self::take_event,
        take_outcome: Self::take_outcome,
        events: Self::events,
        abandon: Self::abandon,
        clear: Self::clear,
    };

    /// Creates a fom in a slot of the stock, with its initial references.
    #[inline(always)]
    fn create(
        stocks: &mut Stocks,
        env: &Env,
        birth: NewFom,
        body: impl FnOnce(NonNull<Typed<O>>) -> B,
    ) -> NonNull<Header> {
        let stock = stocks.of(TypeId::of::<O>(), || pool::PoolOf {
            vtable: &Self::VTABLE,
            env: env.owned(),
            home: birth.home,
            type_id: TypeId::of::<O>(),
            graph: O::GRAPH,
        });
        stock.totals().started();
        let slot = stock.take();
        let fom = slot.cast::<Self>().as_ptr();
        // The runtime's reference, and the handle's.
        let refs = if birth.wanted { 2 } else { 1 };
        // For most types the compiler decides this.
        let named = const { kept_codec::<O>().is_some() }
            && birth.cold.as_ref().is_some_and(|it| it.kept().is_some());
        // SAFETY: a slot of this type that no other thread has, with a header and deadlines in it. The other parts
        // are empty, so nothing is overwritten. The store of `refs` shows the fom to other threads.
        unsafe {
            slot.as_ref().init(birth);
            (*fom).timing.reset();
            (&raw mut (*fom).typed.mailed.mail).write(mail::Mail::new(named));
            (&raw mut (*fom).typed.takes).write(UnsafeCell::new(None));
            (&raw mut (*fom).body).write(UnsafeCell::new(body(slot.cast())));
            slot.as_ref().refs.store(refs, Ordering::Release);
        }
        slot
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn prepare(slot: NonNull<Header>, pool: *const Pool) {
        let fom = slot.cast::<Self>().as_ptr();
        // SAFETY: memory for a slot of this type, which no other thread has seen.
        unsafe {
            slot.write(Header::vacant(pool));
            (&raw mut (*fom).timing).write(T::new(Self::TIMING));
        }
    }

    /// # Safety
    ///
    /// The header belongs to a fom of this type that is alive.
    unsafe fn of<'a>(header: NonNull<Header>) -> &'a Self {
        // SAFETY: the caller's promise; the body is in a cell.
        unsafe { header.cast::<Self>().as_ref() }
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "it is a cell, and the caller has it alone"
    )]
    // SAFETY: asks that the caller may touch the body now.
    unsafe fn body(&self) -> Pin<&mut B> {
        // SAFETY: the caller's promise. A slot does not move, and the body is dropped in place.
        unsafe { Pin::new_unchecked(&mut *self.body.get()) }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn run(header: NonNull<Header>) -> Progress {
        // SAFETY: as the table says.
        let progress = unsafe { Self::run_with(header, |body, fom| body.run(fom)) };
        if progress == Progress::Finished {
            // SAFETY: the fom has ended, on this thread.
            unsafe { Self::end(header, true) };
        }
        progress
    }

    /// Runs the fom. If it finishes, the caller must call [`end`](Self::end).
    #[inline(always)]
    // SAFETY: asks of its caller what `Vtable` says of `run`.
    unsafe fn run_with(
        header: NonNull<Header>,
        run: impl FnOnce(Pin<&mut B>, &Typed<O>) -> Progress,
    ) -> Progress {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        // SAFETY: the token is in Running, and this thread put it there, so no other thread is in the body.
        let mut body = unsafe { fom.body() };
        let progress = match catch_unwind(AssertUnwindSafe(|| run(body.as_mut(), &fom.typed))) {
            Ok(progress) => progress,
            Err(panic) => {
                let mut progress = Progress::Finished;
                fom.typed.fenced("while it was dropped", || {
                    progress = body.as_mut().panicked(&fom.typed, panic);
                });
                progress
            }
        };
        // Only the handler writes the counts of the locality. If user code has leaked its guard of a blocking
        // section, the thread must regain the core first.
        crate::locality::regain_leaked(&fom.typed);
        progress
    }

    /// Ends the fom, in an order that waiters may rely on. The fom leaves the directory and the listing, its end is
    /// counted, and then its outcome is told. At last the runtime's reference goes.
    #[inline]
    // SAFETY: asks of its caller what `Vtable` says, and that the fom has ended on this thread.
    unsafe fn end(header: NonNull<Header>, by_handler: bool) {
        // SAFETY: as the table says.
        let this = unsafe { Self::of(header) };
        let fom = &this.typed;
        fom.token.finish(fom.is_alone());
        // SAFETY: the body belongs to this thread until the answer below.
        let mut body = unsafe { this.body() };
        let ended = body.ended().ok();
        if let Err(failure) = body.ended()
            && !matches!(
                failure.cause,
                Cause::Remembered { .. } | Cause::Unread { .. }
            )
        {
            transition::tell_failure(fom, failure);
        }
        if const { O::GRAPH.has_gates() } {
            fom.drop_gate();
        }
        // The callers that submitted the fom again, and their answer.
        let others = if const { O::CODEC.is_some() } && fom.cold().is_some() {
            let ended = body.at_end().ok_or_else(|| body.ended().err());
            fom.end_recorded(ended)
        } else {
            None
        };
        // From here on, a sender gets further events back. Earlier events go with the outcome.
        let untaken = if const { size_of::<Option<O::Event>>() == 0 } {
            // The operation has no such events.
            0
        } else {
            fom.mail.close()
        };
        let kept = fom.journaled();
        if kept.is_some() {
            fom.leave_messages(body.ended().err().map(|failure| &failure.cause));
        }
        let failed = ended.is_none_or(|phase| O::GRAPH.phases()[phase].is_failure());
        // A fom that is turned away has never begun, and has armed nothing.
        if by_handler && let Some(timing) = fom.timing() {
            timing.end(fom);
        }
        if const { matches!(O::DURABILITY, Durability::Lazy) } && kept.is_some() {
            fom.hand_over_end();
        }
        let counts = &fom.env().homes[fom.home_index()].counts;
        fom.leave(counts, failed, untaken, by_handler);
        if let Some(kept) = kept {
            kept.leave(fom);
        }
        let answered = fom.marks.answer(ended.is_some(), fom.is_alone());
        if answered.watched {
            fom.fenced("while its outcome was told", || fom.tell_end(ended));
        }
        if let Some(others) = others {
            fom.fenced("while its outcome was told", others);
        }
        if !answered.wanted {
            // No handle wants the outcome, so the operation is dropped here. Its `Drop` is the user's.
            fom.fenced("while its outcome was dropped", || body.as_mut().clear());
            if untaken > 0 {
                fom.fenced("while its events were dropped", || drop(fom.mail.rest()));
            }
        }
        if fom.cold().is_some() {
            fom.give_ticket();
        }
        let env = fom.env().start();
        if by_handler {
            counts.one_done();
        } else {
            counts.one_back();
        }
        // SAFETY: this is the runtime's reference, and nothing of the fom is used after this.
        unsafe { Self::give_up(header, env) };
    }

    /// Gives up the runtime's reference to a fom that has ended.
    #[inline(always)]
    // SAFETY: asks that nothing of the fom is used after this, and that the caller keeps the runtime alive.
    unsafe fn give_up(header: NonNull<Header>, env: NonNull<Env>) {
        // SAFETY: the caller's promise.
        if unsafe { reference::give_up(header) } {
            // SAFETY: that was the last reference.
            let dispose = || unsafe { reference::dispose(header, Self::clear) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(dispose)) {
                // SAFETY: the caller that runs or rejects a fom keeps the runtime alive.
                unsafe { env.as_ref() }.report(format!(
                    "something panicked while an ended operation was dropped: {}",
                    panic_message(panic)
                ));
            }
        }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn reject(header: NonNull<Header>) {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        if fom.typed.token.state() == FomState::Init {
            let failure = Failure::new(Cause::Shutdown, fom.typed.phase_name(), None);
            // SAFETY: the fom has never run, and never will: the caller that rejects it has it alone.
            let body = unsafe { fom.body() };
            fom.typed
                .fenced("while it was dropped", || body.fail(failure));
            // SAFETY: the fom has just failed, here.
            unsafe { Self::end(header, false) };
        }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn settle(header: NonNull<Header>, outcome: *mut ()) {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        // SAFETY: the caller passes an `Option` of the outcome.
        let outcome = unsafe { (*outcome.cast::<Option<Outcome<O>>>()).take() };
        // SAFETY: the fom has never run, and never will: the caller that settles it has it alone.
        let body = unsafe { fom.body() };
        if let Some(outcome) = outcome {
            fom.typed
                .fenced("while it was dropped", || body.settle(outcome));
        }
        // SAFETY: the fom has just ended, here.
        unsafe { Self::end(header, false) };
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn take_event(header: NonNull<Header>, into: *mut ()) {
        // SAFETY: as the table says.
        let event = unsafe { Self::of(header) }.typed.take_further_event();
        // SAFETY: the caller gives room for an `Option` of the event.
        unsafe { into.cast::<Option<O::Event>>().write(event) };
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn take_outcome(header: NonNull<Header>, into: *mut ()) {
        // SAFETY: as the table says, and the outcome was left to the caller.
        let outcome = unsafe { Self::of(header).body() }.take();
        // SAFETY: the caller gives room for an outcome.
        unsafe { into.cast::<Outcome<O>>().write(outcome) };
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn events(header: NonNull<Header>) -> usize {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        let posted = fom.typed.kept().map_or(0, |kept| kept.events());
        fom.typed.mail.len() + posted
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn abandon(header: NonNull<Header>) {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        let untaken = fom.typed.mail.close();
        if fom.typed.give_up_on() {
            fom.typed.pool().totals.left_behind_elsewhere(untaken);
        }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn clear(header: NonNull<Header>) {
        let fom = header.cast::<Self>().as_ptr();
        // SAFETY: no other thread can reach the fom. Header and deadlines stay for the next fom, and the other parts
        // are dropped.
        unsafe {
            if !(*fom).body.get_mut().is_gone() {
                (&raw mut (*fom).body).drop_in_place();
            }
            (&raw mut (*fom).typed.mailed.mail).drop_in_place();
        }
    }
}

/// Tells the part of a fom that the fom has ended, on the thread that has the core.
#[cold]
fn tell_part(ticket: PartTicket) {
    // Without a core, the locality has ended, and its parts with it.
    let _ = crate::locality::with_core(|core| core.parts.ended(ticket));
}

impl Header {
    /// Calls user code that can no longer change the outcome. A panic in that code is reported, and ends nothing.
    pub(crate) fn fenced(&self, when: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            self.env().report(format!(
                "{} {} panicked {when}: {}",
                self.type_name(),
                self.id(),
                panic_message(panic)
            ));
        }
    }

    /// If the fom came back from the journal, makes room for another passive fom.
    #[cold]
    fn leave_room(&self) {
        let came_back = self.cold().is_some_and(|cold| cold.came_back);
        if came_back && let Some(recorder) = self.env().recorder() {
            recorder.one_ended(self.id());
        }
    }

    /// Releases the keys of the fom, if it has any.
    fn leave_key(&self, cold: &Cold) {
        self.end_delay();
        self.go_on(cold);
        // A stalled fom keeps its key, so that no other fom overtakes it. A chained fom releases its key, because it
        // comes back by itself.
        let uncommitted = |kept: &dyn KeptFom| kept.is_uncommitted();
        if cold.chained.is_some() || cold.key.is_some() && !cold.kept().is_some_and(uncommitted) {
            self.env().host().leave_key(self);
        }
    }

    /// Removes the fom from the tables, before its outcome is told.
    #[inline(always)]
    fn leave(&self, counts: &InFlight, failed: bool, untaken: usize, by_handler: bool) {
        let env = self.env();
        if let Some(cold) = self.cold() {
            self.leave_key(cold);
        }
        self.unlist();
        if by_handler {
            counts.one_left();
        }
        env.give_room();
        if self.is_resumed() {
            self.leave_room();
        }
        let age = crate::locality::now(env).saturating_sub(self.submitted());
        let pool = self.pool();
        if by_handler && self.home_index() == pool.home {
            pool.totals.ended(failed, age, untaken);
        } else {
            pool.totals.ended_elsewhere(failed, age, untaken);
        }
    }
}
