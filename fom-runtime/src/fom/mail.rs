//! The events that were sent to a fom and not taken yet. They stay in order until a phase takes them.

use std::{collections::VecDeque, fmt, marker::PhantomData, ops::Deref};

use crate::{
    fom::{AnyRef, Header, SendError},
    step_key::EventId,
};
use fom_protocol::{
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard},
};

/// A fom that takes events of a known type. It can be used without knowing its operation.
#[repr(C)]
pub(crate) struct Mailed<E> {
    /// First: a pointer to the fom is a pointer to the header.
    header: Header,
    pub(crate) mail: Mail<E>,
}

impl<E> Deref for Mailed<E> {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        &self.header
    }
}

/// A counted reference to a fom that takes events of type `E`.
pub(crate) struct MailRef<E>(AnyRef, PhantomData<fn(E)>);

impl<E> MailRef<E> {
    pub(crate) fn of(fom: &Mailed<E>) -> Self {
        Self(AnyRef::of(fom), PhantomData)
    }
}

impl<E> Clone for MailRef<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<E> Deref for MailRef<E> {
    type Target = Mailed<E>;

    #[inline]
    fn deref(&self) -> &Mailed<E> {
        // SAFETY: this was made for a fom with events of type `E`, and such a fom begins with a `Mailed<E>`.
        unsafe { self.0.as_ptr().cast().as_ref() }
    }
}

/// A fom while a function of its phase runs. Generated code makes the context of that function from it.
#[doc(hidden)]
pub struct RunningFom<'fom, E>(&'fom Mailed<E>);

impl<'fom, E> RunningFom<'fom, E> {
    #[inline(always)]
    pub(crate) fn new(fom: &'fom Mailed<E>) -> Self {
        Self(fom)
    }

    #[inline(always)]
    pub(crate) fn get(self) -> &'fom Mailed<E> {
        self.0
    }
}

impl<E> Clone for RunningFom<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for RunningFom<'_, E> {}

impl<E> fmt::Debug for RunningFom<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningFom({})", self.0.id())
    }
}

/// The most events that a mailbox keeps, and whether sends are recorded. Both are in one number, so that one comparison
/// covers both: the number is negative if sends are recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MailLimit(isize);

impl MailLimit {
    pub(crate) fn new(most: usize, is_recorded: bool) -> Self {
        let most = isize::try_from(most).unwrap_or(isize::MAX);
        Self(if is_recorded { -most } else { most })
    }

    /// Returns whether an event fits into an empty mailbox, and nothing else is to do.
    #[inline(always)]
    fn is_plain(self) -> bool {
        self.0 > 0
    }

    pub(crate) fn is_recorded(self) -> bool {
        self.0 < 0
    }

    fn most(self) -> usize {
        self.0.unsigned_abs()
    }
}

pub(crate) struct Mail<E>(Mutex<Inner<E>>);

struct Inner<E> {
    /// The oldest event, so that a fom with one event at a time needs no list. `None` if events have ids.
    first: Option<E>,
    /// Boxed so that it takes one word in each fom.
    more: Option<Box<More<E>>>,
    /// Both flags in one byte, so that one test covers both.
    flags: u8,
}

/// The mailbox takes no more events.
const CLOSED: u8 = 1;
/// Events have ids: the fom is kept in a journal, or an event was sent with an id.
const NAMED: u8 = 1 << 1;

enum More<E> {
    /// The events behind the first.
    Behind(VecDeque<E>),
    /// All events, each with its id.
    Named(VecDeque<(Option<EventId>, E)>),
}

/// An event that was taken, with its id if it has one, and whether more events are left.
type Taken<E> = (Option<(Option<EventId>, E)>, bool);

impl<E> More<E> {
    fn len(&self) -> usize {
        match self {
            Self::Behind(events) => events.len(),
            Self::Named(events) => events.len(),
        }
    }
}

impl<E> Inner<E> {
    #[inline]
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.as_ref().map_or(0, |more| more.len())
    }

    /// Adds an event behind the others. `id` returns the event's id, and is called only if events have ids.
    fn push_behind(
        &mut self,
        event: E,
        id: impl FnOnce() -> Option<EventId>,
        most: usize,
    ) -> Result<(), SendError<E>> {
        if self.is(CLOSED) {
            return Err(SendError::Ended(event));
        }
        if self.len() >= most {
            return Err(SendError::Full(event));
        }
        let named = self.is(NAMED);
        let more = self.more.get_or_insert_with(|| {
            Box::new(match named {
                // Room for one event: the list lives as long as the fom, and there may be very many foms.
                true => More::Named(VecDeque::with_capacity(1)),
                false => More::Behind(VecDeque::new()),
            })
        });
        match &mut **more {
            More::Behind(events) => events.push_back(event),
            More::Named(events) => events.push_back((id(), event)),
        }
        Ok(())
    }

    /// Gives events ids from now on.
    fn name(&mut self) {
        if !self.is(NAMED) {
            self.flags |= NAMED;
            let first = self.first.take();
            let behind = match self.more.take().map(|more| *more) {
                Some(More::Behind(events)) => events,
                _ => VecDeque::new(),
            };
            let all = first.into_iter().chain(behind);
            self.more = Some(Box::new(More::Named(
                all.map(|event| (None, event)).collect(),
            )));
        }
    }

    fn take_of_many(&mut self, mut takes: impl FnMut(&E) -> bool) -> Taken<E> {
        match self.more.as_deref_mut() {
            Some(More::Named(events)) => {
                let at = events.iter().position(|(_, event)| takes(event));
                let taken = at.and_then(|at| events.remove(at));
                events.shrink();
                (taken, !events.is_empty())
            }
            Some(More::Behind(behind)) => {
                behind.shrink();
                let taken = if self.first.as_ref().is_some_and(&mut takes) {
                    std::mem::replace(&mut self.first, behind.pop_front())
                } else {
                    let at = behind.iter().position(takes);
                    at.and_then(|at| behind.remove(at))
                };
                (taken.map(|event| (None, event)), self.first.is_some())
            }
            None => (None, self.first.is_some()),
        }
    }
}

impl<E> Mail<E> {
    /// Creates a mailbox. `named`: events have ids from the beginning.
    #[inline]
    pub(crate) fn new(named: bool) -> Self {
        Self(Mutex::new(Inner {
            first: None,
            more: None,
            flags: if named { NAMED } else { 0 },
        }))
    }

    /// Puts an event into the mailbox. `id` is called only if events have ids, and `sent` only if sends are recorded.
    ///
    /// # Errors
    ///
    /// Returns the event if the mailbox already has `most` events, or if the fom has ended.
    #[inline]
    pub(crate) fn push(
        &self,
        event: E,
        id: impl FnOnce() -> Option<EventId>,
        limit: MailLimit,
        sent: impl FnOnce(),
    ) -> Result<(), SendError<E>> {
        let mut inner = self.0.lock();
        if inner.first.is_none() && inner.flags == 0 && limit.is_plain() {
            inner.first = Some(event);
            return Ok(());
        }
        Self::push_further(inner, event, id, limit, sent)
    }

    /// A separate function, so that foms with one event at a time do not pay for it.
    #[cold]
    #[inline(never)]
    fn push_further(
        mut inner: MutexGuard<'_, Inner<E>>,
        event: E,
        id: impl FnOnce() -> Option<EventId>,
        limit: MailLimit,
        sent: impl FnOnce(),
    ) -> Result<(), SendError<E>> {
        if limit.is_recorded() && inner.first.is_none() && inner.flags == 0 {
            inner.first = Some(event);
        } else {
            inner.push_behind(event, id, limit.most())?;
        }
        drop(inner);
        if limit.is_recorded() {
            sent();
        }
        Ok(())
    }

    /// Like [`push`](Self::push), for an event that was sent with an id.
    #[cold]
    pub(crate) fn push_named(
        &self,
        event: E,
        id: EventId,
        limit: MailLimit,
    ) -> Result<(), SendError<E>> {
        let mut inner = self.0.lock();
        inner.name();
        inner.push_behind(event, || Some(id), limit.most())
    }

    /// Takes the oldest event that `takes` accepts. Returns the event, and whether more events are left. Earlier
    /// events stay. `told` is called with the event's id if events have ids.
    #[inline(always)]
    pub(crate) fn take(
        &self,
        mut takes: impl FnMut(&E) -> bool,
        told: impl FnOnce(Option<EventId>),
    ) -> (Option<E>, bool) {
        let mut inner = self.0.lock();
        match &inner.first {
            None if !inner.is(NAMED) => return (None, false),
            Some(first)
                if inner.more.as_ref().is_none_or(|more| more.len() == 0) && takes(first) =>
            {
                return (inner.first.take(), false);
            }
            _ => {}
        }
        Self::take_further(inner, takes, told)
    }

    /// A separate function for the same reason as [`push_further`](Self::push_further).
    #[cold]
    #[inline(never)]
    fn take_further(
        mut inner: MutexGuard<'_, Inner<E>>,
        takes: impl FnMut(&E) -> bool,
        told: impl FnOnce(Option<EventId>),
    ) -> (Option<E>, bool) {
        let (named, (taken, left)) = (inner.is(NAMED), inner.take_of_many(takes));
        drop(inner);
        let taken = taken.map(|(id, event)| {
            if named {
                told(id);
            }
            event
        });
        (taken, left)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Closes the mailbox to new events. Returns the number of events that are left.
    pub(crate) fn close(&self) -> usize {
        let mut inner = self.0.lock();
        inner.flags |= CLOSED;
        inner.len()
    }

    /// Takes the events that no phase took.
    pub(crate) fn rest(&self) -> Vec<E> {
        let (first, more) = {
            let mut inner = self.0.lock();
            (inner.first.take(), inner.more.take())
        };
        let more: Vec<E> = match more.map(|more| *more) {
            Some(More::Behind(events)) => events.into(),
            Some(More::Named(events)) => events.into_iter().map(|(_, event)| event).collect(),
            None => Vec::new(),
        };
        first.into_iter().chain(more).collect()
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    fn limit(most: usize) -> MailLimit {
        MailLimit::new(most, false)
    }

    /// SM-06: if an event is taken from the middle, the others stay in order.
    #[test]
    fn what_is_not_taken_keeps_its_order() {
        for named in [false, true] {
            let mail = Mail::new(named);
            let take = |takes: fn(&i32) -> bool| mail.take(takes, |_| assert!(named));
            (0..6).for_each(|event| mail.push(event, || None, limit(6), || {}).unwrap());
            assert!(matches!(
                mail.push(6, || None, limit(6), || {}),
                Err(SendError::Full(6))
            ));
            assert_eq!(take(|event| *event == 3), (Some(3), true));
            assert_eq!(take(|event| *event == 0), (Some(0), true));
            assert_eq!(take(|event| *event == 9), (None, true));
            mail.push(7, || None, limit(6), || {}).unwrap();
            assert_eq!(take(|event| *event % 2 == 0), (Some(2), true));
            assert_eq!(mail.close(), 4);
            assert!(matches!(
                mail.push(8, || None, limit(6), || {}),
                Err(SendError::Ended(8))
            ));
            assert_eq!(mail.rest(), [1, 4, 5, 7]);
        }
    }

    /// Each event has its own id, whenever the first event with an id arrives.
    #[test]
    fn an_event_keeps_the_id_that_it_came_with() {
        for before in 0..4 {
            let mail = Mail::new(false);
            (0..before).for_each(|event| mail.push(event, || None, limit(9), || {}).unwrap());
            let last = EventId::Given([0, 7]);
            mail.push_named(before, last, limit(9)).unwrap();
            mail.push(before + 1, || Some(EventId::Sent(8)), limit(9), || {})
                .unwrap();
            for event in 0..before + 2 {
                let mut told = None;
                let taken = mail.take(|_| true, |id| told = Some(id));
                assert_eq!(taken, (Some(event), event < before + 1));
                let id = match event - before {
                    0 => Some(last),
                    1 => Some(EventId::Sent(8)),
                    _ => None,
                };
                assert_eq!(told, Some(id), "{event} of {before}");
            }
        }
    }

    /// After `take` returns that no events are left, the fom does not look again. So the answer must be right with a
    /// list and without.
    #[test]
    fn it_is_said_whether_events_are_left() {
        let mail = Mail::new(false);
        let take = |takes| mail.take(|_| takes, |_| unreachable!("none has an id"));
        for list in [false, true] {
            mail.push(0, || None, limit(6), || {}).unwrap();
            assert_eq!(take(false), (None, true), "{list}");
            assert_eq!(take(true), (Some(0), false), "{list}");
            assert_eq!(take(true), (None, false), "{list}");
            // The second round has a list.
            (1..3).for_each(|event| mail.push(event, || None, limit(6), || {}).unwrap());
            assert_eq!(take(true), (Some(1), true), "{list}");
            assert_eq!(take(true), (Some(2), false), "{list}");
        }
        assert!(matches!(
            mail.push(0, || None, limit(0), || {}),
            Err(SendError::Full(0))
        ));
    }
}
