//! Two foms begin to wait for each other at once, as in `waits_for` of `fom-runtime/src/runtime/observe/deadlocks.rs`.

use loom::sync::atomic::{AtomicBool, fence};

use super::*;

/// A fom whose waits are in a state that is made on demand.
struct Fom {
    /// Whether the state is there.
    cold: AtomicBool,
    waits: Mutex<bool>,
}

impl Fom {
    fn new() -> Self {
        Self {
            cold: AtomicBool::new(false),
            waits: Mutex::new(false),
        }
    }

    /// Makes the wait known.
    fn begin(&self) {
        let _ = self
            .cold
            .compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        *self.waits.lock().unwrap() = true;
    }

    /// The look at a fom that is without this state takes no lock.
    fn waits(&self) -> bool {
        self.cold.load(Ordering::Acquire) && *self.waits.lock().unwrap()
    }

    /// Begins to wait for the other fom. Returns whether that fom waits for this one.
    fn closes_cycle(&self, other: &Self) -> bool {
        self.begin();
        fence(Ordering::SeqCst);
        other.waits()
    }
}

/// At least one of the two foms sees the cycle.
///
/// Seeded: no fence before the look: both missed it.
#[test]
fn two_foms_wait_for_each_other() {
    model(|| {
        let foms = Arc::new([Fom::new(), Fom::new()]);
        let first = thread::spawn({
            let foms = Arc::clone(&foms);
            move || foms[0].closes_cycle(&foms[1])
        });
        let second = foms[1].closes_cycle(&foms[0]);
        assert!(first.join().unwrap() || second);
    });
}
