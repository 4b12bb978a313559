//! The body of a machine of plain functions: the operation and its phase, no future.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::Waker,
};

use crate::{
    Cx,
    fom::{
        Body, Progress, TypedFom, WaitingFor,
        course::{After, Course, Verdict, entry},
        typed::Outcome,
    },
    operation::{self, Entry, SyncOperation},
};

pub(super) struct Plain<O: SyncOperation> {
    course: Option<Course<O>>,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    New,
    Enter,
    Retry(u64),
}

impl<O: SyncOperation> Plain<O> {
    pub(super) fn new(course: Course<O>) -> Self {
        Self {
            course: Some(course),
            at: At::New,
        }
    }
}

// Nothing in here is ever pinned: there is no future.
impl<O: SyncOperation> Unpin for Plain<O> {}

impl<O: SyncOperation> Body<O> for Plain<O> {
    fn run(
        mut self: Pin<&mut Self>,
        fom: &dyn TypedFom<O>,
        _: &mut dyn FnMut() -> Waker,
    ) -> Result<Progress, Outcome<O>> {
        let me = &mut *self;
        let Some(course) = &mut me.course else {
            return Ok(Progress::Waiting);
        };
        let header = fom.header();
        header.set_waiting_for(WaitingFor::Nothing);
        let mut after = match me.at {
            At::New => course.begin(fom),
            at => match (header.interrupt(), at) {
                (Some(interrupt), _) => course.settle(fom, Verdict::Interrupted(interrupt)),
                (None, At::Retry(until)) => After::Retry(until),
                (None, _) => After::Enter,
            },
        };
        loop {
            me.at = At::Enter;
            let late = match after {
                After::Late => true,
                After::Enter | After::Stay if crate::locality::spent() => {
                    return Ok(Progress::Again);
                }
                After::Enter | After::Stay => false,
                After::Retry(until) => {
                    if header.world().clock.nanos() < until {
                        me.at = At::Retry(until);
                        header.arm_until(until);
                        header.set_waiting_for(WaitingFor::Retry);
                        return Ok(Progress::Waiting);
                    }
                    header.arm_deadline();
                    false
                }
                After::Ended => {
                    return Err(me.course.take().map(Course::ended).expect("checked above"));
                }
                After::Failed(cause) => {
                    return Err(me
                        .course
                        .take()
                        .map(|course| course.failed(cause))
                        .expect("checked above"));
                }
            };
            let entry = if !late && course.info().waits() {
                let Some(event) = fom.take_event() else {
                    header.set_waiting_for(WaitingFor::Event);
                    return Ok(Progress::Waiting);
                };
                Entry::Event(event)
            } else {
                entry(late)
            };
            let verdict = course.before(fom).unwrap_or_else(|| {
                let mut cx = Cx::new(fom);
                let step = || {
                    course.operation.step(operation::At {
                        phase: &mut course.phase,
                        cx: &mut cx,
                        entry,
                    })
                };
                match catch_unwind(AssertUnwindSafe(step)) {
                    Ok(stepped) => Verdict::Stepped(stepped),
                    Err(panic) => Verdict::Panicked(panic),
                }
            });
            after = if late {
                course.settle_late(fom, verdict)
            } else {
                course.settle(fom, verdict)
            };
        }
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.course = None;
    }
}
