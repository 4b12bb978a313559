//! The foms that wait for one key, by their numbers.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
};

use crate::heap::SMALL;
use fom_protocol::shrink::Shrink as _;

/// The foms that wait, by their numbers.
pub(super) struct Waiting<T> {
    /// Those that came in the order of their numbers. `None`: the fom has given its place up. The first has not.
    line: VecDeque<(u64, Option<One<T>>)>,
    /// How many in the line have given their place up.
    gone: usize,
    /// Those that came behind a higher number: after a restart, or through an outbox. Never empty.
    #[allow(
        clippy::box_collection,
        reason = "hardly any key has one, and each key pays for its size"
    )]
    late: Option<Box<BTreeMap<u64, One<T>>>>,
}

struct One<T> {
    fom: T,
    shares: bool,
}

// The first memory of a line is small, because another thread may free it.
const _: () = assert!(4 * size_of::<(u64, Option<One<usize>>)>() <= SMALL);

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            line: VecDeque::new(),
            gone: 0,
            late: None,
        }
    }
}

impl<T> Waiting<T> {
    pub(super) fn len(&self) -> usize {
        let late = self.late.as_ref().map_or(0, |late| late.len());
        self.line.len() - self.gone + late
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.late.is_none()
    }

    fn late(&self) -> impl Iterator<Item = (u64, &One<T>)> {
        let late = self.late.iter().flat_map(|late| late.iter());
        late.map(|(number, one)| (*number, one))
    }

    /// Returns the foms and their numbers, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let line = self.line.iter();
        let line = line.filter_map(|(number, one)| Some((*number, one.as_ref()?)));
        let (mut line, mut late) = (line.peekable(), self.late().peekable());
        let ordered = iter::from_fn(move || match (line.peek(), late.peek()) {
            (Some((in_line, _)), Some((late_number, _))) if late_number < in_line => late.next(),
            (Some(_), _) => line.next(),
            (None, _) => late.next(),
        });
        ordered.map(|(number, one)| (number, &one.fom))
    }

    /// Counts the foms with a lower number.
    pub(super) fn ahead(&self, number: u64) -> usize {
        self.iter().take_while(|(other, _)| *other < number).count()
    }

    /// Returns the number of the first fom, and whether it shares the key.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        let (number, one) = self.line.front().map_or((u64::MAX, None), |(number, one)| {
            (*number, one.as_ref().map(|one| one.shares))
        });
        match self.late().next() {
            Some((late, one)) if late < number => Some((late, one.shares)),
            _ => Some((number, one?)),
        }
    }

    /// Adds a fom. No fom has this number.
    #[inline]
    pub(super) fn insert(&mut self, number: u64, shares: bool, fom: T) {
        let one = One { fom, shares };
        if self.line.back().is_none_or(|(last, _)| *last < number) {
            self.line.push_back((number, Some(one)));
        } else {
            let late = self.late.get_or_insert_default();
            late.insert(number, one);
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<T> {
        let (number, _) = self.first()?;
        self.remove(number)
    }

    /// Removes the fom with this number.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        if let Some(late) = &mut self.late
            && let Some(one) = late.remove(&number)
        {
            if late.is_empty() {
                self.late = None;
            }
            return Some(one.fom);
        }
        let place = match self.line.front() {
            Some((first, _)) if *first == number => 0,
            _ => self
                .line
                .binary_search_by_key(&number, |(it, _)| *it)
                .ok()?,
        };
        let one = self.line.get_mut(place)?.1.take()?;
        self.gone += 1;
        self.tidy();
        Some(one.fom)
    }

    /// Removes the places at the front that are given up, and all of them when they are the most. So each place costs a
    /// constant time on average.
    fn tidy(&mut self) {
        while self.line.front().is_some_and(|(_, one)| one.is_none()) {
            self.line.pop_front();
            self.gone -= 1;
        }
        if self.gone > self.line.len() / 2 {
            self.line.retain(|(_, one)| one.is_some());
            self.gone = 0;
        }
        self.line.shrink();
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    /// Foms come in any order after a restart, and in the order of their numbers else. Any of them may end. The order is
    /// always that of a tree.
    #[test]
    fn foms_are_in_the_order_of_their_numbers() {
        for (restarts, seed) in [(true, 7), (false, 8)] {
            compare(restarts, seed);
        }
    }

    fn compare(restarts: bool, seed: u64) {
        let mut state: u64 = seed;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let (mut waiting, mut tree) = (Waiting::default(), BTreeMap::new());
        for round in 0..20_000_u64 {
            let (first, number) = match restarts {
                true => (0, random(40)),
                false => (round, round.saturating_sub(random(60))),
            };
            match random(4) {
                0 | 1 => {
                    let number = number.max(first);
                    tree.entry(number).or_insert_with(|| {
                        waiting.insert(number, number % 2 == 0, number);
                        number
                    });
                }
                2 => assert_eq!(waiting.remove(number), tree.remove(&number)),
                _ => assert_eq!(waiting.pop_first(), tree.pop_first().map(|(_, fom)| fom)),
            }
            let first = tree.keys().next().map(|number| (*number, number % 2 == 0));
            assert_eq!(waiting.first(), first);
            assert_eq!(waiting.len(), tree.len());
            assert_eq!(waiting.is_empty(), tree.is_empty());
            assert_eq!(waiting.ahead(number), tree.range(..number).count());
            if round % 16 == 0 {
                let all = tree.iter().map(|(number, fom)| (*number, fom));
                assert!(waiting.iter().eq(all));
            }
        }
    }
}
