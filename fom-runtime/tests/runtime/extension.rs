//! The hooks for packages on top of the runtime.

use std::{sync::Arc, time::Duration};

use fom_runtime::{
    config::Shutdown,
    extension::{Attachment, RuntimeState, UnfinishedStop},
    prelude::*,
};

const LIMIT: Duration = Duration::from_secs(60);

/// A part that panics at each call.
#[derive(Default)]
struct Broken;

impl Attachment for Broken {
    fn drain(self: Arc<Self>, _: &Runtime, _: std::time::Instant) {
        panic!("while it drained");
    }

    fn state_changed(self: Arc<Self>, _: &Runtime) {
        panic!("when the state changed");
    }

    fn close(self: Arc<Self>, _: &Runtime) -> Vec<UnfinishedStop> {
        panic!("while it closed");
    }
}

fn one() -> Runtime {
    Runtime::builder().localities(1).build().unwrap()
}

/// A part of another package cannot keep the runtime from its end.
#[test]
fn a_part_that_panics_is_reported() {
    let runtime = one();
    let part = runtime.extension().attachment::<Broken>();
    assert!(Arc::ptr_eq(
        &part,
        &runtime.extension().attachment::<Broken>()
    ));
    let report = runtime.shutdown_blocking(Shutdown::Drain, LIMIT);
    assert!(report.remained.is_empty() && report.unfinished_stops.is_empty());
    assert_eq!(runtime.extension().state(), RuntimeState::Closed);
    let incidents = runtime.operations().incidents;
    for what in [
        "while it drained",
        "when the state changed",
        "while it closed",
    ] {
        assert!(
            incidents.iter().any(|incident| incident.contains(what)),
            "{what}: {incidents:?}"
        );
    }
}

/// Pending work counts as in flight until it leaves, and never below zero.
#[test]
fn pending_work_is_in_flight() {
    let runtime = one();
    let pending = runtime.extension().pending_work();
    pending.enter();
    pending.enter();
    assert_eq!(runtime.in_flight(), 2);
    pending.leave(5);
    pending.enter();
    assert_eq!(runtime.in_flight(), 1);
    drop(pending);
    assert_eq!(runtime.in_flight(), 0);
}
