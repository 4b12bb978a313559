//! How much a node takes on: requests that it serves at once, and operations in flight.

use std::sync::atomic::{AtomicUsize, Ordering};

use fom_protocol::sync::Mutex;

/// The most requests that a node serves at once. Waits for the end of an operation do not count.
const WINDOW: usize = 1024;

/// The room of a node for what its callers want.
pub(crate) struct Room {
    serving: AtomicUsize,
    /// The most operations in flight, in all slots together.
    capacity: usize,
    /// How many operations can start before those in flight are counted again.
    left: Mutex<usize>,
}

impl Room {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            serving: AtomicUsize::new(0),
            capacity,
            left: Mutex::default(),
        }
    }

    /// Notes that a request is served until [`leave`](Self::leave). Returns whether there is room for it.
    pub(crate) fn enter(&self) -> bool {
        self.serving.fetch_add(1, Ordering::AcqRel) < WINDOW
    }

    /// Notes the end of a request, also of one without room.
    pub(crate) fn leave(&self) {
        self.serving.fetch_sub(1, Ordering::AcqRel);
    }

    /// Takes the room for one more operation. Returns whether there was some.
    pub(crate) fn take(&self, in_flight: impl FnOnce() -> usize) -> bool {
        if self.capacity == usize::MAX {
            return true;
        }
        let mut left = self.left.lock();
        if *left == 0 {
            *left = self.capacity.saturating_sub(in_flight());
        }
        let has_room = *left > 0;
        *left -= usize::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_when_the_room_may_be_used_up() {
        let room = Room::new(3);
        let take = |in_flight| room.take(|| in_flight);
        assert_eq!([0, 9, 9].map(take), [true; 3], "counted once");
        assert!(!take(3) && !take(4));
        assert!(take(2));
        assert!(!take(3));
        assert!((0..9).all(|_| Room::new(usize::MAX).take(|| 7)));
    }
}
