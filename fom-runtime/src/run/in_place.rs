//! The first run of a fom on the stack of the fom that submits it. Most such foms end there, and their outcome goes
//! straight to the submitter.

use std::{pin::Pin, ptr::NonNull};

use crate::{
    fom::{Header, Progress, Timing},
    operation::{AsyncOperation, Build, Operation, SyncOperation},
    run::{
        body::Body,
        fom::{Clockwork, Fom},
        step_sync::SyncBody,
    },
    typed::{AtEnd, Ended, Failure, GoesOn, RunInPlace, TypedRef, with_untaken},
};

/// The place for the outcome of a fom that ends.
type Place<O> = Option<Result<Ended<O>, Failure<O>>>;

impl<O: Operation> Build<O> for RunInPlace<'_, O> {
    type Made = Option<GoesOn<O>>;

    #[inline(always)]
    fn synchronous(self) -> Option<GoesOn<O>>
    where
        O: SyncOperation,
    {
        let (fom, place) = (self.fom(), self.outcome);
        // SAFETY: the promise of `RunInPlace::new`. A `Seed` of `O` makes a fom of this type.
        unsafe {
            if const { Fom::<O, (), SyncBody<O>>::SHORT } {
                Fom::<O, (), SyncBody<O>>::run_short_in_place(fom, place)
            } else if const { O::GRAPH.needs().deadlines() } {
                Fom::<O, Timing, SyncBody<O>>::run_in_place(fom, place)
            } else {
                Fom::<O, (), SyncBody<O>>::run_in_place(fom, place)
            }
        }
    }

    fn asynchronous(self) -> Option<GoesOn<O>>
    where
        O: AsyncOperation,
    {
        // The type of the body has no name here, so the outcome goes through a handle.
        let fom = self.fom();
        // SAFETY: the promise of `RunInPlace::new`.
        unsafe {
            let handle = go_on(fom);
            let progress = (fom.as_ref().pool().vtable.run)(fom);
            Some(GoesOn { progress, handle })
        }
    }
}

/// Counts a fom that its locality has not counted yet, and makes the reference for its handle.
///
/// # Safety
///
/// The fom is of type `O`, has not ended, and runs on this thread. It has no handle.
#[inline]
// SAFETY (caller): as the section above says.
unsafe fn go_on<O: Operation>(header: NonNull<Header>) -> TypedRef<O> {
    // SAFETY: the caller's promise.
    let fom = unsafe { header.as_ref() };
    count(fom);
    fom.marks.want();
    // SAFETY: the caller's promise.
    unsafe { TypedRef::of_fom(fom) }
}

/// Counts a fom that its locality has not counted yet.
#[inline]
fn count(fom: &Header) {
    fom.env().homes[fom.home_index()].counts.one_born();
}

impl<O: SyncOperation> Fom<O, (), SyncBody<O>> {
    /// As [`run_in_place`](Self::run_in_place), by the short way.
    // SAFETY: asks of its caller what `run_in_place` asks.
    #[inline]
    unsafe fn run_short_in_place(
        header: NonNull<Header>,
        place: &mut Place<O>,
    ) -> Option<GoesOn<O>> {
        // SAFETY: the caller's promise.
        let progress = unsafe { Self::run_with(header, |body, fom| body.serve(fom)) };
        let leave =
            |body: Pin<&mut SyncBody<O>>, _: &_| *place = Some(body.take().map(AtEnd::ended));
        // SAFETY: the fom has ended, on this thread.
        if progress == Progress::Finished && unsafe { Self::end_unheard(header, leave) } {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { Self::ran_in_place(header, progress, place) }
    }
}

impl<O: SyncOperation, T: Clockwork> Fom<O, T, SyncBody<O>> {
    /// Runs a fom for the first time. If the fom ends, takes its outcome.
    // SAFETY: asks of its caller what `Vtable` says of `run`. The fom has no handle, and its locality has not counted it.
    #[inline]
    unsafe fn run_in_place(header: NonNull<Header>, place: &mut Place<O>) -> Option<GoesOn<O>> {
        // SAFETY: the caller's promise.
        let progress = unsafe { Self::run_with(header, |body, fom| body.run(fom)) };
        // SAFETY: as above.
        unsafe { Self::ran_in_place(header, progress, place) }
    }

    /// Ends a fom that has finished, or lets it go on.
    // SAFETY: asks of its caller what `run_in_place` asks, and that the fom has run.
    #[inline(never)]
    unsafe fn ran_in_place(
        header: NonNull<Header>,
        progress: Progress,
        place: &mut Place<O>,
    ) -> Option<GoesOn<O>> {
        if progress != Progress::Finished {
            // SAFETY: the caller's promise; the fom has not ended.
            let handle = unsafe { go_on(header) };
            return Some(GoesOn { progress, handle });
        }
        // SAFETY: a fom is alive until `end`.
        count(unsafe { header.as_ref() });
        // SAFETY: the fom has ended, on this thread.
        unsafe {
            Self::end::<true, _>(header, |body, fom, untaken| {
                let mut taken = body.take();
                if untaken > 0 {
                    taken = with_untaken(taken, fom.mail.rest());
                }
                *place = Some(taken.map(AtEnd::ended));
            });
        }
        None
    }
}
