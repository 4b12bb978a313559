//! The value of a key.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

/// The value of a key, and its expiry in milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) expires: Option<u64>,
}

/// One of the kinds of values.
#[derive(Debug)]
pub(crate) enum Value {
    /// A string in its own bytes, never a slice of a socket's buffer: a slice would keep the whole buffer.
    Text(Bytes),
    List(List),
}

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A list. Its elements keep their places while others come and go at the ends, so each element can be saved on its
/// own.
#[derive(Debug, Default)]
pub(crate) struct List {
    items: VecDeque<Bytes>,
    first: i64,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Bytes> {
        self.items.get(index)
    }

    pub(crate) fn range(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = &Bytes> {
        self.items.range(range)
    }

    /// Returns the places of all elements.
    pub(crate) fn places(&self) -> Range<i64> {
        self.first..self.first + self.items.len() as i64
    }

    /// Adds an element at an end. Returns its place.
    pub(crate) fn push(&mut self, side: Side, value: Bytes) -> i64 {
        match side {
            Side::Left => {
                self.items.push_front(value);
                self.first -= 1;
                self.first
            }
            Side::Right => {
                self.items.push_back(value);
                self.places().end - 1
            }
        }
    }

    /// Removes the element at an end. Returns it with its place.
    pub(crate) fn pop(&mut self, side: Side) -> Option<(i64, Bytes)> {
        match side {
            Side::Left => {
                let value = self.items.pop_front()?;
                self.first += 1;
                Some((self.first - 1, value))
            }
            Side::Right => {
                let value = self.items.pop_back()?;
                Some((self.places().end, value))
            }
        }
    }

    /// Adds a saved element. Elements come in the order of their places.
    pub(crate) fn restore(&mut self, at: i64, value: Bytes) {
        if self.items.is_empty() {
            self.first = at;
        }
        self.items.push_back(value);
    }
}
