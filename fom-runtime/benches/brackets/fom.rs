//! A fom with blocking sections in its phase, and others that are always ready.

use std::sync::mpsc;

use fom_runtime::prelude::*;
use kit::peers::self_wake;

use super::{Answer, Plan, other, series, work};

struct Bracketed {
    plan: Plan,
    tell: mpsc::Sender<Answer>,
}

#[fom(operation(Bracketed), transient)]
enum Bracketing {
    #[phase(start, to(Done))]
    Bracket,
    #[phase(end)]
    Done,
}

impl BracketingTransitions for Bracketed {
    async fn bracket(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let Plan { times, inside, .. } = self.plan;
        let without = series(times, || work(inside)).await;
        let with = series(times, || {
            let _block = cx.enter_block().expect("a thread stands by");
            work(inside);
        });
        let with = with.await;
        self.tell.send([without, with])?;
        Ok(())
    }
}

struct Other;

#[fom(operation(Other), transient)]
enum Othering {
    #[phase(start, to(Done))]
    Run,
    #[phase(end)]
    Done,
}

impl OtheringTransitions for Other {
    async fn run(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        while !cx.is_cancelled() {
            other();
            self_wake().await;
        }
        Ok(())
    }
}

pub(crate) fn start(plan: Plan, tell: mpsc::Sender<Answer>) {
    // The second locality is idle, so the first has a core of its own.
    let runtime = Runtime::builder()
        .localities(2)
        .build()
        .expect("two localities");
    for _ in 0..plan.others {
        let other = runtime.submit(Other).place(Placement::Locality(0));
        assert!(other.start().is_ok());
    }
    let bracketed = runtime
        .submit(Bracketed { plan, tell })
        .place(Placement::Locality(0));
    assert!(bracketed.start().is_ok());
    std::mem::forget(runtime);
}
