//! The body of a machine of plain functions: the operation and its phase, no future.

use std::{mem, ops::ControlFlow, pin::Pin};

use crate::{
    fom::{Cause, Entry, Function, Progress, RunningFom, WaitingFor},
    operation::{At, Operation, Stepped, SyncOperation},
    run::{
        body::Body,
        next::{Next, Step, next},
        run_loop::{Decided, calls},
        transition::{Instance, cause_of},
    },
    typed::{Failure, Outcome, Typed},
};

/// Operation and phase do not move from the submission until the outcome is taken.
pub(super) enum SyncBody<O: Operation> {
    Live(Instance<O>),
    Failed(Box<Failure<O>>),
    Gone,
}

impl<O: SyncOperation> SyncBody<O> {
    #[inline]
    pub(super) fn new(instance: Instance<O>) -> Self {
        Self::Live(instance)
    }

    #[cold]
    pub(super) fn fail_with(&mut self, fom: &Typed<O>, cause: Cause<O::Error>) -> Progress {
        if let Self::Live(instance) = mem::replace(self, Self::Gone) {
            instance.commit_failure(fom, &cause);
            *self = Self::Failed(Box::new(instance.failed(fom, cause)));
        }
        self.failed(fom)
    }

    /// Finishes the failed fom when its failure is committed.
    #[cold]
    fn failed(&mut self, fom: &Typed<O>) -> Progress {
        if fom.awaits_journal() {
            return Progress::Waiting;
        }
        if let Self::Failed(failure) = self
            && let Some(cause) = fom.end_answered()
        {
            failure.cause = cause;
        }
        Progress::Finished
    }
}

/// A separate function, because failures are rare.
#[cold]
fn drop_failure<O: Operation>(failure: Box<Failure<O>>) {
    drop(failure);
}

/// Returns the entry for the phase function: the event, if the phase waits for one. Returns `None` if there is no
/// event yet.
///
/// `left`: whether there were events left when the last event was taken. If there were none, an event that came later
/// has woken the fom or is about to do so. Then the fom runs again.
#[inline(always)]
fn enter<O: SyncOperation>(
    instance: &Instance<O>,
    fom: &Typed<O>,
    heard: bool,
    left: &mut bool,
) -> Option<Entry<O::Event>> {
    if !instance.info().waits() {
        return Some(Entry::Enter);
    }
    let event = if heard {
        fom.take_event()
    } else if *left || fom.token.is_woken() {
        let (event, more) = fom.take_event_sent();
        *left = more;
        event
    } else {
        None
    };
    if event.is_none() {
        fom.waiting.set(WaitingFor::Event);
    }
    event.map(Entry::Event)
}

#[inline(always)]
pub(super) fn step<O: SyncOperation>(
    instance: &mut Instance<O>,
    fom: &Typed<O>,
    entry: Entry<O::Event>,
) -> Stepped<O> {
    instance.give_data(fom, matches!(entry, Entry::Enter));
    instance.operation.step(At {
        phase: &mut instance.phase,
        fom: RunningFom::new(fom),
        entry,
    })
}

/// Calls a function other than the phase's own. A way out runs without the interposers, because one of them may have
/// caused the failure.
#[cold]
fn run_other<O: SyncOperation>(
    instance: &mut Instance<O>,
    fom: &Typed<O>,
    function: Function,
) -> Decided<O> {
    let instead = match function {
        Entry::Failed => None,
        _ => instance.before(fom),
    };
    let returned = instead.unwrap_or_else(|| Ok(step(instance, fom, function.without_event())));
    instance.settle(fom, returned, function)
}

/// Goes from phase to phase until a function returns something other than an exit. Returns what to do then, or how the
/// run stops. A panic is caught around the whole run, because operation and phase stay where they are.
#[inline(always)]
fn run_phases<O: SyncOperation>(
    instance: &mut Instance<O>,
    fom: &Typed<O>,
) -> ControlFlow<Progress, Decided<O>> {
    let hooks = &fom.env().hooks;
    let mut heard = hooks.extras().are_any();
    let mut left = true;
    loop {
        let Some(entry) = enter(instance, fom, heard, &mut left) else {
            return ControlFlow::Break(Progress::Waiting);
        };
        if heard && let Some(returned) = instance.before(fom) {
            return ControlFlow::Continue(instance.settle(fom, returned, Entry::Enter));
        }
        let stepped = step(instance, fom, entry);
        let extras = hooks.extras();
        heard = extras.are_any();
        if heard {
            return ControlFlow::Continue(match stepped {
                Ok(Some(to)) if extras.are_only_observed() => {
                    let spent = instance.go_on_observed(fom, to, extras);
                    Ok(next(Step::Visit(instance.visit(spent))))
                }
                stepped => instance.go_on_heard(fom, stepped, extras),
            });
        }
        let next = match stepped {
            Ok(Some(next)) => instance.go_on(fom, next),
            Ok(None) => instance.stay(fom),
            Err(error) => {
                return ControlFlow::Continue(instance.erred(
                    fom,
                    Cause::Error(error),
                    Entry::Enter,
                ));
            }
        };
        match next {
            // The run loop waits for the gate of the phase.
            Next::Call(_) if const { O::GRAPH.needs().gates() } => {
                return ControlFlow::Continue(Ok(next));
            }
            Next::Call(_) => {}
            Next::Finish => return ControlFlow::Break(Progress::Finished),
            Next::Again => return ControlFlow::Break(Progress::Again),
            next => return ControlFlow::Continue(Ok(next)),
        }
    }
}

// No part is ever pinned, because there is no future.
impl<O: Operation> Unpin for SyncBody<O> {}

impl<O: SyncOperation> Body<O> for SyncBody<O> {
    fn run(mut self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        let instance = match &mut *self {
            Self::Live(instance) => instance,
            Self::Failed(_) => return self.failed(fom),
            Self::Gone => return Progress::Waiting,
        };
        let mut decided = instance.run(fom).start();
        loop {
            if calls::<O>(&decided) {
                // It has nothing to drop. So the loop needs no note of whether it must drop it.
                mem::forget(decided);
            } else {
                match instance.run(fom).carry_out(decided) {
                    ControlFlow::Continue(Entry::Enter) => {}
                    ControlFlow::Continue(function) => {
                        decided = run_other(instance, fom, function);
                        continue;
                    }
                    ControlFlow::Break(Ok(progress)) => return progress,
                    ControlFlow::Break(Err(cause)) => return self.fail_with(fom, *cause),
                }
            }
            decided = match run_phases(instance, fom) {
                ControlFlow::Continue(decided) => decided,
                ControlFlow::Break(progress) => return progress,
            };
        }
    }

    fn panicked(
        mut self: Pin<&mut Self>,
        fom: &Typed<O>,
        panic: Box<dyn std::any::Any + Send>,
    ) -> Progress {
        let mut cause = cause_of(fom, panic);
        if let Self::Live(instance) = &mut *self {
            cause = match instance.fails_outside(fom, cause) {
                Ok(()) => return Progress::Again,
                Err(cause) => cause,
            };
        }
        self.fail_with(fom, cause)
    }

    fn fail(mut self: Pin<&mut Self>, failure: Failure<O>) {
        *self = Self::Failed(Box::new(failure));
    }

    fn settle(mut self: Pin<&mut Self>, outcome: Outcome<O>) {
        *self = match outcome {
            Ok(ended) => Self::Live(Instance::new(ended.operation, ended.phase)),
            Err(failure) => Self::Failed(Box::new(failure)),
        };
    }

    fn at_end(&self) -> Option<(&O, &O::Phase)> {
        match self {
            Self::Live(instance) => Some((&instance.operation, &instance.phase)),
            _ => None,
        }
    }

    fn ended(&self) -> Result<usize, &Failure<O>> {
        match self {
            Self::Live(instance) => Ok(instance.index()),
            Self::Failed(failure) => Err(failure),
            Self::Gone => unreachable!("the outcome is taken once"),
        }
    }

    fn take(mut self: Pin<&mut Self>) -> Outcome<O> {
        match mem::replace(&mut *self, Self::Gone) {
            Self::Live(instance) => instance.ended(),
            Self::Failed(failure) => Err(*failure),
            Self::Gone => unreachable!("the outcome is taken once"),
        }
    }

    fn clear(mut self: Pin<&mut Self>) {
        if !matches!(*self, Self::Failed(_)) {
            // In place: a large operation would be copied first.
            *self = Self::Gone;
        } else if let Self::Failed(failure) = mem::replace(&mut *self, Self::Gone) {
            drop_failure(failure);
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}
