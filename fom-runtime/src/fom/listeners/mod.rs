//! Listeners and interposers, added and removed while foms run.
//!
//! Each change replaces the whole list. A transition takes the list that exists when it begins. A hook that is added
//! meanwhile first hears of the next transition. A hook that is removed meanwhile may still hear of this one. Without
//! hooks and counters, a transition costs one relaxed load.

mod failed_attempt;
mod runs;
mod transition;

pub use failed_attempt::FailedAttempt;
pub use runs::{Run, RunListener};
pub use transition::{Transition, TransitionCause};

use std::{
    any::{Any, TypeId},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::fom::{Env, Header};
use crate::incident::IncidentKind;
use fom_protocol::{
    panic_message,
    sync::{
        RwLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

type General = Box<dyn Fn(&Transition<'_>) + Send + Sync>;
type OfFailures = Box<dyn Fn(&FailedAttempt<'_>) + Send + Sync>;
type Panicked = Box<dyn Any + Send>;

#[derive(Clone)]
pub(crate) enum Kind {
    General(Arc<General>),
    /// A listener to failed attempts.
    Failures(Arc<OfFailures>),
    /// A listener to one operation type, as `typed/listeners.rs` knows it.
    Typed(TypeId, Arc<dyn Any + Send + Sync>),
    /// An interposer of one operation type, as `typed/listeners.rs` knows it.
    Interposer(TypeId, Arc<dyn Any + Send + Sync>),
    /// A listener to runs.
    Runs(Arc<dyn RunListener>),
}

#[derive(Clone)]
pub(crate) struct Hook {
    id: u64,
    kind: Kind,
}

/// What a runtime does with each transition, beyond the transition.
#[derive(Clone, Copy)]
pub(crate) struct Extras(u8);

impl Extras {
    /// Transitions are counted.
    const COUNTED: u8 = 1;
    /// There are listeners.
    const HEARD: u8 = 1 << 1;
    /// There are interposers.
    const INTERPOSED: u8 = 1 << 2;
    /// Transitions are committed.
    const JOURNALED: u8 = 1 << 3;
    /// Transitions are recorded.
    const RECORDED: u8 = 1 << 4;
    /// There are listeners to runs.
    const RUNS: u8 = 1 << 5;
    /// The journal has a lease.
    const LEASED: u8 = 1 << 6;
    /// What comes from elsewhere than the list of hooks.
    const KEPT: u8 = Self::COUNTED | Self::JOURNALED | Self::RECORDED | Self::LEASED;

    /// Returns whether there is anything to do.
    #[inline(always)]
    pub(crate) fn are_any(self) -> bool {
        self.0 != 0
    }

    /// Returns whether the run loop must settle each step: it may come out otherwise, or is committed.
    #[inline(always)]
    pub(crate) fn settle(self) -> bool {
        self.0 & (Self::INTERPOSED | Self::JOURNALED) != 0
    }

    /// Returns whether all there is to do in a transition is to count and to record.
    #[inline(always)]
    pub(crate) fn are_only_observed(self) -> bool {
        self.0 & !(Self::COUNTED | Self::RECORDED | Self::RUNS) == 0
    }

    /// Returns whether localities do something at each run: they measure or record it, tell it, or check the lease.
    #[inline]
    pub(crate) fn are_observed(self) -> bool {
        self.0 & (Self::COUNTED | Self::RECORDED | Self::RUNS | Self::LEASED) != 0
    }

    /// Returns whether the journal has a lease.
    #[inline]
    pub(crate) fn are_leased(self) -> bool {
        self.0 & Self::LEASED != 0
    }

    /// Returns whether localities record their runs, or tell them.
    #[inline]
    pub(crate) fn are_noted(self) -> bool {
        self.0 & (Self::RECORDED | Self::RUNS) != 0
    }

    /// Returns whether there are listeners to runs.
    #[inline]
    pub(crate) fn tell_runs(self) -> bool {
        self.0 & Self::RUNS != 0
    }

    /// Returns whether transitions are counted.
    #[inline]
    pub(crate) fn are_counted(self) -> bool {
        self.0 & Self::COUNTED != 0
    }

    /// Returns whether transitions are recorded.
    #[inline]
    pub(crate) fn are_recorded(self) -> bool {
        self.0 & Self::RECORDED != 0
    }
}

/// The hooks of a runtime.
#[derive(Default)]
pub(crate) struct Hooks {
    extras: AtomicU8,
    next: AtomicU64,
    list: RwLock<Arc<List>>,
}

#[derive(Default)]
pub(crate) struct List(Vec<Hook>);

impl Hooks {
    /// Makes the hooks of a runtime with or without a journal, and with or without a flight recorder.
    pub(crate) fn new(journaled: bool, recorded: bool) -> Self {
        let journaled = if journaled { Extras::JOURNALED } else { 0 };
        let extras = journaled | if recorded { Extras::RECORDED } else { 0 };
        Self {
            extras: AtomicU8::new(extras),
            ..Self::default()
        }
    }

    /// Returns what is done with a transition at this moment.
    #[inline(always)]
    pub(crate) fn extras(&self) -> Extras {
        Extras(self.extras.load(Ordering::Relaxed))
    }

    /// Counts the transitions from now on. Returns whether this is new.
    pub(crate) fn count(&self) -> bool {
        let _list = self.list.write();
        let before = self.extras();
        self.extras
            .store(before.0 | Extras::COUNTED, Ordering::Relaxed);
        !before.are_counted()
    }

    /// Notes that the journal has a lease.
    pub(crate) fn lease(&self) {
        let _list = self.list.write();
        let before = self.extras();
        self.extras
            .store(before.0 | Extras::LEASED, Ordering::Relaxed);
    }

    /// Returns whether transitions are counted.
    #[inline]
    pub(crate) fn are_counted(&self) -> bool {
        self.extras().are_counted()
    }

    /// Returns whether transitions are recorded.
    #[inline]
    pub(crate) fn are_recorded(&self) -> bool {
        self.extras().are_recorded()
    }

    /// Returns whether there are interposers.
    #[inline]
    pub(crate) fn interpose(&self) -> bool {
        self.extras().0 & Extras::INTERPOSED != 0
    }

    /// Returns whether there are listeners.
    #[inline]
    pub(crate) fn are_heard(&self) -> bool {
        self.extras().0 & Extras::HEARD != 0
    }

    /// Returns the hooks of this moment, if there are listeners.
    pub(crate) fn heard(&self) -> Option<Arc<List>> {
        self.are_heard().then(|| self.list())
    }

    /// Returns the hooks of this moment, if there are interposers.
    pub(crate) fn interposing(&self) -> Option<Arc<List>> {
        self.interpose().then(|| self.list())
    }

    /// Returns the hooks of this moment, if there are listeners to runs.
    pub(crate) fn telling_runs(&self) -> Option<Arc<List>> {
        self.extras().tell_runs().then(|| self.list())
    }

    fn list(&self) -> Arc<List> {
        Arc::clone(&self.list.read())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Hook>)) {
        let mut list = self.list.write();
        let mut hooks = list.0.clone();
        change(&mut hooks);
        let kept = self.extras().0 & Extras::KEPT;
        let extra = |hook: &Hook| match hook.kind {
            Kind::Interposer(..) => Extras::INTERPOSED,
            Kind::Runs(_) => Extras::RUNS,
            Kind::General(_) | Kind::Failures(_) | Kind::Typed(..) => Extras::HEARD,
        };
        let extras = hooks.iter().map(extra).fold(kept, |all, one| all | one);
        self.extras.store(extras, Ordering::Relaxed);
        let before = std::mem::replace(&mut *list, Arc::new(List(hooks)));
        drop(list);
        // What a listener owns is the user's and may be another `Listening`. So it is dropped without the lock.
        drop(before);
    }

    /// Adds a hook behind the others. Returns its id.
    pub(crate) fn add(&self, kind: Kind) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.change(|hooks| hooks.push(Hook { id, kind }));
        id
    }

    pub(crate) fn listen(&self, listener: General) -> u64 {
        self.add(Kind::General(Arc::new(listener)))
    }

    pub(crate) fn listen_to_failures(&self, listener: OfFailures) -> u64 {
        self.add(Kind::Failures(Arc::new(listener)))
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
    /// Tells every listener, in the order in which they were added. `typed` tells a listener to one operation type, if
    /// that is the type of the fom. A listener that panics is removed and reported.
    pub(crate) fn tell(
        &self,
        env: &Env,
        transition: &Transition<'_>,
        typed: impl Fn(TypeId, &(dyn Any + Send + Sync)),
    ) {
        for hook in &self.0 {
            let told = catch_unwind(AssertUnwindSafe(|| match &hook.kind {
                Kind::General(listener) => listener(transition),
                Kind::Typed(of, listener) => typed(*of, &**listener),
                Kind::Interposer(..) | Kind::Failures(_) | Kind::Runs(_) => {}
            }));
            take_off_if_panicked(env, hook.id, told);
        }
    }

    /// Tells the listeners of a transition after the operation of the fom is gone.
    pub(crate) fn tell_untyped(&self, env: &Env, transition: &Transition<'_>) {
        self.tell(env, transition, |_, _| {});
    }

    /// Tells the listeners of a failed attempt, as [`tell`](Self::tell) does.
    pub(crate) fn tell_failure(&self, env: &Env, attempt: &FailedAttempt<'_>) {
        for hook in &self.0 {
            if let Kind::Failures(listener) = &hook.kind {
                let told = catch_unwind(AssertUnwindSafe(|| listener(attempt)));
                take_off_if_panicked(env, hook.id, told);
            }
        }
    }

    /// Tells the listeners that a run of this fom begins.
    pub(crate) fn tell_begin(&self, fom: &Header) {
        self.tell_run(fom.env(), |listener| listener.begins(&Run::of(fom)));
    }

    /// Tells the listeners that the last run on this thread is over.
    pub(crate) fn tell_end(&self, env: &Env) {
        self.tell_run(env, |listener| listener.ends());
    }

    fn tell_run(&self, env: &Env, tell: impl Fn(&dyn RunListener)) {
        for hook in &self.0 {
            if let Kind::Runs(listener) = &hook.kind {
                let told = catch_unwind(AssertUnwindSafe(|| tell(&**listener)));
                take_off_if_panicked(env, hook.id, told);
            }
        }
    }

    /// Returns the interposers of an operation type, the innermost first.
    pub(crate) fn interposers(
        &self,
        of: TypeId,
    ) -> impl DoubleEndedIterator<Item = &(dyn Any + Send + Sync)> {
        self.0.iter().filter_map(move |hook| match &hook.kind {
            Kind::Interposer(type_id, interposer) if *type_id == of => Some(&**interposer),
            _ => None,
        })
    }
}

fn take_off_if_panicked(env: &Env, id: u64, told: Result<(), Panicked>) {
    if let Err(panic) = told {
        env.hooks.remove(id);
        env.report(
            IncidentKind::Panicked,
            "a listener",
            format!(
                "a listener panicked and was taken off: {}",
                panic_message(panic)
            ),
        );
    }
}
