//! Listeners and interposers, added and removed while foms run.
//!
//! Each change replaces the whole list. A transition takes the list that exists when it begins. A hook that is added
//! meanwhile first hears of the next transition. A hook that is removed meanwhile may still hear of this one. Without
//! hooks, a transition costs one relaxed load.

mod transition;

pub use transition::{Transition, TransitionCause, TransitionOf};

use std::{
    any::{Any, TypeId},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{fom::Env, operation::Operation};
use fom_protocol::{
    panic_message,
    sync::{
        RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Runs before and after the phase functions of one operation type. For tests, and for concerns that cut across phases.
///
/// An interposer does not run around the `failed` function of a phase. So a failure that it causes takes the way that
/// is declared for that failure.
///
/// Interposers stack: the last one added is outermost. An interposer runs in the fom's locality and must not block.
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

    /// Runs after the phase function. It may replace the result, also a result that a `before` gave. An exit that the
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

type General = Box<dyn Fn(&Transition<'_>) + Send + Sync>;
type Typed<O> = Box<dyn for<'a> Fn(&TransitionOf<'a, O>) + Send + Sync>;
type Interposer<O> = Box<dyn Interpose<O>>;
type Panicked = Box<dyn Any + Send>;

#[derive(Clone)]
enum Kind {
    General(Arc<General>),
    /// An `Arc<Typed<O>>`.
    Typed(TypeId, Arc<dyn Any + Send + Sync>),
    /// An `Arc<Interposer<O>>`.
    Interposer(TypeId, Arc<dyn Any + Send + Sync>),
}

#[derive(Clone)]
struct Hook {
    id: u64,
    kind: Kind,
}

/// The hooks of a runtime.
#[derive(Default)]
pub(crate) struct Hooks {
    /// Whether a transition has to be told to hooks or committed.
    any: AtomicBool,
    /// Whether transitions are committed.
    journaled: bool,
    /// Whether there are hooks.
    heard: AtomicBool,
    next: AtomicU64,
    list: RwLock<Arc<List>>,
}

#[derive(Default)]
pub(crate) struct List(Vec<Hook>);

impl Hooks {
    /// Makes the hooks of a runtime with or without a journal.
    pub(crate) fn new(journaled: bool) -> Self {
        Self {
            any: AtomicBool::new(journaled),
            journaled,
            ..Self::default()
        }
    }

    /// Returns whether a transition has to be told to hooks or committed.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Returns the hooks of this moment, if there are any.
    pub(crate) fn active(&self) -> Option<Arc<List>> {
        self.heard
            .load(Ordering::Relaxed)
            .then(|| Arc::clone(&self.list.read()))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Hook>)) {
        let mut list = self.list.write();
        let mut hooks = list.0.clone();
        change(&mut hooks);
        let heard = !hooks.is_empty();
        self.heard.store(heard, Ordering::Relaxed);
        self.any.store(heard || self.journaled, Ordering::Relaxed);
        let before = std::mem::replace(&mut *list, Arc::new(List(hooks)));
        drop(list);
        // What a listener owns is the user's and may be another `Listening`. So it is dropped without the lock.
        drop(before);
    }

    fn add(&self, kind: Kind) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.change(|hooks| hooks.push(Hook { id, kind }));
        id
    }

    pub(crate) fn listen(&self, listener: General) -> u64 {
        self.add(Kind::General(Arc::new(listener)))
    }

    pub(crate) fn listen_to<O: Operation>(&self, listener: Typed<O>) -> u64 {
        self.add(Kind::Typed(TypeId::of::<O>(), Arc::new(listener)))
    }

    pub(crate) fn interpose<O: Operation>(&self, interposer: Interposer<O>) -> u64 {
        self.add(Kind::Interposer(TypeId::of::<O>(), Arc::new(interposer)))
    }

    pub(crate) fn remove(&self, id: u64) {
        self.change(|hooks| hooks.retain(|hook| hook.id != id));
    }

    /// Removes an interposer if it is the last one added of its type.
    pub(crate) fn remove_top(&self, id: u64, of: TypeId) -> bool {
        let mut removed = false;
        self.change(|hooks| {
            let top = hooks
                .iter()
                .rposition(|hook| matches!(hook.kind, Kind::Interposer(t, _) if t == of));
            if let Some(top) = top
                && hooks[top].id == id
            {
                hooks.remove(top);
                removed = true;
            }
        });
        removed
    }
}

impl List {
    /// Tells every listener, in the order in which they were added. A listener that panics is removed and reported.
    pub(crate) fn tell<O: Operation>(
        &self,
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
        for hook in &self.0 {
            let told = catch_unwind(AssertUnwindSafe(|| match &hook.kind {
                Kind::General(listener) => listener(transition),
                Kind::Typed(of, listener) if *of == TypeId::of::<O>() => {
                    if let Some(listener) = listener.downcast_ref::<Typed<O>>() {
                        listener(&typed);
                    }
                }
                _ => {}
            }));
            take_off_if_panicked(env, hook.id, told);
        }
    }

    /// Tells the listeners of a transition after the operation of the fom is gone.
    pub(crate) fn tell_untyped(&self, env: &Env, transition: &Transition<'_>) {
        for hook in &self.0 {
            if let Kind::General(listener) = &hook.kind {
                let told = catch_unwind(AssertUnwindSafe(|| listener(transition)));
                take_off_if_panicked(env, hook.id, told);
            }
        }
    }

    fn interposers<O: Operation>(&self) -> impl DoubleEndedIterator<Item = &Interposer<O>> {
        self.0.iter().filter_map(|hook| match &hook.kind {
            Kind::Interposer(of, interposer) if *of == TypeId::of::<O>() => {
                interposer.downcast_ref()
            }
            _ => None,
        })
    }

    pub(crate) fn interposes<O: Operation>(&self) -> bool {
        self.interposers::<O>().next().is_some()
    }

    /// Returns the replacement of the phase function, from the outermost interposer that gives one.
    #[allow(
        clippy::type_complexity,
        reason = "a result in an option in a result is what it is"
    )]
    pub(crate) fn before<O: Operation>(
        &self,
        operation: &mut O,
        phase: &mut O::Phase,
    ) -> Result<Option<Result<O::Phase, O::Error>>, Panicked> {
        catch_unwind(AssertUnwindSafe(|| {
            self.interposers::<O>()
                .rev()
                .find_map(|interposer| interposer.before(operation, phase))
        }))
    }

    /// Returns the result after every interposer, from the innermost to the outermost.
    #[allow(clippy::type_complexity, reason = "as above")]
    pub(crate) fn after<O: Operation>(
        &self,
        operation: &mut O,
        phase: &mut O::Phase,
        result: Result<O::Phase, O::Error>,
    ) -> Result<Result<O::Phase, O::Error>, Panicked> {
        catch_unwind(AssertUnwindSafe(|| {
            self.interposers::<O>().fold(result, |result, interposer| {
                interposer.after(operation, phase, result)
            })
        }))
    }
}

fn take_off_if_panicked(env: &Env, id: u64, told: Result<(), Panicked>) {
    if let Err(panic) = told {
        env.hooks.remove(id);
        env.report(format!(
            "a listener panicked and was taken off: {}",
            panic_message(panic)
        ));
    }
}
