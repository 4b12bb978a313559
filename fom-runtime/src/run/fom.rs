//! A whole fom, and the functions of its type for the code that knows only its header.

use std::{
    alloc::Layout,
    any::TypeId,
    cell::UnsafeCell,
    mem::offset_of,
    num::NonZeroU16,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    ptr::NonNull,
};

use crate::{
    fom::{
        Cause, Env, Header, NewFom, Pool, Progress, Stocks, Timing, Vtable,
        hand::{self, Timer},
        mail::Mail,
        pool::PoolOf,
        reference,
    },
    incident::IncidentKind,
    operation::{Durability, Operation, kept_codec},
    run::{body::Body, commit::hand_over_end, transition::tell_failure},
    typed::{Failure, Outcome, Typed},
};
use fom_protocol::{FomState, panic_message, sync::atomic::Ordering};

/// A whole fom. `T` is [`Timing`] if the machine has deadlines, else `()`.
#[repr(C)]
pub(super) struct Fom<O: Operation, T, B> {
    pub(super) typed: Typed<O>,
    timing: T,
    body: UnsafeCell<B>,
}

/// Deadlines or none.
pub(super) trait Clockwork: 'static {
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
    pub(super) fn create(
        stocks: &mut Stocks,
        env: &Env,
        birth: NewFom,
        body: impl FnOnce(NonNull<Typed<O>>) -> B,
    ) -> NonNull<Header> {
        let stock = stocks.of(TypeId::of::<O>(), || PoolOf {
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
            (&raw mut (*fom).typed.mailed.mail).write(Mail::new(named));
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
    pub(super) unsafe fn of<'a>(header: NonNull<Header>) -> &'a Self {
        // SAFETY: the caller's promise; the body is in a cell.
        unsafe { header.cast::<Self>().as_ref() }
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "it is a cell, and the caller has it alone"
    )]
    // SAFETY: asks that the caller may touch the body now.
    pub(super) unsafe fn body(&self) -> Pin<&mut B> {
        // SAFETY: the caller's promise. A slot does not move, and the body is dropped in place.
        unsafe { Pin::new_unchecked(&mut *self.body.get()) }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn run(header: NonNull<Header>) -> Progress {
        // SAFETY: as the table says.
        let progress = unsafe { Self::run_with(header, |body, fom| body.run(fom)) };
        if progress == Progress::Finished {
            // SAFETY: the fom has ended, on this thread.
            unsafe { Self::end_apart::<true>(header) };
        }
        progress
    }

    /// Runs the fom. If it finishes, the caller must call [`end`](Self::end).
    #[inline(always)]
    // SAFETY: asks of its caller what `Vtable` says of `run`.
    pub(super) unsafe fn run_with(
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
        hand::regain_leaked(&fom.typed);
        progress
    }

    /// Ends the fom, in an order that waiters may rely on. The fom leaves the directory and the listing, its end is
    /// counted, and then waiters get its outcome. At last the runtime gives up its reference.
    ///
    /// `BY_HANDLER`: this thread ran the fom. If not, the fom is turned away. `unwanted` gets the outcome that no handle
    /// wants, and the number of events that were not taken. It must not panic.
    #[inline(always)]
    // SAFETY: asks of its caller what `Vtable` says, and that the fom has ended on this thread.
    pub(super) unsafe fn end<const BY_HANDLER: bool, U>(header: NonNull<Header>, unwanted: U)
    where
        U: FnOnce(Pin<&mut B>, &Typed<O>, usize),
    {
        // SAFETY: as the table says.
        let this = unsafe { Self::of(header) };
        let fom = &this.typed;
        fom.token.finish(fom.is_alone());
        // SAFETY: the body belongs to this thread until the answer below.
        let mut body = unsafe { this.body() };
        let ended = match body.ended() {
            Ok(phase) => Some(phase),
            Err(failure) => {
                if !matches!(
                    failure.cause,
                    Cause::Remembered { .. } | Cause::Unread { .. }
                ) {
                    tell_failure(fom, failure);
                }
                None
            }
        };
        if const { O::GRAPH.needs().gates() } {
            fom.gate().discard();
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
        if BY_HANDLER && let Some(timing) = fom.timing() {
            timing.end(fom);
        }
        if const { matches!(O::DURABILITY, Durability::Lazy) } && kept.is_some() {
            hand_over_end(fom);
        }
        let counts = &fom.env().homes[fom.home_index()].counts;
        fom.leave(counts, failed, untaken, BY_HANDLER);
        if let Some(kept) = kept {
            kept.leave(fom);
        }
        let answered = fom.marks.answer(ended.is_some(), fom.is_alone());
        if answered.watched {
            fom.fenced("while its outcome was told", || {
                fom.waiters().tell_end(ended)
            });
        }
        if let Some(others) = others {
            fom.fenced("while its outcome was told", others);
        }
        if !answered.wanted {
            unwanted(body.as_mut(), fom, untaken);
        }
        if fom.cold().is_some() {
            fom.ticket().give();
        }
        let env = fom.env().start();
        if BY_HANDLER {
            counts.one_done();
        } else {
            counts.one_back();
        }
        // SAFETY: this is the runtime's reference, and nothing of the fom is used after this.
        unsafe { Self::give_up::<U>(header, env) };
    }

    /// As [`end`](Self::end), in a function of its own. Drops an outcome that no handle wants.
    #[inline(never)]
    // SAFETY: asks of its caller what `end` asks.
    pub(super) unsafe fn end_apart<const BY_HANDLER: bool>(header: NonNull<Header>) {
        // SAFETY: the caller's promise.
        unsafe {
            // The `Drop` of the operation, and those of its events, are the user's.
            Self::end::<BY_HANDLER, _>(header, |mut body, fom, untaken| {
                fom.fenced("while its outcome was dropped", || body.as_mut().clear());
                if untaken > 0 {
                    fom.fenced("while its events were dropped", || drop(fom.mail.rest()));
                }
            });
        }
    }

    /// Gives up the runtime's reference to a fom that has ended. `U` makes the closure a type of its own in each end,
    /// so that each end inlines it.
    #[allow(clippy::extra_unused_type_parameters, reason = "see above")]
    #[inline(always)]
    // SAFETY: asks that nothing of the fom is used after this, and that the caller keeps the runtime alive.
    unsafe fn give_up<U>(header: NonNull<Header>, env: NonNull<Env>) {
        // SAFETY: the caller's promise.
        if unsafe { reference::give_up(header) } {
            // SAFETY: that was the last reference.
            let dispose = || unsafe { reference::dispose(header, Self::clear) };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(dispose)) {
                // Another fom may have the slot now, and the drop of what was thrown is the user's.
                hand::context::forget(header);
                // SAFETY: the caller that runs or rejects a fom keeps the runtime alive.
                unsafe { env.as_ref() }.report(
                    IncidentKind::Panicked,
                    "an ended operation",
                    format!(
                        "something panicked while an ended operation was dropped: {}",
                        panic_message(panic)
                    ),
                );
            }
        }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    unsafe fn reject(header: NonNull<Header>) {
        // SAFETY: as the table says.
        let fom = unsafe { Self::of(header) };
        if fom.typed.token.state() == FomState::Init {
            let failure = Failure::new(fom.typed.env().end_cause(), fom.typed.phase_kind(), None);
            // SAFETY: the fom has never run, and never will: the caller that rejects it has it alone.
            let body = unsafe { fom.body() };
            fom.typed
                .fenced("while it was dropped", || body.fail(failure));
            // SAFETY: the fom has just failed, here.
            unsafe { Self::end_apart::<false>(header) };
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
        unsafe { Self::end_apart::<false>(header) };
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
        if fom.typed.waiters().give_up() {
            fom.typed.pool().totals.left_behind_elsewhere(untaken);
        }
    }

    // SAFETY: asks of its caller what `Vtable` says.
    pub(super) unsafe fn clear(header: NonNull<Header>) {
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
