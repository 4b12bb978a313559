//! Listeners and interposers, added and removed while foms run.
//!
//! The list is replaced whole on each change. A transition takes the list as it is when it begins: what is added during
//! its delivery hears of the next one, what is removed may hear of this one for the last time. Without any, a transition
//! pays one relaxed load.

use std::{
    any::{Any, TypeId},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use crate::{
    fom::panic_message,
    operation::Operation,
    runtime::World,
    sync::{
        RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    watch::{Transition, TransitionOf},
};

/// Stands before and after the phase functions of one operation type; for tests, and for what cuts across phases.
///
/// It does not stand round the `failed` function of a phase, so that what it makes fail goes the way that is declared for that.
///
/// Stacked: the last one added is outermost. It runs in the fom's locality and must not block.
pub trait Interpose<O: Operation>: Send + Sync + 'static {
    /// Before the phase function. `Some` takes its place: neither it nor the interposers inside run, but every
    /// [`after`](Self::after) does.
    fn before(
        &self,
        operation: &mut O,
        phase: &mut O::Phase,
    ) -> Option<Result<O::Phase, O::Error>> {
        let _ = (operation, phase);
        None
    }

    /// After it: may replace the result, also one that a `before` gave. An exit that the phase does not declare fails
    /// the fom.
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
    /// Whether transitions need more than to be made: somebody hears of them, or they are committed.
    any: AtomicBool,
    /// They are committed.
    journaled: bool,
    /// Somebody hears of them.
    heard: AtomicBool,
    next: AtomicU64,
    list: RwLock<Arc<List>>,
}

#[derive(Default)]
pub(crate) struct List(Vec<Hook>);

impl Hooks {
    /// Of a runtime that keeps a journal, or of one that does not.
    pub(crate) fn new(journaled: bool) -> Self {
        Self {
            any: AtomicBool::new(journaled),
            journaled,
            ..Self::default()
        }
    }

    /// Whether a transition needs more than to be made.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The hooks of this moment, if there are any.
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
        // What a listener holds is the user's and is dropped without the lock: it may be another `Listening`.
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

    fn remove(&self, id: u64) {
        self.change(|hooks| hooks.retain(|hook| hook.id != id));
    }

    /// Removes an interposer if it is the last one added of its type.
    fn remove_top(&self, id: u64, of: TypeId) -> bool {
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
    /// Tells every listener, in the order in which they were added. One that panics is taken off and reported.
    pub(crate) fn tell<O: Operation>(
        &self,
        world: &World,
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
            take_off_if_panicked(world, hook.id, told);
        }
    }

    /// For a fom whose operation is gone.
    pub(crate) fn tell_untyped(&self, world: &World, transition: &Transition<'_>) {
        for hook in &self.0 {
            if let Kind::General(listener) = &hook.kind {
                let told = catch_unwind(AssertUnwindSafe(|| listener(transition)));
                take_off_if_panicked(world, hook.id, told);
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

    /// What takes the place of the phase function, from the outermost interposer that wants to.
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

    /// The result as it is after every interposer, from the innermost to the outermost.
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

fn take_off_if_panicked(world: &World, id: u64, told: Result<(), Panicked>) {
    if let Err(panic) = told {
        world.hooks.remove(id);
        world.incident(format!(
            "a listener panicked and was taken off: {}",
            panic_message(panic)
        ));
    }
}

/// A listener that is attached; dropping this takes it off.
#[must_use = "the listener is taken off when this is dropped"]
pub struct Listening {
    pub(crate) world: Weak<World>,
    pub(crate) id: u64,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listening({})", self.id)
    }
}

impl Listening {
    /// Leaves it attached as long as the runtime lives.
    pub fn forever(mut self) {
        self.world = Weak::new();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade() {
            world.hooks.remove(self.id);
        }
    }
}

/// An interposer that is in place.
#[must_use = "an interposer stays until it is removed"]
pub struct Interposed {
    pub(crate) world: Weak<World>,
    pub(crate) id: u64,
    pub(crate) of: TypeId,
}

impl fmt::Debug for Interposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interposed({})", self.id)
    }
}

/// Another interposer of the same operation type was added later and must be removed first.
#[derive(Debug, thiserror::Error)]
#[error("another interposer lies on top of this one; remove that one first")]
pub struct NotOnTop(pub Interposed);

impl Interposed {
    /// Removes it. Last in, first out.
    ///
    /// # Errors
    ///
    /// [`NotOnTop`], with the interposer still in place.
    pub fn remove(self) -> Result<(), NotOnTop> {
        let Some(world) = self.world.upgrade() else {
            return Ok(());
        };
        if world.hooks.remove_top(self.id, self.of) {
            Ok(())
        } else {
            Err(NotOnTop(self))
        }
    }
}
