//! A shutdown that runs out of time answers the requests in a queue for admission.

use std::{future::pending, time::Duration};

use fom_durable::{DurableBuilderExt as _, DurableExt as _};
use fom_patterns::{
    admission::{Admission, Fifo},
    prelude::*,
};
use fom_runtime::{error::RefusedReason, time::TestClock};

use crate::kit::{leased::Leased, limited, one, poll_once};

const SHORT: Duration = Duration::from_millis(50);

/// Never ends.
struct Waits;

#[fom(operation(Waits), transient)]
enum Waiting {
    #[phase(start, to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl WaitingTransitions for Waits {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        pending().await
    }
}

/// One runs, and two wait.
fn narrow(runtime: &Runtime) -> Admission {
    Admission::builder(runtime)
        .in_flight(1)
        .marks(1, 2)
        .policy(Fifo::default())
        .build()
        .unwrap()
}

/// SV-09: a drain that runs out of time answers requests that are queued for admission, or that wait for room there.
#[test]
fn what_waits_for_admission_is_answered() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let admission = narrow(&runtime);
        let runs = admission.submit(Waits).start().unwrap();
        let queued = [(), ()].map(|()| admission.submit(Waits).start().unwrap());
        let mut room = Box::pin(admission.submit(Waits).start_when_room());
        assert!(poll_once(room.as_mut()).await.is_pending());
        runtime.quiet().await;
        runtime.shutdown(Shutdown::Drain, SHORT).await;
        for handle in [runs].into_iter().chain(queued) {
            let cause = handle.await.unwrap_err().cause;
            assert!(matches!(cause, Cause::Shutdown), "{cause:?}");
        }
        let refused = room.await.unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
    });
}

/// Another process takes over the journal: the same, with that reason.
#[test]
fn what_waits_for_admission_hears_that_the_journal_has_moved() {
    limited(|| async {
        let journal = Leased::new();
        let builder = one(&TestClock::new()).journal_with(journal.clone());
        let runtime = builder.build().unwrap();
        let admission = narrow(&runtime);
        let runs = admission.submit(Waits).start().unwrap();
        let queued = [(), ()].map(|()| admission.submit(Waits).start().unwrap());
        let mut room = Box::pin(admission.submit(Waits).start_when_room());
        assert!(poll_once(room.as_mut()).await.is_pending());
        runtime.quiet().await;
        journal.lease.lose();
        runtime.moved().await;
        for handle in [runs].into_iter().chain(queued) {
            let cause = handle.await.unwrap_err().cause;
            assert!(matches!(cause, Cause::Moved), "{cause:?}");
        }
        assert_eq!(room.await.unwrap_err().reason(), RefusedReason::Moved);
        let late = admission.submit(Waits).start().unwrap_err();
        assert_eq!(late.reason(), RefusedReason::Moved);
    });
}
