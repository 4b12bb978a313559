//! The foms that wait for one key, by their numbers.

use std::collections::{BTreeMap, VecDeque};

use crate::heap::SMALL;

/// The foms that wait, by their numbers. Most keys have few, and a short queue is cheaper than a tree.
pub(super) struct Waiting<T> {
    /// The first of them, at most [`NEAR`].
    near: VecDeque<(u64, One<T>)>,
    /// The others. Their numbers are above those of `near`.
    far: BTreeMap<u64, One<T>>,
}

/// The most foms in the short queue, which is [`SMALL`] then.
const NEAR: usize = 4;

const _: () = assert!(NEAR * size_of::<(u64, One<usize>)>() <= SMALL);

struct One<T> {
    fom: T,
    shares: bool,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            near: VecDeque::new(),
            far: BTreeMap::new(),
        }
    }
}

impl<T> Waiting<T> {
    pub(super) fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Returns the foms and their numbers, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let near = self.near.iter().map(|(number, one)| (*number, &one.fom));
        near.chain(self.far.iter().map(|(number, one)| (*number, &one.fom)))
    }

    /// Counts the foms with a lower number.
    pub(super) fn ahead(&self, number: u64) -> usize {
        self.place(number) + self.far.range(..number).count()
    }

    /// Returns the number of the first fom, and whether it shares the key.
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        self.near.front().map(|(number, one)| (*number, one.shares))
    }

    /// Adds a fom. No fom has this number.
    pub(super) fn insert(&mut self, number: u64, shares: bool, fom: T) {
        let one = One { fom, shares };
        let place = self.place(number);
        if place == NEAR || place == self.near.len() && !self.far.is_empty() {
            self.far.insert(number, one);
            return;
        }
        if self.near.len() == NEAR {
            self.far.extend(self.near.pop_back());
        }
        self.near.insert(place, (number, one));
    }

    pub(super) fn pop_first(&mut self) -> Option<T> {
        let (_, first) = self.near.pop_front()?;
        self.refill();
        Some(first.fom)
    }

    /// Removes the fom with this number.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number);
        let one = match self.near.get(place) {
            Some((near, _)) if *near == number => self.near.remove(place)?.1,
            Some(_) => return None,
            None => return self.far.remove(&number).map(|one| one.fom),
        };
        self.refill();
        Some(one.fom)
    }

    /// Returns the place of this number in the short queue.
    fn place(&self, number: u64) -> usize {
        self.near.partition_point(|(near, _)| *near < number)
    }

    /// Moves foms into an empty short queue, so that the first fom is in it.
    fn refill(&mut self) {
        if !self.near.is_empty() {
            return;
        }
        while self.near.len() < NEAR
            && let Some(first) = self.far.pop_first()
        {
            self.near.push_back(first);
        }
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    /// Foms come in any order after a restart, and any of them may end. The order is always that of a tree.
    #[test]
    fn foms_are_in_the_order_of_their_numbers() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let (mut waiting, mut tree) = (Waiting::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let number = random(40);
            match random(4) {
                0 | 1 => {
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
            assert!(
                waiting
                    .iter()
                    .eq(tree.iter().map(|(number, fom)| (*number, fom)))
            );
        }
    }
}
