use std::num::NonZeroU32;

use super::*;

/// A section is opened while the watcher leaves: the watcher sees it or is woken for it, and finds the core in the
/// slot.
///
/// Seeded: the number is shown before the core is in the slot: the core was not found. A `leave` that stores its mark:
/// the watcher was not woken.
#[test]
fn a_section_against_a_watcher_that_leaves() {
    model(|| {
        let (first, second) = (NonZeroU32::MIN, NonZeroU32::new(2).unwrap());
        let watched = Arc::new(Watched::new());
        let slot = Arc::new(HandoffSlot::new());
        let bell = Arc::new(Notify::new());
        assert!(watched.open(first), "the watcher has not looked yet");
        let watcher = thread::spawn({
            let (watched, slot, bell) =
                (Arc::clone(&watched), Arc::clone(&slot), Arc::clone(&bell));
            move || {
                if watched.leave(Some(first)) {
                    bell.wait();
                }
                assert_eq!(watched.last(), Some(second));
                assert!(slot.is_laid());
            }
        });
        slot.put(Box::new(7));
        if watched.open(second) {
            bell.notify();
        }
        watcher.join().unwrap();
        assert_eq!(slot.take().as_deref(), Some(&7));
    });
}
