//! The body of a machine of plain functions: the operation and its phase, no future.

use std::{mem, pin::Pin, task::Poll};

use crate::{
    cx::Cx,
    fom::{
        Body, Cause, Failure, Outcome, Progress, TransitionCause, Typed, WaitingFor, reference,
        transition::{After, Instance, Onward, Verdict, Why, cause_of},
    },
    operation::{self, Entry, Next, Operation, Stepped, SyncOperation},
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
            fom.commit_failure(instance.info().name(), &cause);
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
        fom.set_waiting_for(WaitingFor::Event);
    }
    event.map(Entry::Event)
}

#[inline(always)]
pub(super) fn step<O: SyncOperation>(
    instance: &mut Instance<O>,
    fom: &Typed<O>,
    entry: Entry<O::Event>,
) -> Stepped<O> {
    let mut cx = Cx::new(fom);
    instance.operation.step(operation::At {
        phase: &mut instance.phase,
        cx: &mut cx,
        entry,
    })
}

/// Returns the next action of a run that has begun, or `None` in the usual case that it goes on with its phase.
#[inline(always)]
fn look<O: SyncOperation>(instance: &mut Instance<O>, fom: &Typed<O>) -> Option<After<O>> {
    if let Some(after) = instance.committed(fom) {
        Some(after)
    } else if let Some(interrupt) = fom.interrupt() {
        Some(instance.settle(fom, Verdict::Interrupted(interrupt)))
    } else if fom.takes_way_out() {
        Some(After::WayOut)
    } else {
        let until = fom.timing().and_then(|timing| timing.retry_at());
        until.map(After::Retry)
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
        fom.set_waiting_for(WaitingFor::Nothing);
        let mut after = if fom.has_begun() {
            look(instance, fom).unwrap_or(After::Enter)
        } else {
            instance.begin(fom)
        };
        loop {
            let why = match after {
                After::Enter | After::Stay if crate::locality::spent() => {
                    return Progress::Again;
                }
                After::Enter | After::Stay => Why::Own,
                After::Late => Why::Late,
                After::Exhausted => Why::Exhausted,
                After::WayOut => Why::Failed,
                After::Retry(until) => {
                    let pause = |waker: &_| instance.poll_pause(fom, until, waker);
                    match reference::with_waker(fom, pause) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(cause)) => {
                            after = instance.fails(fom, cause);
                            continue;
                        }
                        Poll::Pending => return Progress::Waiting,
                    }
                    if let Some(again) = instance.resume_again(fom, TransitionCause::Returned) {
                        after = again;
                        continue;
                    }
                    Why::Own
                }
                After::Ended => return Progress::Finished,
                After::Commit => {
                    fom.set_waiting_for(WaitingFor::Journal);
                    return Progress::Waiting;
                }
                After::Queue(what) => {
                    fom.set_waiting_for(what);
                    return Progress::Waiting;
                }
                After::Failed(cause) => return self.fail_with(fom, *cause),
            };
            if const { O::GRAPH.has_gates() } && why == Why::Own {
                match reference::with_waker(fom, |waker| instance.poll_gate(fom, waker)) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(cause)) => {
                        after = instance.fails(fom, cause);
                        continue;
                    }
                    Poll::Pending => return Progress::Waiting,
                }
            }
            let mut heard = fom.shared().env.hooks.is_any();
            let mut left = true;
            // Goes from phase to phase, until a function returns something other than an exit. A panic is caught
            // around the whole run, because operation and phase stay where they are.
            after = loop {
                let entry = if why != Why::Own {
                    why.entry()
                } else if let Some(entry) = enter(instance, fom, heard, &mut left) {
                    entry
                } else {
                    return Progress::Waiting;
                };
                if heard
                    && why != Why::Failed
                    && let Some(verdict) = instance.before(fom)
                {
                    break instance.settle_why(fom, verdict, why);
                }
                let stepped = step(instance, fom, entry);
                heard = fom.shared().env.hooks.is_any();
                if heard || why != Why::Own {
                    break instance.settle_why(fom, Verdict::Stepped(stepped), why);
                }
                let spent = match stepped {
                    Ok(Next::Go(next)) => match instance.go_on(fom, next) {
                        Onward::Ended => return Progress::Finished,
                        Onward::Spent => true,
                        Onward::Enter => false,
                    },
                    Ok(Next::Stay) => instance.stay(fom),
                    Err(error) => break instance.erred(fom, error, TransitionCause::Returned),
                };
                if spent {
                    return Progress::Again;
                }
                if const { O::GRAPH.has_gates() } {
                    break After::Enter;
                }
            };
        }
    }

    fn panicked(
        mut self: Pin<&mut Self>,
        fom: &Typed<O>,
        panic: Box<dyn std::any::Any + Send>,
    ) -> Progress {
        let mut cause = cause_of(panic);
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
        match mem::replace(&mut *self, Self::Gone) {
            Self::Live(instance) => drop(instance),
            Self::Failed(failure) => drop_failure(failure),
            Self::Gone => {}
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}
