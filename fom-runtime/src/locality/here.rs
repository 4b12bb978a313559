//! What a thread knows of where it is: the core that it holds while it runs a fom, and that fom's budget.

use std::{cell::Cell, ptr};

use crate::{locality::Core, runtime::World, sync::thread_local};

#[cfg(not(fom_shuttle))]
thread_local! {
    static HERE: Here = const { Here::NOWHERE };
}

// Shuttle's macro knows no `const` form.
#[cfg(fom_shuttle)]
thread_local! {
    static HERE: Here = Here::NOWHERE;
}

struct Here {
    core: Cell<Option<Box<Core>>>,
    /// What is left of the running fom's budget.
    phases: Cell<u32>,
    until: Cell<u64>,
    /// The runtime whose fom runs on this thread, also while that fom is in a blocking section; an address to compare.
    world: Cell<*const World>,
    /// Inside how many `with_core` this thread is.
    taken: Cell<u32>,
}

impl Here {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "each thread starts from a copy"
    )]
    const NOWHERE: Self = Self {
        core: Cell::new(None),
        phases: Cell::new(0),
        until: Cell::new(0),
        world: Cell::new(ptr::null()),
        taken: Cell::new(0),
    };
}

/// Lays the core down for the code that a fom runs, and takes it up again.
pub(super) fn lay(core: Box<Core>) {
    HERE.with(|here| here.core.set(Some(core)));
}

pub(super) fn take() -> Option<Box<Core>> {
    // `try_with`: wakers may be dropped while a thread's locals are taken down.
    HERE.try_with(|here| here.core.take()).ok().flatten()
}

/// Whether this thread runs a fom of this runtime, with the core or in a blocking section.
pub(crate) fn runs_fom_of(world: &World) -> bool {
    HERE.with(|here| ptr::eq(here.world.get(), world))
}

/// Runs `f` with the core that this thread holds, if it holds one. Inside `f` there is none.
pub(crate) fn with_core<R>(f: impl FnOnce(&mut Core) -> R) -> Option<R> {
    struct Back(Option<Box<Core>>);

    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(core) = self.0.take() {
                lay(core);
                HERE.with(|here| here.taken.set(here.taken.get() - 1));
            }
        }
    }

    // Back in place also when `f` panics.
    let mut back = Back(Some(take()?));
    HERE.with(|here| here.taken.set(here.taken.get() + 1));
    back.0.as_deref_mut().map(f)
}

/// Runs what has the core in its hands without being a fom, a job or a task on the reactor: blocking in there would be for
/// ever, just as inside [`with_core`].
pub(super) fn holding<R>(f: impl FnOnce() -> R) -> R {
    struct Back;

    impl Drop for Back {
        fn drop(&mut self) {
            HERE.with(|here| here.taken.set(here.taken.get() - 1));
        }
    }

    HERE.with(|here| here.taken.set(here.taken.get() + 1));
    let _back = Back;
    f()
}

/// Whether this thread is inside [`with_core`] or [`holding`].
pub(crate) fn is_taken() -> bool {
    HERE.with(|here| here.taken.get() > 0)
}

/// A new run begins, with this budget.
pub(super) fn begin(world: &World, phases: u32, until: u64) {
    HERE.with(|here| {
        here.world.set(world);
        here.phases.set(phases);
        here.until.set(until);
    });
}

/// The run is over.
pub(super) fn end() {
    HERE.with(|here| here.world.set(ptr::null()));
}

/// One phase of the running fom's budget is used.
pub(crate) fn spend(now: u64) {
    HERE.with(|here| {
        let left = if now >= here.until.get() {
            0
        } else {
            here.phases.get().saturating_sub(1)
        };
        here.phases.set(left);
    });
}

/// Whether the running fom must go to the tail.
pub(crate) fn spent() -> bool {
    HERE.with(|here| here.phases.get() == 0)
}
