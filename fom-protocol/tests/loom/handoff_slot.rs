use super::*;

/// Of two takers one gets the box, with all that was written to it; the other gets nothing.
///
/// Seeded: `Relaxed` for the swaps: loom saw the taker race for the content.
#[test]
fn two_takers() {
    model(|| {
        let slot = Arc::new(HandoffSlot::new());
        let content = Box::new(UnsafeCell::new(0));
        let takers = [0, 1].map(|_| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                slot.take().map(|content: Box<UnsafeCell<usize>>| {
                    // SAFETY: the holder of the box is alone with it.
                    content.with(|content| unsafe { *content })
                })
            })
        });
        // SAFETY: as above.
        content.with_mut(|content| unsafe { *content = 7 });
        assert!(slot.put(content).is_none());
        let mut taken: Vec<_> = takers
            .into_iter()
            .filter_map(|taker| taker.join().unwrap())
            .collect();
        taken.extend(
            slot.take()
                // SAFETY: as above.
                .map(|content| content.with(|content| unsafe { *content })),
        );
        assert_eq!(taken, [7]);
    });
}

#[test]
fn put_gives_back_and_drop_frees() {
    model(|| {
        let slot = HandoffSlot::new();
        let one = Arc::new(());
        assert!(slot.put(Box::new(Arc::clone(&one))).is_none());
        assert!(slot.put(Box::new(Arc::clone(&one))).is_some());
        assert_eq!(Arc::strong_count(&one), 2);
        drop(slot);
        assert_eq!(Arc::strong_count(&one), 1);
    });
}
