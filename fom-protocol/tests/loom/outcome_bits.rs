//! The outcome of one fom, as `run/fom.rs`, `fom/outcome.rs` and `typed/outcome.rs` of `fom-runtime/src` store, abandon and take it.

use super::*;

/// One outcome: written by the runner, and dropped once by its owner.
struct Fom {
    marks: OutcomeBits,
    body: UnsafeCell<Option<Arc<()>>>,
    /// The waker of the handle and of callers that wait for phases.
    waker: Mutex<Option<Arc<Notify>>>,
}

// SAFETY: only the side to which the marks leave `body` touches it; the model checks that these accesses are ordered.
unsafe impl Sync for Fom {}
// SAFETY: as above.
unsafe impl Send for Fom {}

impl Fom {
    fn new(wanted: bool) -> Arc<Self> {
        let fom = Self {
            marks: OutcomeBits::default(),
            body: UnsafeCell::new(None),
            waker: Mutex::new(None),
        };
        fom.marks.reset(wanted);
        Arc::new(fom)
    }

    fn set_body(&self, body: Option<Arc<()>>) -> Option<Arc<()>> {
        // SAFETY: see the impl of `Sync`.
        self.body
            .with_mut(|place| std::mem::replace(unsafe { &mut *place }, body))
    }

    fn tell(&self) {
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.notify();
        }
    }

    /// The runner's end.
    fn end(&self, outcome: Arc<()>) {
        self.set_body(Some(outcome));
        let answered = self.marks.answer(true, false);
        if answered.watched {
            self.tell();
        }
        if !answered.wanted {
            assert!(self.set_body(None).is_some());
        }
    }

    fn abandon(&self) {
        if self.marks.abandon() == Some(true) {
            self.tell();
        }
    }

    /// One poll of the handle: returns the outcome, or that there is none.
    fn poll(&self, waker: &Arc<Notify>) -> Option<Option<Arc<()>>> {
        if !self.marks.is_answered() {
            *self.waker.lock().unwrap() = Some(Arc::clone(waker));
            if !self.marks.watch() {
                return None;
            }
        }
        Some(match self.marks.take() {
            Taken::Outcome => Some(self.set_body(None).expect("left to the handle")),
            Taken::Abandoned => None,
        })
    }

    fn wait(&self) -> Option<Arc<()>> {
        let waker = Arc::new(Notify::new());
        loop {
            if let Some(answer) = self.poll(&waker) {
                return answer;
            }
            waker.wait();
        }
    }

    fn detach(&self) {
        match self.marks.detach() {
            Detached::Outcome => assert!(self.set_body(None).is_some()),
            Detached::Waker => drop(self.waker.lock().unwrap().take()),
            Detached::Nothing => {}
        }
    }
}

/// The handle waits: it gets the outcome, and goes.
///
/// Seeded: an `answer` that loads and stores instead of one step: deadlock. `Relaxed` for that step: loom saw the
/// handle race for the body. A handle that waits without another look: deadlock.
#[test]
fn the_handle_waits() {
    model(|| {
        let fom = Fom::new(true);
        let outcome = Arc::new(());
        let runner = thread::spawn({
            let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
            move || fom.end(outcome)
        });
        let got = fom.wait().expect("the fom was not abandoned");
        fom.detach();
        runner.join().unwrap();
        assert!(Arc::ptr_eq(&got, &outcome));
        drop(got);
        assert_eq!(Arc::strong_count(&outcome), 1);
    });
}

/// The handle looks once and goes: one of the two drops the outcome, before both are through.
///
/// Seeded: a `detach` that does not check whether the outcome was left to it: the outcome was never dropped. The same
/// for an `answer` that leaves the outcome to a dropped handle.
#[test]
fn the_handle_goes() {
    model(|| {
        let fom = Fom::new(true);
        let outcome = Arc::new(());
        let runner = thread::spawn({
            let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
            move || fom.end(outcome)
        });
        drop(fom.poll(&Arc::new(Notify::new())));
        fom.detach();
        runner.join().unwrap();
        assert_eq!(Arc::strong_count(&outcome), 1);
        assert!(fom.waker.lock().unwrap().is_none(), "no waker is kept");
    });
}

/// A shutdown gives up on the fom while it ends and the handle waits. The handle is told once, and an earlier outcome
/// is not taken back.
///
/// Seeded: an `abandon` that sets its mark although there is an answer: the handle was told of a failure, and the
/// outcome stayed.
#[test]
fn given_up_on() {
    model(|| {
        let fom = Fom::new(true);
        let outcome = Arc::new(());
        let runner = thread::spawn({
            let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
            move || fom.end(outcome)
        });
        let shutdown = thread::spawn({
            let fom = Arc::clone(&fom);
            move || fom.abandon()
        });
        let got = fom.wait();
        fom.detach();
        runner.join().unwrap();
        shutdown.join().unwrap();
        drop(got);
        assert_eq!(Arc::strong_count(&outcome), 1);
    });
}

/// Another waiter waits for the end, beside a handle that goes: the waiter is told, by the fom or at once.
///
/// Seeded: an `observe` that does not look whether there is an answer (deadlock).
#[test]
fn watched_by_another() {
    model(|| {
        let fom = Fom::new(true);
        let outcome = Arc::new(());
        let runner = thread::spawn({
            let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
            move || fom.end(outcome)
        });
        let handle = thread::spawn({
            let fom = Arc::clone(&fom);
            move || match fom.marks.detach() {
                Detached::Outcome => assert!(fom.set_body(None).is_some()),
                // The waker in this model belongs to the other waiter.
                Detached::Waker | Detached::Nothing => {}
            }
        });
        let waker = Arc::new(Notify::new());
        *fom.waker.lock().unwrap() = Some(Arc::clone(&waker));
        match fom.marks.observe() {
            Some(in_phase) => assert!(in_phase),
            None => waker.wait(),
        }
        runner.join().unwrap();
        handle.join().unwrap();
        assert_eq!(Arc::strong_count(&outcome), 1);
    });
}
