//! The parts of a new fom, and its first run. `run/launch.rs` makes the fom of them.

use std::{fmt, marker::PhantomData, ptr::NonNull};

use crate::{
    fom::{AnyRef, Env, Header, NewFom, Progress, Resident, Stocks, hand::context::peek},
    id::FomId,
    operation::{Form, Operation},
    typed::{Ended, Failure, TypedRef},
};

/// The parts of a new fom. [`Form::build`](crate::operation::Form::build) makes the fom of them, with or without a future.
pub(crate) struct Seed<'a, O: Operation, M> {
    pub(crate) stocks: &'a mut Stocks,
    pub(crate) env: &'a Env,
    pub(crate) birth: NewFom,
    /// Returns the operation. Called when the slot is there, so that the operation is written straight into it.
    pub(crate) operation: M,
    pub(crate) phase: O::Phase,
}

/// A new fom, with its initial references. It is in no queue.
pub(crate) struct Launched<O: Operation> {
    /// The runtime's reference.
    pub(crate) resident: Resident,
    /// The reference of the fom's handle, if one is wanted.
    pub(crate) handle: Option<TypedRef<O>>,
}

impl<O: Operation> Launched<O> {
    /// # Safety
    ///
    /// The fom is a fom of `O` that was just made. The caller gives up its reference to the fom, and the one for the
    /// handle if it is `wanted`.
    #[inline(always)]
    // SAFETY (caller): as the section above says.
    pub(crate) unsafe fn new(fom: NonNull<Header>, wanted: bool) -> Self {
        // SAFETY: the caller's promise: a handle that is wanted has a reference, and the type is `O`.
        let handle = || unsafe { TypedRef::of_known(AnyRef::from_raw(fom)) };
        Self {
            // SAFETY: the caller's promise: the fom was just made, so this is the one resident reference.
            resident: unsafe { Resident::new(fom) },
            handle: wanted.then(handle),
        }
    }
}

/// Makes a fom in the locality of this thread, which holds the locality's core, and counts the fom there. The locality
/// gives the time, and the id if there is none.
///
/// # Panics
///
/// Panics if this thread holds no core.
#[inline(always)]
pub(crate) fn build_here<O: Operation>(
    env: &Env,
    id: Option<FomId>,
    mut birth: NewFom,
    operation: O,
    phase: O::Phase,
) -> (Launched<O>, FomId) {
    // SAFETY: no code of the operation runs while the guard is held. A future is made, and does not run.
    let hand = unsafe { peek() };
    let mut hand = hand.expect("the caller has looked, on this thread");
    let (id, now) = match id {
        Some(id) => hand.one_born_as(id),
        None => hand.one_born(),
    };
    (birth.id, birth.now, birth.home) = (id, now, hand.index());
    let launched = O::Form::build(Seed {
        stocks: &mut hand.stocks,
        env,
        birth,
        operation: || operation,
        phase,
    });
    (launched, id)
}

/// As [`build_here`], with an id of the locality. Also puts the fom into the run queue, so the fom must be made ready.
/// `operation` must not call user code.
#[inline(always)]
pub(crate) fn start_here<O: Operation>(
    env: &Env,
    mut birth: NewFom,
    operation: impl FnOnce() -> O,
    phase: O::Phase,
) -> (Option<TypedRef<O>>, FomId) {
    // SAFETY: as in `build_here`.
    let hand = unsafe { peek() };
    let mut hand = hand.expect("the caller has looked, on this thread");
    let (id, now) = hand.one_born();
    (birth.id, birth.now, birth.home) = (id, now, hand.index());
    let launched = O::Form::build(Seed {
        stocks: &mut hand.stocks,
        env,
        birth,
        operation,
        phase,
    });
    hand.enqueue_ready(launched.resident);
    (launched.handle, id)
}

impl<O: Operation, M> fmt::Debug for Seed<'_, O, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

impl<O: Operation> fmt::Debug for Launched<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launched")
    }
}

/// The first run of a fom that was just launched. A fom that has not ended stays with the caller.
pub(crate) struct FirstRun<'a, O> {
    fom: NonNull<Header>,
    launched: PhantomData<&'a Resident>,
    operation: PhantomData<fn(O) -> O>,
}

impl<'a, O> FirstRun<'a, O> {
    /// # Safety
    ///
    /// The fom is of type `O`, and a [`Seed`] made it. When the first run is built, the fom is in Running, on the thread
    /// that has put down the core of the fom's home.
    // SAFETY: asks of its caller what the section above says.
    pub(crate) unsafe fn new(fom: &'a Resident) -> Self {
        Self {
            fom: fom.as_ptr(),
            launched: PhantomData,
            operation: PhantomData,
        }
    }

    pub(crate) fn fom(&self) -> NonNull<Header> {
        self.fom
    }
}

/// The result of the first run of a fom.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) progress: Progress,
    /// The fom has ended, and the locality has not counted the end yet. The caller counts many ends together.
    pub(crate) uncounted: bool,
}

/// The first run of a fom that was just launched, on the stack of the fom that submits it.
pub(crate) struct RunInPlace<'a, O: Operation> {
    fom: FirstRun<'a, O>,
    /// Gets the outcome of a fom that ends. So it moves only once.
    pub(crate) outcome: &'a mut Option<Result<Ended<O>, Failure<O>>>,
}

impl<'a, O: Operation> RunInPlace<'a, O> {
    /// # Safety
    ///
    /// The promise of [`FirstRun::new`]. In addition, the fom has no handle, and its locality has not counted it.
    // SAFETY: asks of its caller what the section above says.
    pub(crate) unsafe fn new(
        fom: &'a Resident,
        outcome: &'a mut Option<Result<Ended<O>, Failure<O>>>,
    ) -> Self {
        // SAFETY: the caller's promise.
        let fom = unsafe { FirstRun::new(fom) };
        Self { fom, outcome }
    }

    pub(crate) fn fom(&self) -> NonNull<Header> {
        self.fom.fom()
    }
}

/// A fom that was run in place and goes on, or has left its outcome to its handle. The locality has counted it.
pub(crate) struct GoesOn<O: Operation> {
    pub(crate) progress: Progress,
    pub(crate) handle: TypedRef<O>,
}
