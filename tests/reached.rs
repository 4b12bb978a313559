//! Waiting for a phase that a fom only passes through. The wait begins while the fom runs.

use std::{sync::mpsc, time::Duration};

use fom_runtime::prelude::*;

enum Signal {
    Go,
}

struct Walk {
    /// `First` reports that it runs, and holds its locality until it may continue.
    runs: mpsc::SyncSender<()>,
    go_on: mpsc::Receiver<()>,
}

#[fom(operation(Walk), event(Signal), transient)]
#[derive(Debug)]
enum Walking {
    #[phase(start, to(Passed), on(Go))]
    First,
    #[phase(sync, to(Last))]
    Passed,
    #[phase(to(Over))]
    Last,
    #[phase(end)]
    Over,
}

impl WalkingTransitions for Walk {
    async fn first(&mut self, cx: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        self.runs.send(())?;
        let go_on = std::mem::replace(&mut self.go_on, mpsc::channel().1);
        go_on.recv_timeout(Duration::from_secs(60))?;
        cx.event().await;
        Ok(())
    }

    fn passed(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn last(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_begins_before_the_send_sees_what_the_event_leads_through() {
    let runtime = Runtime::new().unwrap();
    let (runs, does_run) = mpsc::sync_channel(1);
    let (may_go_on, go_on) = mpsc::channel();
    let walk = runtime.submit(Walk { runs, go_on }).start().unwrap();
    does_run.recv_timeout(Duration::from_secs(60)).unwrap();

    // The fom does not reach its jobs before it has passed through `Passed`.
    let passed = walk.reached([WalkingKind::Passed]);
    walk.send(Signal::Go).map_err(|_| "not sent").unwrap();
    may_go_on.send(()).unwrap();

    let passed = tokio::time::timeout(Duration::from_secs(60), passed.into_future()).await;
    assert_eq!(
        passed.expect("it was passed through"),
        Reached::Phase(WalkingKind::Passed)
    );
}
