//! The short way from the launch of a fom to its end, for operations that a part of a locality runs at once. Most of
//! them run to their ends there, and have no handle or listener. All other foms go the usual way.

use std::{ops::ControlFlow, pin::Pin, ptr::NonNull};

use crate::{
    fom::{Entry, Header, Progress, hand, reference},
    operation::{Stepped, SyncOperation},
    run::{
        body::Body,
        fom::Fom,
        next::Next,
        step_sync::{self, SyncBody},
    },
    typed::{Served, Typed},
};

impl<O: SyncOperation> Fom<O, (), SyncBody<O>> {
    /// Whether the short way is possible: the machine needs no other services.
    pub(super) const SHORT: bool = !O::GRAPH.needs().deadlines()
        && !O::GRAPH.needs().gates()
        && !O::GRAPH.needs().ways_out()
        && !O::GRAPH.needs().events();

    /// Runs a fom for the first time.
    // SAFETY: asks of its caller what `Vtable` says of `run`.
    #[inline]
    pub(super) unsafe fn serve(header: NonNull<Header>) -> Served {
        // SAFETY: the caller's promise.
        let progress = unsafe { Self::run_with(header, |body, fom| body.serve(fom)) };
        // SAFETY: as above; the fom has ended, on this thread.
        let uncounted = progress == Progress::Finished
            && unsafe {
                Self::end_unheard(header, |mut body, fom| {
                    fom.fenced("while its outcome was dropped", || body.as_mut().clear());
                })
            };
        if progress == Progress::Finished && !uncounted {
            // SAFETY: as above.
            unsafe { Self::end_apart::<true>(header) };
        }
        Served {
            progress,
            uncounted,
        }
    }

    /// Ends a fom without addresses, in the order of [`end`](Self::end). Returns `false` if the fom must end in the
    /// usual way. `unwanted` gets the outcome, and must not panic.
    #[inline]
    // SAFETY: asks of its caller what `Vtable` says, and that the fom has ended on this thread.
    pub(super) unsafe fn end_unheard(
        header: NonNull<Header>,
        unwanted: impl FnOnce(Pin<&mut SyncBody<O>>, &Typed<O>),
    ) -> bool {
        // SAFETY: as the table says.
        let this = unsafe { Self::of(header) };
        let fom = &this.typed;
        // SAFETY: the fom is not answered yet, so the body belongs to this thread.
        let body = unsafe { this.body() };
        let Ok(phase) = body.ended() else {
            return false;
        };
        if !fom.is_alone() || fom.cold().is_some() || !fom.env().is_plain() {
            return false;
        }
        fom.token.finish(true);
        fom.flags.unlist();
        let failed = O::GRAPH.phases()[phase].is_failure();
        let age = hand::now(fom.env()).saturating_sub(fom.identity.submitted());
        fom.pool().totals.ended(failed, age, 0);
        unwanted(body, fom);
        // A listing may have taken a reference meanwhile.
        // SAFETY: this is the runtime's reference, and nothing of the fom is used after this.
        if unsafe { reference::give_up(header) } {
            // SAFETY: that was the last reference. The slot has no user data left.
            unsafe { reference::dispose(header, Self::clear) };
        }
        true
    }
}

impl<O: SyncOperation> SyncBody<O> {
    /// Like [`run`](Body::run), for the first run.
    #[inline]
    pub(super) fn serve(mut self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        let Self::Live(instance) = &mut *self else {
            return self.run(fom);
        };
        let env = fom.env();
        let info = instance.info();
        if !env.is_plain()
            || env.hooks.extras().are_any()
            || env.is_closed()
            || info.waits()
            || info.is_end()
        {
            return self.run(fom);
        }
        instance.begin_unheard(fom);
        match step_sync::step(instance, fom, Entry::Enter) {
            Ok(Some(next)) if !env.hooks.extras().are_any() => match instance.go_on(fom, next) {
                Next::Finish => Progress::Finished,
                _ => self.run(fom),
            },
            stepped => self.settle_first(fom, stepped),
        }
    }

    /// Settles a first step that is not an exit, or an exit with hooks.
    #[cold]
    #[inline(never)]
    fn settle_first(mut self: Pin<&mut Self>, fom: &Typed<O>, stepped: Stepped<O>) -> Progress {
        let Self::Live(instance) = &mut *self else {
            return self.run(fom);
        };
        let decided = instance.settle(fom, Ok(stepped), Entry::Enter);
        match instance.run(fom).carry_out(decided) {
            ControlFlow::Break(Err(cause)) => self.fail_with(fom, *cause),
            ControlFlow::Break(Ok(progress)) => progress,
            // The fom is in its phase, and another run calls the function.
            ControlFlow::Continue(_) => self.run(fom),
        }
    }
}
