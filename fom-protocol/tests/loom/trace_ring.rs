use super::*;

/// Returns an entry with this number. All its words differ, and all say the number.
fn entry(number: u64) -> [u64; 4] {
    [number, number + 100, number + 200, number + 300]
}

/// A reader beside the writer gets whole entries, in order and without a gap, up to one of the newest. It counts the
/// others. The writer laps the ring meanwhile.
///
/// Seeded: without the fence of `push` or of `read`, an entry was mixed of two. With `Relaxed` for the last store of
/// `push`, an entry was still empty. With a window of all slots, an entry was mixed of two.
#[test]
fn a_reader_against_the_writer() {
    model(|| {
        let ring = Arc::new(TraceRing::new(2));
        ring.push(entry(0));
        let reader = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.read()
        });
        ring.push(entry(1));
        ring.push(entry(2));
        let traced = reader.join().unwrap();

        for (number, read) in (traced.first..).zip(&traced.entries) {
            assert_eq!(*read, entry(number));
        }
        let read = traced.entries.len() as u64 + traced.overwritten;
        assert_eq!(read, 1, "a ring of two slots shows one entry");
        let after = ring.read();
        assert_eq!((after.first, after.overwritten), (2, 0));
        assert_eq!(after.entries, [entry(2)]);
    });
}

/// The ring is written by one thread after the other. Each makes its entries visible to the next, as the core of a
/// locality is handed over.
///
/// Seeded: without the fence of `push` or of `read`, or with a window of all slots, an entry was mixed of two.
#[test]
fn a_reader_against_two_writers_in_turn() {
    model(|| {
        let ring = Arc::new(TraceRing::new(2));
        let slot = Arc::new(HandoffSlot::new());
        let second = thread::spawn({
            let (ring, slot) = (Arc::clone(&ring), Arc::clone(&slot));
            move || {
                if slot.take().is_some() {
                    ring.push(entry(1));
                    ring.push(entry(2));
                }
            }
        });
        ring.push(entry(0));
        slot.put(Box::new(()));
        let traced = ring.read();
        for (number, read) in (traced.first..).zip(&traced.entries) {
            assert_eq!(*read, entry(number));
        }
        second.join().unwrap();
    });
}
