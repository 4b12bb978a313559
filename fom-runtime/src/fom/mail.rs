//! The events that a fom has been sent and has not taken: in order, until a phase takes them.

use std::{collections::VecDeque, ops::Deref};

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
    pub(crate) fn push(&self, event: E, most: usize) -> Result<(), SendError<E>> {
        let mut inner = self.0.lock();
        if inner.closed {
            return Err(SendError::Ended(event));
        }
        if inner.len() >= most {
            return Err(SendError::Full(event));
        }
        if inner.first.is_none() {
            inner.first = Some(event);
        } else {
            inner.more.get_or_insert_default().push_back(event);
        }
        Ok(())
    }

    /// The oldest event that `takes`; those before it stay where they are.
    pub(crate) fn take(&self, mut takes: impl FnMut(&E) -> bool) -> Option<E> {
        let mut inner = self.0.lock();
        if takes(inner.first.as_ref()?) {
            let next = inner.more.as_mut().and_then(|more| more.pop_front());
            return std::mem::replace(&mut inner.first, next);
        }
        let more = inner.more.as_mut()?;
        let at = more.iter().position(takes)?;
        more.remove(at)
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
        assert_eq!(mail.take(|event| *event == 3), Some(3));
        assert_eq!(mail.take(|event| *event == 0), Some(0));
        assert_eq!(mail.take(|event| *event == 9), None);
        mail.push(7, 6).unwrap();
        assert_eq!(mail.take(|event| *event % 2 == 0), Some(2));
        assert_eq!(mail.close(), 4);
        assert!(matches!(mail.push(8, 6), Err(SendError::Ended(8))));
        assert_eq!(mail.rest(), [1, 4, 5, 7]);
    }
}
