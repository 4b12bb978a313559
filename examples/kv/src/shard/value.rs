//! What a key holds.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

/// What a key holds, and until when: milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) expires: Option<u64>,
}

/// One of the kinds of values.
#[derive(Debug)]
pub(crate) enum Value {
    /// Bytes of its own, never a slice of what was read from a socket: that would keep the whole buffer.
    Text(Bytes),
    List(List),
}

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A list whose elements have places that stay as they are when others come and go at the ends: so that each can be saved by
/// itself.
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

    /// The places of all elements.
    pub(crate) fn places(&self) -> Range<i64> {
        self.first..self.first + self.items.len() as i64
    }

    /// Puts an element to an end. Its place.
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

    /// Takes the element at an end, and its place.
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

    /// An element that was saved. They come in the order of their places.
    pub(crate) fn restore(&mut self, at: i64, value: Bytes) {
        if self.items.is_empty() {
            self.first = at;
        }
        self.items.push_back(value);
    }
}
