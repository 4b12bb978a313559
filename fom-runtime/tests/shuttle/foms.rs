//! Foms that several models run.

use super::*;

/// Visits this many times, and blocks in between.
pub(super) struct Work {
    pub(super) sections: usize,
}

#[fom(operation(Work), transient)]
pub(super) enum Working {
    #[phase(start, sync, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Work {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterStep, BoxError> {
        visit(cx);
        if self.sections == 0 {
            return Ok(WorkingAfterStep::Done);
        }
        self.sections -= 1;
        section(cx, thread::yield_now)?;
        visit(cx);
        Ok(WorkingAfterStep::Step)
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Word {
    Go,
}

/// Blocks, then waits for a word.
pub(super) struct Task {
    in_section: Arc<dyn Fn() + Send + Sync>,
}

pub(super) fn task(in_section: impl Fn() + Send + Sync + 'static) -> Task {
    Task {
        in_section: Arc::new(in_section),
    }
}

#[fom(operation(Task), event(Word), transient)]
pub(super) enum Tasking {
    #[phase(start, sync, to(Wait))]
    Block,
    #[phase(sync, on(Go), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl TaskingTransitions for Task {
    fn block(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        section(cx, || (self.in_section)())?;
        visit(cx);
        Ok(())
    }

    fn wait(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<TaskingAfterWait, BoxError> {
        visit(cx);
        Ok(TaskingAfterWait::Done)
    }
}

/// Waits for another fom with its thread: a blocking section by itself.
pub(super) struct Parent(pub(super) Placement);

#[fom(operation(Parent), transient)]
pub(super) enum Parenting {
    #[phase(start, sync, to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl ParentingTransitions for Parent {
    fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        let child = cx.submit(Work { sections: 1 });
        let child = child.place(self.0).start()?;
        child.wait()?;
        visit(cx);
        Ok(())
    }
}
