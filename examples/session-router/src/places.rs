//! How much each source may hold at a time, so that no source takes everything.
//!
//! A call holds a place from its INVITE until its last straggler, however long it talks. A user with bindings holds a
//! place until the last binding expires. The source of the INVITE or of the REGISTER pays for the place.
//!
//! The share of a source counts the places that it holds and those that are free. With a share of 50 percent, one
//! greedy source gets half of all places, and a later one gets half of the rest. So two sources cannot take all places.
//! When places come back, the source that holds the most waits the longest.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::sources::Source;

/// The places of one kind. A source without a place takes no memory, so the table has at most one entry for each place.
pub(crate) struct Places {
    /// The number of places.
    most: usize,
    /// A percentage of the places that a source holds plus those that are free.
    share: u32,
    held: Mutex<Held>,
    /// Notified when the last place comes back.
    none: Notify,
}

#[derive(Default)]
struct Held {
    all: usize,
    of: HashMap<Source, usize>,
}

impl Places {
    /// Creates `most` places. `share` is the limit of one source, in percent of its own places plus those that are
    /// free.
    pub(crate) fn new(most: usize, share: u32) -> Places {
        Places {
            most,
            share,
            held: Mutex::default(),
            none: Notify::new(),
        }
    }

    /// Takes a place for `source`. Returns `None` if no place is free, or if the source holds its share.
    pub(crate) fn take(self: &Arc<Places>, source: Source) -> Option<Place> {
        let mut held = self.held();
        let own = held.of.get(&source).copied().unwrap_or(0);
        let free = self.most.saturating_sub(held.all);
        let share = (own + free) as u128 * u128::from(self.share);
        if free == 0 || own as u128 * 100 >= share {
            return None;
        }
        held.add(source);
        Some(Place(Some((Arc::clone(self), source))))
    }

    /// Takes a place for a call or a user that comes back after a restart, also beyond the share.
    pub(crate) fn keep(self: &Arc<Places>, source: Source) -> Place {
        self.held().add(source);
        Place(Some((Arc::clone(self), source)))
    }

    /// Returns how many places calls or users hold.
    pub(crate) fn number(&self) -> usize {
        self.held().all
    }

    /// Returns whether this source holds a place.
    pub(crate) fn holds(&self, source: Source) -> bool {
        self.held().of.contains_key(&source)
    }

    /// Resolves when all places are free.
    pub(crate) async fn none(&self) {
        loop {
            let told = self.none.notified();
            if self.number() == 0 {
                return;
            }
            told.await;
        }
    }

    fn give_back(&self, source: Source) {
        let mut held = self.held();
        held.all -= 1;
        if let Some(own) = held.of.get_mut(&source) {
            *own -= 1;
            if *own == 0 {
                held.of.remove(&source);
            }
        }
        let none = held.all == 0;
        drop(held);
        if none {
            self.none.notify_waiters();
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn add(&mut self, source: Source) {
        self.all += 1;
        *self.of.entry(source).or_default() += 1;
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places")
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// A place. Drop returns it. The default holds none.
#[derive(Default)]
pub struct Place(Option<(Arc<Places>, Source)>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((places, source)) = self.0.take() {
            places.give_back(source);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place")
            .field(&self.0.as_ref().map(|(_, source)| source))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Source = Source::V4(1);

    fn places(most: usize, share: u32) -> Arc<Places> {
        Arc::new(Places::new(most, share))
    }

    fn all(places: &Arc<Places>, source: Source) -> Vec<Place> {
        std::iter::from_fn(|| places.take(source)).collect()
    }

    #[test]
    fn one_source_gets_its_share_and_never_all() {
        for (share, got) in [(50, 500), (99, 990), (1, 10)] {
            assert_eq!(all(&places(1_000, share), GREEDY).len(), got);
        }
    }

    #[test]
    fn several_greedy_sources_leave_room_for_another() {
        let places = places(1_000, 50);
        let held: Vec<_> = (10..17)
            .map(|greedy| all(&places, Source::V4(greedy)))
            .collect();
        let got: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(got, [500, 250, 125, 63, 31, 16, 8]);
        assert_eq!(all(&places, GREEDY).len(), 4);
    }

    #[test]
    fn places_that_come_back_go_to_those_that_hold_few() {
        let places = places(1_000, 50);
        let mut first = all(&places, GREEDY);
        let second = all(&places, Source::V4(2));
        assert_eq!((first.len(), second.len()), (500, 250));
        first.truncate(400);
        assert!(places.take(GREEDY).is_none());
        assert!(places.take(Source::V4(2)).is_some());
    }

    #[test]
    fn a_source_without_a_place_takes_no_memory() {
        let places = places(10, 50);
        let held = all(&places, GREEDY);
        assert!(places.holds(GREEDY));
        drop(held);
        assert!(!places.holds(GREEDY));
        assert_eq!((places.number(), places.held().of.len()), (0, 0));
    }

    #[test]
    fn what_comes_back_after_a_restart_counts() {
        let places = places(10, 50);
        let _back: Vec<Place> = (0..5).map(|_| places.keep(GREEDY)).collect();
        assert!(places.take(GREEDY).is_none());
        assert!(places.take(Source::V4(2)).is_some());
    }
}
