//! The core that a thread holds while it runs a fom; see [`hand::context`](crate::fom::hand::context).

use std::ptr::NonNull;

use crate::{
    fom::{
        Header, Progress, Resident,
        hand::context::{self, begin, end, with_whole},
    },
    locality::Core,
};

/// Lays the core down for the code that a fom runs.
#[inline]
pub(super) fn set(core: Box<Core>) {
    // SAFETY: the pointer is that of a box, which `take` makes again.
    unsafe { context::set(NonNull::from(Box::leak(core)).cast()) };
}

/// Takes the core up again.
#[inline]
pub(super) fn take() -> Option<Box<Core>> {
    // SAFETY: only `set` above lays a core down. The pointer came from its box, and is out of the cell now.
    context::take().map(|core| unsafe { Box::from_raw(core.cast::<Core>().as_ptr()) })
}

/// Runs `f` with the core that this thread holds, if it holds one. Inside `f` the thread has no core to reach.
#[inline]
pub(crate) fn with_core<R>(f: impl FnOnce(&mut Core) -> R) -> Option<R> {
    // SAFETY: only `set` above lays a core down. No other code reaches it while `f` runs.
    with_whole(|core| f(unsafe { &mut *core.cast::<Core>().as_ptr() }))
}

/// Runs a fom once, with the core laid down for the fom's code.
#[inline(always)]
pub(super) fn run(core: Box<Core>, fom: Resident) -> (Box<Core>, Option<Resident>, Progress) {
    let (core, (fom, progress)) = around(core, fom.as_ptr(), || fom.run());
    (core, fom, progress)
}

/// Lays the core down while `run` runs this fom, which must be ready.
#[inline(always)]
pub(crate) fn around<R>(
    mut core: Box<Core>,
    fom: NonNull<Header>,
    run: impl FnOnce() -> R,
) -> (Box<Core>, R) {
    {
        // SAFETY: a ready fom has not ended.
        let fom = unsafe { fom.as_ref() };
        fom.token.start(fom.is_alone());
        begin(fom);
    }
    core.running = Some(fom);
    set(core);
    let done = run();
    let mut core = take().expect("a run ends with the core");
    end();
    core.running = None;
    (core, done)
}
