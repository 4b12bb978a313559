//! Operation types with one name.

use fom_runtime::{prelude::*, time::TestClock};
use fom_watch::{Warned, WarningKind};

use crate::{
    kit::{limited, secs},
    task::{self, Word, only, warned, watched},
};

/// Has the name of the other tasks, some of their phases, and one of its own.
struct Task(DoingAfterChoosing);

#[fom(operation(Task), event(Word), transient)]
enum Doing {
    #[phase(start, sync, to(Hearing, Hurrying, Staying))]
    Choosing,
    #[phase(to(Done), on(Go), hung = "5m")]
    Hearing,
    #[phase(to(Done), on(Go), within = "10s", late)]
    Hurrying,
    #[phase(to(Done), on(Go), hung = "never")]
    Staying,
    #[phase(end)]
    Done,
}

impl DoingTransitions for Task {
    fn choosing(&mut self, _: &mut Cx<'_, Word>) -> Result<DoingAfterChoosing, BoxError> {
        Ok(match self.0 {
            DoingAfterChoosing::Hearing => DoingAfterChoosing::Hearing,
            DoingAfterChoosing::Hurrying => DoingAfterChoosing::Hurrying,
            DoingAfterChoosing::Staying => DoingAfterChoosing::Staying,
        })
    }

    async fn hearing(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }

    async fn hurrying(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }

    async fn hurrying_late(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn staying(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }
}

fn submit(runtime: &Runtime, phase: DoingAfterChoosing) -> Handle<Task> {
    runtime.submit(Task(phase)).start().unwrap()
}

#[test]
fn the_deadlines_of_two_types_count_together() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let many: Vec<_> = (0..40)
            .map(|_| task::submit(&runtime, task::Task::Hurry))
            .collect();
        let one = submit(&runtime, DoingAfterChoosing::Hurrying);
        runtime.quiet().await;
        clock.advance(secs(11));
        for fom in many {
            fom.await.unwrap();
        }
        one.await.unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        assert_eq!(only(&runtime, WarningKind::MissedDeadlines).foms, 41);
        for _ in 0..10 {
            clock.advance(secs(10));
            runtime.inspect().warnings();
        }
        assert_eq!(warned(&runtime, WarningKind::MissedDeadlines), []);
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 1, "{incidents:?}");
    });
}

#[test]
fn hung_foms_of_two_types_are_told_once() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let _other = task::submit(&runtime, task::Task::Hear);
        let _one = submit(&runtime, DoingAfterChoosing::Hearing);
        let _stays = submit(&runtime, DoingAfterChoosing::Staying);
        runtime.quiet().await;
        clock.advance(secs(301));
        for _ in 0..3 {
            assert_eq!(only(&runtime, WarningKind::Hung).foms, 2);
            clock.advance(secs(1));
        }
        let incidents = runtime.operations().incidents;
        assert_eq!((incidents.len(), incidents[0].count), (1, 1));
    });
}
