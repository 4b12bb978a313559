//! Foms: an async phase that sleeps, and a sync one with `within`.

use std::{convert::Infallible, time::Instant};

use fom_runtime::prelude::*;
use kit::peers::self_wake;

use super::{BATCH, Plan, Spawn, WORKERS};
use crate::LEAD;

/// Sleeps until its time.
struct Sleeper {
    plan: Plan,
    number: usize,
}

#[fom(operation(Sleeper), error(Infallible), transient)]
enum Sleeping {
    #[phase(start, to(Done))]
    Sleep,
    #[phase(end)]
    Done,
}

impl SleepingTransitions for Sleeper {
    async fn sleep(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        let deadline = self.plan.deadline(self.number);
        cx.sleep(deadline.saturating_duration_since(Instant::now()))
            .await;
        self.plan.fired(self.number, deadline);
        Ok(())
    }
}

/// Waits for an event that never comes, so it is late.
struct Waiter {
    plan: Plan,
    number: usize,
    deadline: Instant,
}

/// An event that never comes.
#[expect(dead_code, reason = "no event is sent")]
enum Answer {
    Answer,
}

#[fom(operation(Waiter), event(Answer), error(Infallible), transient)]
enum Waiting {
    // The same as `LEAD`.
    #[phase(start, sync, on(Answer), to(Done), within = "2s", late)]
    Wait,
    #[phase(end)]
    Done,
}

impl WaitingTransitions for Waiter {
    fn wait(&mut self, _: &mut Cx<'_, Answer>, _: Answer) -> Result<WaitingAfterWait, Infallible> {
        unreachable!("no answer comes")
    }

    fn wait_late(&mut self, _: &mut Cx<'_, Answer>) -> Result<WaitingAfterWait, Infallible> {
        self.plan.fired(self.number, self.deadline);
        Ok(WaitingAfterWait::Done)
    }
}

/// Spawns its locality's part.
struct Generator {
    plan: Plan,
}

#[fom(operation(Generator), transient)]
enum Generating {
    #[phase(start, to(Done))]
    Spawn,
    #[phase(end)]
    Done,
}

impl GeneratingTransitions for Generator {
    async fn spawn(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (plan, runtime, worker) = (self.plan, cx.runtime(), cx.locality());
        match plan.spawn {
            Spawn::AtOnce | Spawn::Shuffled => {
                for (n, number) in plan.numbers(worker).enumerate() {
                    submit(&runtime, Sleeper { plan, number });
                    if n % BATCH == BATCH - 1 {
                        self_wake().await;
                    }
                }
            }
            Spawn::Spread => {
                for (at, numbers) in plan.ticks(worker) {
                    cx.sleep(at.saturating_duration_since(Instant::now())).await;
                    for number in numbers {
                        let deadline = Instant::now() + LEAD;
                        submit(
                            &runtime,
                            Waiter {
                                plan,
                                number,
                                deadline,
                            },
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

fn submit<O: Operation>(runtime: &Runtime, operation: O) {
    let submitted = runtime.submit(operation).start();
    assert!(submitted.is_ok(), "the runtime takes all");
}

pub(super) fn start(plan: Plan) {
    let runtime = Runtime::builder()
        .localities(WORKERS)
        .build()
        .expect("two localities");
    for locality in 0..WORKERS {
        let generator = runtime.submit(Generator { plan });
        assert!(
            generator
                .place(Placement::Locality(locality))
                .start()
                .is_ok()
        );
    }
    // For the rest of the process.
    std::mem::forget(runtime);
}
