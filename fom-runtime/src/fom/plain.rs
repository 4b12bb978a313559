//! The body of a machine of plain functions: the operation and its phase, no future.

use std::{mem, pin::Pin, task::Poll};

use crate::{
    Cause, Cx, Failure,
    fom::{
        Body, Outcome, Progress, Typed, WaitingFor,
        course::{After, Course, Verdict, Why, cause_of},
        reference,
    },
    operation::{self, Entry, Next, Operation, Stepped, SyncOperation},
    watch::TransitionCause,
};

/// Operation and phase stay where they are from the submission to the moment when the outcome is taken.
pub(super) enum Plain<O: Operation> {
    Live(Course<O>),
    Failed(Box<Failure<O>>),
    Gone,
}

impl<O: SyncOperation> Plain<O> {
    #[inline]
    pub(super) fn new(course: Course<O>) -> Self {
        Self::Live(course)
    }

    #[cold]
    pub(super) fn fail_with(&mut self, fom: &Typed<O>, cause: Cause<O::Error>) -> Progress {
        if let Self::Live(course) = mem::replace(self, Self::Gone) {
            fom.commit_failure(course.info().name(), &cause);
            *self = Self::Failed(Box::new(course.failed(fom, cause)));
        }
        self.failed(fom)
    }

    /// It has failed, and ends when that is committed.
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

/// Elsewhere, since few fail.
#[cold]
fn drop_failure<O: Operation>(failure: Box<Failure<O>>) {
    drop(failure);
}

/// Why the function of the phase is run: the event that it waits for, if it waits for one. None: it is not there.
#[inline(always)]
fn enter<O: SyncOperation>(course: &Course<O>, fom: &Typed<O>) -> Option<Entry<O::Event>> {
    if !course.info().waits() {
        return Some(Entry::Enter);
    }
    let event = fom.take_event();
    if event.is_none() {
        fom.set_waiting_for(WaitingFor::Event);
    }
    event.map(Entry::Event)
}

#[inline(always)]
pub(super) fn step<O: SyncOperation>(
    course: &mut Course<O>,
    fom: &Typed<O>,
    entry: Entry<O::Event>,
) -> Stepped<O> {
    let mut cx = Cx::new(fom);
    course.operation.step(operation::At {
        phase: &mut course.phase,
        cx: &mut cx,
        entry,
    })
}

/// As [`step`], where somebody may stand in between. In a function of its own, so that the other stays where it is called.
#[inline(never)]
fn step_noted<O: SyncOperation>(
    course: &mut Course<O>,
    fom: &Typed<O>,
    entry: Entry<O::Event>,
) -> Verdict<O> {
    course
        .before(fom)
        .unwrap_or_else(|| Verdict::Stepped(step(course, fom, entry)))
}

// Nothing in here is ever pinned: there is no future.
impl<O: Operation> Unpin for Plain<O> {}

impl<O: SyncOperation> Body<O> for Plain<O> {
    fn run(mut self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        let course = match &mut *self {
            Self::Live(course) => course,
            Self::Failed(_) => return self.failed(fom),
            Self::Gone => return Progress::Waiting,
        };
        fom.set_waiting_for(WaitingFor::Nothing);
        let mut after = if !fom.has_begun() {
            course.begin(fom)
        } else if let Some(after) = course.committed(fom) {
            after
        } else if let Some(interrupt) = fom.interrupt() {
            course.settle(fom, Verdict::Interrupted(interrupt))
        } else if fom.takes_way_out() {
            After::WayOut
        } else if let Some(until) = fom.timing().and_then(|timing| timing.retry_at()) {
            After::Retry(until)
        } else {
            After::Enter
        };
        loop {
            let why = match after {
                After::Late => Why::Late,
                After::Exhausted => Why::Exhausted,
                After::WayOut => Why::Failed,
                After::Enter | After::Stay if crate::locality::spent() => {
                    return Progress::Again;
                }
                After::Enter | After::Stay => Why::Own,
                After::Retry(until) => {
                    let pause = |waker: &_| course.poll_pause(fom, until, waker);
                    match reference::with_waker(fom, pause) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(cause)) => {
                            after = course.fails(fom, cause);
                            continue;
                        }
                        Poll::Pending => return Progress::Waiting,
                    }
                    if let Some(again) = course.resume_again(fom, TransitionCause::Returned) {
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
                After::Failed(cause) => return self.fail_with(fom, cause),
            };
            if const { O::GRAPH.has_locks() } && why == Why::Own {
                match reference::with_waker(fom, |waker| course.poll_locks(fom, waker)) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(cause)) => {
                        after = course.fails(fom, cause);
                        continue;
                    }
                    Poll::Pending => return Progress::Waiting,
                }
            }
            let mut entry = if why != Why::Own {
                why.entry()
            } else if let Some(entry) = enter(course, fom) {
                entry
            } else {
                return Progress::Waiting;
            };
            // From phase to phase, until something else than an exit is returned. A panic is caught around the whole run:
            // operation and phase stay where they are.
            after = loop {
                let verdict = if fom.world().hooks.is_any() && why != Why::Failed {
                    step_noted(course, fom, entry)
                } else {
                    match step(course, fom, entry) {
                        Ok(Next::Go(next)) if why == Why::Own => {
                            if course.go_on(fom, next) {
                                return Progress::Finished;
                            }
                            if crate::locality::spent() {
                                return Progress::Again;
                            }
                            if const { O::GRAPH.has_locks() } {
                                break After::Enter;
                            }
                            let Some(next) = enter(course, fom) else {
                                return Progress::Waiting;
                            };
                            entry = next;
                            continue;
                        }
                        stepped => Verdict::Stepped(stepped),
                    }
                };
                break course.settle_why(fom, verdict, why);
            };
        }
    }

    fn panicked(
        mut self: Pin<&mut Self>,
        fom: &Typed<O>,
        panic: Box<dyn std::any::Any + Send>,
    ) -> Progress {
        let mut cause = cause_of(panic);
        if let Self::Live(course) = &mut *self {
            cause = match course.fails_outside(fom, cause) {
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
            Ok(ended) => Self::Live(Course::new(ended.operation, ended.phase)),
            Err(failure) => Self::Failed(Box::new(failure)),
        };
    }

    fn at_end(&self) -> Option<(&O, &O::Phase)> {
        match self {
            Self::Live(course) => Some((&course.operation, &course.phase)),
            _ => None,
        }
    }

    fn ended(&self) -> Result<usize, &Failure<O>> {
        match self {
            Self::Live(course) => Ok(course.index()),
            Self::Failed(failure) => Err(failure),
            Self::Gone => unreachable!("the outcome is taken once"),
        }
    }

    fn take(mut self: Pin<&mut Self>) -> Outcome<O> {
        match mem::replace(&mut *self, Self::Gone) {
            Self::Live(course) => course.ended(),
            Self::Failed(failure) => Err(*failure),
            Self::Gone => unreachable!("the outcome is taken once"),
        }
    }

    fn clear(mut self: Pin<&mut Self>) {
        match mem::replace(&mut *self, Self::Gone) {
            Self::Live(course) => drop(course),
            Self::Failed(failure) => drop_failure(failure),
            Self::Gone => {}
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}
