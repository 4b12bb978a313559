//! The numbers of the calls of one caller to one slot. With each call the caller says which of them are done, so the owner knows what is
//! never repeated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A set of numbers, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ranges(
    /// The first number of each range, and the number behind its last one.
    BTreeMap<u64, u64>,
);

impl Ranges {
    pub(crate) fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, end)| number < *end)
    }

    pub(crate) fn insert(&mut self, number: u64) {
        self.insert_range(number, number.saturating_add(1));
    }

    /// Adds all numbers of the other set.
    pub(crate) fn add(&mut self, other: &Self) {
        for (first, end) in &other.0 {
            self.insert_range(*first, *end);
        }
    }

    fn insert_range(&mut self, mut first: u64, mut end: u64) {
        if first >= end {
            return;
        }
        // Ranges that meet become one.
        while let Some((&other, &its_end)) = self.0.range(..=end).next_back() {
            if its_end < first {
                break;
            }
            self.0.remove(&other);
            first = first.min(other);
            end = end.max(its_end);
        }
        self.0.insert(first, end);
    }
}

/// What a caller knows of its calls to one slot.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    next: u64,
    done: Ranges,
}

impl Numbers {
    /// Returns the number of a new call, and which calls are done.
    pub(crate) fn begin(&mut self) -> (u64, Ranges) {
        let number = self.next;
        self.next += 1;
        (number, self.done.clone())
    }

    /// Returns which calls are done.
    pub(crate) fn all_done(&self) -> Ranges {
        self.done.clone()
    }

    /// Notes that the caller does not repeat this call any more.
    pub(crate) fn done(&mut self, number: u64) {
        self.done.insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_set_of_what_was_inserted() {
        let mut ranges = Ranges::default();
        let mut set = std::collections::BTreeSet::new();
        let mut random = 7u64;
        for _ in 0..3000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            let number = random >> 57;
            ranges.insert(number);
            set.insert(number);
            for probe in 0..130 {
                assert_eq!(ranges.contains(probe), set.contains(&probe), "{probe}");
            }
        }
        assert_eq!(ranges.0, BTreeMap::from([(0, 128)]));
    }

    /// What a caller sends with each call stays small: a range for each gap, and a gap is a call that is not done.
    #[test]
    fn the_calls_that_are_done_are_few_ranges() {
        let mut numbers = Numbers::default();
        for _ in 0..1000 {
            let (number, _) = numbers.begin();
            if number != 10 {
                numbers.done(number);
            }
        }
        assert_eq!(numbers.begin().1.0, BTreeMap::from([(0, 10), (11, 1000)]));
    }

    /// Hostile ranges are no numbers.
    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let mut ranges = Ranges::default();
        ranges.add(&Ranges(BTreeMap::from([(7, 3), (u64::MAX, u64::MAX)])));
        assert!(!ranges.contains(5) && !ranges.contains(u64::MAX));
        assert_eq!(ranges, Ranges::default());
    }
}
