//! The events that a fom has been sent and has not taken: in order, until a phase takes them.

use std::{collections::VecDeque, ops::Deref};

use crate::shrink::Shrink as _;
use crate::{error::SendError, fom::Header, sync::Mutex};

/// A fom that takes events of a known type: what can be reached without knowing its operation.
#[repr(C)]
pub(crate) struct Mailed<E> {
    /// First: a pointer to one is a pointer to the other.
    header: Header,
    pub(super) mail: Mail<E>,
}

impl<E> Deref for Mailed<E> {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        &self.header
    }
}

pub(crate) struct Mail<E>(Mutex<Inner<E>>);

struct Inner<E> {
    /// The oldest, so that a fom that is sent one at a time needs no list.
    first: Option<E>,
    #[allow(
        clippy::box_collection,
        reason = "one word in each fom instead of four"
    )]
    more: Option<Box<VecDeque<E>>>,
    closed: bool,
}

impl<E> Inner<E> {
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.as_ref().map_or(0, |more| more.len())
    }

    #[cold]
    fn push_behind(&mut self, event: E, most: usize) -> Result<(), SendError<E>> {
        if self.closed {
            return Err(SendError::Ended(event));
        }
        if self.len() >= most {
            return Err(SendError::Full(event));
        }
        self.more.get_or_insert_default().push_back(event);
        Ok(())
    }

    #[cold]
    fn take_of_many(&mut self, mut takes: impl FnMut(&E) -> bool) -> (Option<E>, bool) {
        let taken = if self.first.as_ref().is_some_and(&mut takes) {
            let next = self.more.as_mut().and_then(|more| {
                more.shrink();
                more.pop_front()
            });
            std::mem::replace(&mut self.first, next)
        } else if let Some(more) = &mut self.more {
            let at = more.iter().position(takes);
            at.and_then(|at| more.remove(at))
        } else {
            None
        };
        (taken, self.first.is_some())
    }
}

impl<E> Mail<E> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Inner {
            first: None,
            more: None,
            closed: false,
        }))
    }

    /// # Errors
    ///
    /// The event, when there are `most` already or the fom has ended.
    #[inline]
    pub(crate) fn push(&self, event: E, most: usize) -> Result<(), SendError<E>> {
        let mut inner = self.0.lock();
        if inner.first.is_none() && !inner.closed && most > 0 {
            inner.first = Some(event);
            return Ok(());
        }
        inner.push_behind(event, most)
    }

    /// The oldest event that `takes`, and whether others are left; those before it stay where they are.
    #[inline]
    pub(crate) fn take(&self, mut takes: impl FnMut(&E) -> bool) -> (Option<E>, bool) {
        let mut inner = self.0.lock();
        let Some(first) = &inner.first else {
            return (None, false);
        };
        if inner.more.as_ref().is_none_or(|more| more.is_empty()) && takes(first) {
            return (inner.first.take(), false);
        }
        inner.take_of_many(takes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Takes no more events. Says how many are left.
    pub(super) fn close(&self) -> usize {
        let mut inner = self.0.lock();
        inner.closed = true;
        inner.len()
    }

    /// Gives those that no phase took.
    pub(super) fn rest(&self) -> Vec<E> {
        let (first, more) = {
            let mut inner = self.0.lock();
            (inner.first.take(), inner.more.take())
        };
        first
            .into_iter()
            .chain(more.into_iter().flat_map(|more| *more))
            .collect()
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    /// SM-06: whatever is taken from the middle, the rest stays in its order.
    #[test]
    fn what_is_not_taken_keeps_its_order() {
        let mail = Mail::new();
        (0..6).for_each(|event| mail.push(event, 6).unwrap());
        assert!(matches!(mail.push(6, 6), Err(SendError::Full(6))));
        assert_eq!(mail.take(|event| *event == 3), (Some(3), true));
        assert_eq!(mail.take(|event| *event == 0), (Some(0), true));
        assert_eq!(mail.take(|event| *event == 9), (None, true));
        mail.push(7, 6).unwrap();
        assert_eq!(mail.take(|event| *event % 2 == 0), (Some(2), true));
        assert_eq!(mail.close(), 4);
        assert!(matches!(mail.push(8, 6), Err(SendError::Ended(8))));
        assert_eq!(mail.rest(), [1, 4, 5, 7]);
    }

    /// What one event leaves behind, with a list beside it and without: who is told that there is nothing does not look again.
    #[test]
    fn it_is_said_whether_events_are_left() {
        let mail = Mail::new();
        for list in [false, true] {
            mail.push(0, 6).unwrap();
            assert_eq!(mail.take(|_| false), (None, true), "{list}");
            assert_eq!(mail.take(|_| true), (Some(0), false), "{list}");
            assert_eq!(mail.take(|_| true), (None, false), "{list}");
            // From the second time on there is a list.
            (1..3).for_each(|event| mail.push(event, 6).unwrap());
            assert_eq!(mail.take(|_| true), (Some(1), true), "{list}");
            assert_eq!(mail.take(|_| true), (Some(2), false), "{list}");
        }
        assert!(matches!(mail.push(0, 0), Err(SendError::Full(0))));
    }
}
