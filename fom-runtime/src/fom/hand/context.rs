//! What a thread knows of its place: the hand of the core that it holds while it runs a fom.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
};

use crate::fom::{Env, Header, hand::Hand};
use fom_protocol::{FomState, sync::thread_local};

#[cfg(not(fom_shuttle))]
thread_local! {
    static CONTEXT: Context = const { Context::NOWHERE };
}

// Shuttle's macro has no `const` form.
#[cfg(fom_shuttle)]
thread_local! {
    static CONTEXT: Context = Context::NOWHERE;
}

struct Context {
    /// The beginning of the core, as a raw pointer to the whole core. So the thread-local needs no destructor, which
    /// would make each access dearer. It is null when the thread ends, because the handler takes the core up again
    /// after each run.
    core: Cell<*mut Hand>,
    /// The fom that runs on this thread, also while that fom is in a blocking section.
    fom: Cell<*const Header>,
    /// Whether the fom runs on the stack of the fom that submitted it.
    nested: Cell<bool>,
    /// How many nested `with_hand` and `holding` calls this thread is inside of.
    taken: Cell<u32>,
    /// Whether a [`Peeked`] exists on this thread.
    #[cfg(any(debug_assertions, fom_shuttle))]
    peeked: Cell<bool>,
}

impl Context {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "each thread starts from a copy"
    )]
    const NOWHERE: Self = Self {
        core: Cell::new(ptr::null_mut()),
        fom: Cell::new(ptr::null()),
        nested: Cell::new(false),
        taken: Cell::new(0),
        #[cfg(any(debug_assertions, fom_shuttle))]
        peeked: Cell::new(false),
    };

    /// Asserts that no other borrow of the core exists. Called before the core is reached or taken out.
    #[inline(always)]
    fn assert_free(&self) {
        #[cfg(any(debug_assertions, fom_shuttle))]
        assert!(
            !self.peeked.get(),
            "the core of this thread is borrowed already"
        );
    }

    #[inline(always)]
    fn set_peeked(&self, _peeked: bool) {
        #[cfg(any(debug_assertions, fom_shuttle))]
        self.peeked.set(_peeked);
    }
}

/// Lays the core down for the code that a fom runs.
///
/// # Safety
///
/// The pointer may be used for the whole core, which stays in place until [`take`].
#[inline]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn set(core: NonNull<Hand>) {
    CONTEXT.with(|context| {
        debug_assert!(context.core.get().is_null(), "a thread holds one core");
        context.core.set(core.as_ptr());
    });
}

/// Takes the core up again: returns the pointer that [`set`] got.
#[inline]
pub(crate) fn take() -> Option<NonNull<Hand>> {
    NonNull::new(CONTEXT.with(|context| {
        context.assert_free();
        context.core.replace(ptr::null_mut())
    }))
}

/// Returns whether this thread holds a core that can be reached.
#[inline]
pub(crate) fn has_core() -> bool {
    CONTEXT.with(|context| !context.core.get().is_null())
}

/// Returns whether this thread runs a fom of this runtime, with the core or in a blocking section.
pub(crate) fn runs_fom_of(env: &Env) -> bool {
    let fom = CONTEXT.with(|context| context.fom.get());
    // SAFETY: as in `running_any`.
    unsafe { fom.as_ref() }.is_some_and(|fom| fom.env().is(env))
}

/// Returns whether this thread runs this fom, with the core or in a blocking section.
pub(super) fn runs(fom: &Header) -> bool {
    CONTEXT.with(|context| ptr::eq(context.fom.get(), fom))
}

/// Returns whether this thread runs a locality of any runtime, or a fom in a blocking section.
pub(crate) fn runs_foms() -> bool {
    CONTEXT.with(|context| {
        !context.core.get().is_null() || !context.fom.get().is_null() || context.taken.get() > 0
    })
}

/// Calls `f` with the fom that runs on this thread, with the core or in a blocking section. Returns `None` once the fom
/// has ended.
pub(crate) fn running_any<R>(f: impl FnOnce(&Header) -> R) -> Option<R> {
    let fom = CONTEXT.with(|context| context.fom.get());
    // SAFETY: from `begin` to `end` this thread runs the fom, so its header is there. Only user code asks. After the
    // slot was given back, none runs before `end` or `forget`.
    let fom = unsafe { fom.as_ref() }?;
    (fom.token.state() == FomState::Running).then(|| f(fom))
}

/// As [`running_any`], if it is a fom of this runtime.
pub(crate) fn running<R>(env: &Env, f: impl FnOnce(&Header) -> R) -> Option<R> {
    running_any(|fom| fom.env().is(env).then(|| f(fom))).flatten()
}

/// Runs `f` with the hand of the core that this thread holds, if it holds one. Inside `f` the thread has no core to
/// reach.
#[inline]
pub(crate) fn with_hand<R>(f: impl FnOnce(&mut Hand) -> R) -> Option<R> {
    // SAFETY: the core is out of reach of all other code while `f` runs.
    with_whole(|hand| f(unsafe { &mut *hand.as_ptr() }))
}

/// As [`with_hand`], with the pointer that [`set`] got. While `f` runs, no other code reaches the core.
#[inline]
pub(crate) fn with_whole<R>(f: impl FnOnce(NonNull<Hand>) -> R) -> Option<R> {
    struct Back(NonNull<Hand>);

    impl Drop for Back {
        #[inline]
        fn drop(&mut self) {
            CONTEXT.with(|context| {
                context.core.set(self.0.as_ptr());
                context.taken.set(context.taken.get() - 1);
            });
        }
    }

    let core = CONTEXT.with(|context| {
        context.assert_free();
        let core = NonNull::new(context.core.replace(ptr::null_mut()));
        if core.is_some() {
            context.taken.set(context.taken.get() + 1);
        }
        core
    });
    // Puts the core back even when `f` panics.
    let back = Back(core?);
    let done = f(back.0);
    drop(back);
    Some(done)
}

/// The hand of the core that this thread holds, borrowed for short work of the runtime itself.
pub(crate) struct Peeked(NonNull<Hand>);

impl Deref for Peeked {
    type Target = Hand;

    #[inline(always)]
    fn deref(&self) -> &Hand {
        // SAFETY: the core is in the cell. The promise to `peek` is that nothing else reaches it there before the guard
        // drops.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Peeked {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Hand {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Peeked {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(any(debug_assertions, fom_shuttle))]
        CONTEXT.with(|context| context.set_peeked(false));
    }
}

/// Borrows the hand of the core that this thread holds, if it holds one. Unlike [`with_hand`], this leaves the core in
/// its place, which costs nothing.
///
/// It returns a guard and takes no closure, because a closure may become a function of its own. Code that uses a guard
/// stays in one piece. User code includes what users implement and what they drop. Builds with debug assertions check
/// that nothing else borrows the core.
///
/// # Safety
///
/// Until the guard drops, this thread calls no user code, and no `peek`, [`with_hand`], `set` or `take`.
#[inline(always)]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn peek() -> Option<Peeked> {
    CONTEXT.with(|context| {
        context.assert_free();
        let core = NonNull::new(context.core.get())?;
        context.set_peeked(true);
        Some(Peeked(core))
    })
}

/// Runs `f`, which holds the core without being a fom. Examples are a job and a task on the reactor. Blocking in `f`
/// would last forever, just as inside [`with_hand`].
pub(crate) fn holding<R>(f: impl FnOnce() -> R) -> R {
    struct Back;

    impl Drop for Back {
        fn drop(&mut self) {
            CONTEXT.with(|context| context.taken.set(context.taken.get() - 1));
        }
    }

    CONTEXT.with(|context| context.taken.set(context.taken.get() + 1));
    let _back = Back;
    f()
}

/// Returns whether this thread is inside [`with_hand`] or [`holding`].
pub(crate) fn is_taken() -> bool {
    CONTEXT.with(|context| context.taken.get() > 0)
}

/// Begins a new run.
#[inline]
pub(crate) fn begin(fom: &Header) {
    CONTEXT.with(|context| context.fom.set(fom));
}

/// Returns whether a fom of this runtime runs here with the core, which can run a fom on its stack.
#[inline]
pub(crate) fn may_nest(env: &Env) -> bool {
    CONTEXT.with(|context| !context.nested.get()) && super::here_in(env).is_some()
}

/// The run of a fom on the stack of another. The drop ends it, and the other fom goes on.
pub(crate) struct Nested {
    below: *const Header,
}

/// Begins the run of a fom on the stack of the fom that runs.
#[inline]
pub(crate) fn nest(fom: &Header) -> Nested {
    CONTEXT.with(|context| {
        context.nested.set(true);
        let below = context.fom.replace(fom);
        Nested { below }
    })
}

impl Drop for Nested {
    #[inline]
    fn drop(&mut self) {
        CONTEXT.with(|context| {
            context.nested.set(false);
            context.fom.set(self.below);
        });
    }
}

/// Ends the run.
#[inline]
pub(crate) fn end() {
    CONTEXT.with(|context| context.fom.set(ptr::null()));
}

/// Ends the run of this fom, if this thread runs it. Called before user code that runs after the slot was given back.
#[cold]
pub(crate) fn forget(slot: NonNull<Header>) {
    CONTEXT.with(|context| {
        if ptr::eq(context.fom.get(), slot.as_ptr()) {
            context.fom.set(ptr::null());
        }
    });
}
