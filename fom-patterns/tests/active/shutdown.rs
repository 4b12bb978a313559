//! A shutdown that runs out of time answers the callers of active objects.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::{future::pending, time::Duration};

use fom_patterns::{active::ActiveCallError, prelude::*};
use fom_runtime::{config::Shutdown, time::TestClock};

use crate::kit::{limited, one};

const SHORT: Duration = Duration::from_millis(50);

struct Slow;

#[active]
impl Slow {
    pub async fn hang(&mut self) -> u32 {
        pending().await
    }

    pub fn quick(&mut self) -> u32 {
        1
    }
}

/// SV-09: a drain that runs out of time answers the calls of an active object with a method that does not end.
#[test]
fn calls_of_an_object_that_hangs_are_answered() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let slow = Slow.activate(&runtime).unwrap();
        let (runs, queued) = (slow.hang(), slow.quick());
        runtime.quiet().await;
        let report = runtime.shutdown(Shutdown::Drain, SHORT).await;
        assert_eq!(report.remained.len(), 1);
        assert!(matches!(runs.await, Err(ActiveCallError::Ended)));
        assert!(matches!(queued.await, Err(ActiveCallError::Ended)));
        assert!(slow.has_ended());
    });
}
