use super::*;

use fom_protocol::{count, sync::atomic::AtomicU64};

/// Foms enter a phase in one locality, are moved, and leave it in another. A reader that looks at those that left first
/// sees no more of them than came in.
///
/// Seeded: `count` stores with `Relaxed`: one had left, and none had come.
#[test]
fn no_more_foms_leave_a_phase_than_came_in() {
    model(|| {
        let [came, left] = [0; 2].map(|zero| Arc::new(AtomicU64::new(zero)));
        let moved = Arc::new(AtomicUsize::new(0));
        let home = thread::spawn({
            let (came, moved) = (Arc::clone(&came), Arc::clone(&moved));
            move || {
                for fom in 1..=2 {
                    count(&came, 1);
                    moved.store(fom, Ordering::Release);
                }
            }
        });
        let other = thread::spawn({
            let (left, moved) = (Arc::clone(&left), Arc::clone(&moved));
            move || count(&left, moved.load(Ordering::Acquire) as u64)
        });
        let reader = thread::spawn({
            let (came, left) = (Arc::clone(&came), Arc::clone(&left));
            move || {
                let left = left.load(Ordering::Acquire);
                let came = came.load(Ordering::Acquire);
                assert!(left <= came, "{left} left, {came} came");
            }
        });
        home.join().unwrap();
        other.join().unwrap();
        reader.join().unwrap();
        assert_eq!(came.load(Ordering::Acquire), 2);
    });
}
