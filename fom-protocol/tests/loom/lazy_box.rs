//! A box that is made on demand, as `fom-runtime/src/fom/cold.rs` has them.

use super::*;

struct Made {
    by: usize,
    /// Written by the maker just before the box is there, read by all: loom reports it when the two are not ordered.
    content: UnsafeCell<usize>,
    /// Counts the boxes that have not been dropped.
    _alive: Arc<()>,
}

// SAFETY: no thread writes `content` once the value is there; the models check this.
unsafe impl Sync for Made {}
// SAFETY: as above.
unsafe impl Send for Made {}

impl Made {
    fn new(by: usize, alive: &Arc<()>) -> Box<Self> {
        let made = Box::new(Self {
            by,
            content: UnsafeCell::new(0),
            _alive: Arc::clone(alive),
        });
        // SAFETY: no other thread has the box.
        made.content.with_mut(|content| unsafe { *content = by });
        made
    }

    /// Returns the maker, and checks that the content is that of the maker.
    fn by(&self) -> usize {
        // SAFETY: see the impl of `Sync`.
        assert_eq!(self.content.with(|content| unsafe { *content }), self.by);
        self.by
    }
}

/// Two threads make a value, and a third one reads: all see the same, and the other box is dropped.
#[test]
fn all_threads_see_one_value() {
    model(|| {
        let alive = Arc::new(());
        let lazy = Arc::new(LazyBox::default());
        let makers: Vec<_> = (1..=2)
            .map(|by| {
                let (lazy, alive) = (Arc::clone(&lazy), Arc::clone(&alive));
                thread::spawn(move || lazy.or(Made::new(by, &alive)).by())
            })
            .collect();
        let seen = lazy.get().map(Made::by);
        let made: Vec<_> = makers.into_iter().map(|it| it.join().unwrap()).collect();
        assert_eq!(made[0], made[1]);
        assert!(seen.is_none_or(|by| by == made[0]));
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(lazy);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

/// The memory of a fom is used again: the state of the last fom is freed, and the next one makes its own.
#[test]
fn a_freed_box_is_made_again() {
    model(|| {
        let alive = Arc::new(());
        let lazy = Arc::new(LazyBox::default());
        let other = {
            let (lazy, alive) = (Arc::clone(&lazy), Arc::clone(&alive));
            thread::spawn(move || lazy.or(Made::new(1, &alive)).by())
        };
        assert_eq!(other.join().unwrap(), 1);
        // SAFETY: the other thread has ended, and no reference is left.
        unsafe { lazy.free() };
        assert!(lazy.get().is_none());
        assert_eq!(Arc::strong_count(&alive), 1);
        lazy.reset(Some(Made::new(2, &alive)));
        assert_eq!(lazy.get().map(Made::by), Some(2));
        drop(lazy);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}
