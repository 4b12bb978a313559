//! The hooks for packages on top of the runtime.

use std::{
    future,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use fom_runtime::{
    FomRef,
    config::Shutdown,
    extension::{Attached, Attachment, Blocker, Hold, RuntimeState, UnfinishedStop, waits_for},
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
            incidents
                .iter()
                .any(|incident| incident.text.contains(what)),
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

/// Waits until the runtime ends.
struct Idle;

#[fom(operation(Idle), transient)]
enum Idling {
    #[phase(start, to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl IdlingTransitions for Idle {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        future::pending().await
    }
}

/// Says once that its fom waits for the foms `once`, and always that it waits for the foms `on`.
struct Waits {
    once: Mutex<Vec<FomRef<Idle>>>,
    on: Vec<FomRef<Idle>>,
}

impl Waits {
    fn attach(fom: &FomRef<Idle>, once: &[&FomRef<Idle>], on: &[&FomRef<Idle>]) -> Arc<Self> {
        let all = |foms: &[&FomRef<Idle>]| foms.iter().copied().cloned().collect::<Vec<_>>();
        let this = Arc::new(Self {
            once: Mutex::new(all(once)),
            on: all(on),
        });
        fom.attach(Arc::downgrade(&this) as Weak<dyn Attached>);
        this
    }
}

impl Attached for Waits {
    fn blockers(&self) -> Vec<Blocker> {
        let once = std::mem::take(&mut *self.once.lock().unwrap());
        let blocker = |fom: &FomRef<Idle>| Blocker {
            fom: fom.fom_address(),
            kind: "the test",
            subject: None,
            hold: Hold::Has,
            numbers: (0, 0),
        };
        once.iter().chain(&self.on).map(blocker).collect()
    }
}

/// A wait that ends during the search counts no more. The search still finds the other waits that lead to the foms
/// behind it.
#[test]
fn a_wait_that_ends_during_the_search_hides_no_other() {
    let runtime = one();
    let handles = [(); 4].map(|()| runtime.submit(Idle).start().unwrap());
    let [first, by, shared, last] = handles.each_ref().map(|handle| handle.fom());
    let waits_for = |limit| waits_for(&first.fom_address(), &last.fom_address(), limit);
    let _shared = Waits::attach(shared, &[], &[last]);
    let ended = Waits::attach(first, &[shared], &[]);
    assert!(!waits_for(10), "the wait has ended");
    drop(ended);
    let _by = Waits::attach(by, &[], &[shared]);
    let _first = Waits::attach(first, &[shared], &[by]);
    assert!(waits_for(10), "another wait leads there");
    assert!(!waits_for(2), "two foms are not enough");
}
