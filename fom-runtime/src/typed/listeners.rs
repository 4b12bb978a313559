//! Listeners and interposers of one operation type.

use std::{
    any::{Any, TypeId},
    fmt,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    fom::{Env, Hooks, Kind, List, Transition},
    operation::Operation,
    snapshot::{Meta, Snapshot, SnapshotError},
};

/// Runs before and after the phase functions of one operation type. For tests, and for concerns that cut across phases.
///
/// An interposer does not run around the `failed` function of a phase. So a failure that the interposer causes leads to
/// a phase of `failed(..)`, as any other failure does.
///
/// Interposers stack: the last one added is outermost. An interposer runs in the fom's locality and must not block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not interpose on `{O}`",
    label = "this is no interposer of `{O}`",
    note = "implement it: `impl Interpose<{O}> for {Self}`"
)]
pub trait Interpose<O: Operation>: Send + Sync + 'static {
    /// Runs before the phase function. `Some` replaces the phase function: neither it nor the interposers inside run,
    /// but every [`after`](Self::after) does.
    fn before(
        &self,
        operation: &mut O,
        phase: &mut O::Phase,
    ) -> Option<Result<O::Phase, O::Error>> {
        let _ = (operation, phase);
        None
    }

    /// Runs after the phase function. It may replace the result, also a result that a `before` returned. An exit that the
    /// phase does not declare fails the fom.
    fn after(
        &self,
        operation: &mut O,
        phase: &mut O::Phase,
        result: Result<O::Phase, O::Error>,
    ) -> Result<O::Phase, O::Error> {
        let _ = (operation, phase);
        result
    }
}

type Listener<O> = Box<dyn for<'a> Fn(&TransitionOf<'a, O>) + Send + Sync>;
type Interposer<O> = Box<dyn Interpose<O>>;
type Panicked = Box<dyn Any + Send>;

/// Adds a listener to the transitions of one operation type. Returns its id.
pub(crate) fn listen_to<O: Operation>(hooks: &Hooks, listener: Listener<O>) -> u64 {
    hooks.add(Kind::Typed(TypeId::of::<O>(), Arc::new(listener)))
}

/// Adds an interposer. Returns its id.
pub(crate) fn interpose<O: Operation>(hooks: &Hooks, interposer: Interposer<O>) -> u64 {
    hooks.add(Kind::Interposer(TypeId::of::<O>(), Arc::new(interposer)))
}

/// Tells every listener of a transition, in the order in which the listeners were added.
pub(crate) fn tell<O: Operation>(
    list: &List,
    env: &Env,
    transition: &Transition<'_>,
    operation: &O,
    phase: Option<&O::Phase>,
) {
    let typed = TransitionOf {
        transition,
        operation,
        phase,
    };
    list.tell(env, transition, |of, listener| {
        if of == TypeId::of::<O>()
            && let Some(listener) = listener.downcast_ref::<Listener<O>>()
        {
            listener(&typed);
        }
    });
}

fn interposers<O: Operation>(list: &List) -> impl DoubleEndedIterator<Item = &Interposer<O>> {
    list.interposers(TypeId::of::<O>())
        .filter_map(|interposer| interposer.downcast_ref())
}

/// Returns whether the list has an interposer of this type.
pub(crate) fn interposes<O: Operation>(list: &List) -> bool {
    interposers::<O>(list).next().is_some()
}

/// Returns the replacement of the phase function, from the outermost interposer that gives one.
#[allow(
    clippy::type_complexity,
    reason = "a result in an option in a result is what it is"
)]
pub(crate) fn before<O: Operation>(
    list: &List,
    operation: &mut O,
    phase: &mut O::Phase,
) -> Result<Option<Result<O::Phase, O::Error>>, Panicked> {
    catch_unwind(AssertUnwindSafe(|| {
        interposers::<O>(list)
            .rev()
            .find_map(|interposer| interposer.before(operation, phase))
    }))
}

/// Returns the result after every interposer, from the innermost to the outermost.
#[allow(clippy::type_complexity, reason = "as above")]
pub(crate) fn after<O: Operation>(
    list: &List,
    operation: &mut O,
    phase: &mut O::Phase,
    result: Result<O::Phase, O::Error>,
) -> Result<Result<O::Phase, O::Error>, Panicked> {
    catch_unwind(AssertUnwindSafe(|| {
        interposers::<O>(list).fold(result, |result, interposer| {
            interposer.after(operation, phase, result)
        })
    }))
}

/// A transition of a known operation type.
pub struct TransitionOf<'a, O: Operation> {
    transition: &'a Transition<'a>,
    operation: &'a O,
    phase: Option<&'a O::Phase>,
}

impl<O: Operation> fmt::Debug for TransitionOf<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transition.fmt(f)
    }
}

impl<'a, O: Operation> TransitionOf<'a, O> {
    /// Returns the operation, between two phase functions.
    pub fn operation(&self) -> &'a O {
        self.operation
    }

    /// Returns the phase that the fom entered, with its data. Returns `None` for the standard failed outcome.
    pub fn phase(&self) -> Option<&'a O::Phase> {
        self.phase
    }

    /// Saves the fom as it enters the phase, with the time left until its deadline at that moment. The key, and the
    /// events that the fom has not taken, are not saved.
    ///
    /// # Errors
    ///
    /// Fails with [`SnapshotError::Transient`] for a transient machine, and for the failed outcome, which is not a
    /// phase. Also returns the errors of the user's `Serialize`.
    pub fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        let (Some(codec), Some(phase)) = (O::CODEC, self.phase) else {
            return Err(SnapshotError::Transient);
        };
        let meta = Meta {
            id: self.transition.id().get(),
            attempt: 0,
            left: self.transition.left(),
            resumed: false,
        };
        (codec.save)(self.operation, phase, meta)
    }
}

impl<'a, O: Operation> Deref for TransitionOf<'a, O> {
    type Target = Transition<'a>;

    fn deref(&self) -> &Transition<'a> {
        self.transition
    }
}
