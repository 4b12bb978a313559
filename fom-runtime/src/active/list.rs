//! The activation list: the requests of one object that wait for their turn. No code of the user's runs in here.

use std::collections::BTreeMap;

use crate::active::{request::Request, station::Place};

/// A request in the list.
pub(super) struct Queued<A> {
    pub(super) place: Place,
    pub(super) request: Box<dyn Request<A>>,
    /// Since when its guard was seen false.
    pub(super) blocked: Option<u64>,
}

/// What the object does next.
pub(super) enum Turn<A> {
    /// Looks at this one.
    Next(Queued<A>),
    Rest,
    End,
}

/// What a cancel came to.
pub(super) enum Taken<A> {
    /// Out of the list.
    Back(Box<dyn Request<A>>),
    /// It runs.
    Runs,
    /// It has been answered.
    Gone,
}

pub(super) struct List<A> {
    /// Those to be looked at, the next one first.
    fresh: BTreeMap<Place, Queued<A>>,
    /// Those whose guard was false since the object changed last.
    blocked: BTreeMap<Place, Queued<A>>,
    /// The one that is looked at or runs.
    current: Option<Place>,
    numbered: u64,
    /// The object waits to be woken.
    rests: bool,
    /// No proxy is left.
    orphaned: bool,
    /// The object has ended.
    closed: bool,
}

impl<A> Default for List<A> {
    fn default() -> Self {
        Self {
            fresh: BTreeMap::new(),
            blocked: BTreeMap::new(),
            current: None,
            numbered: 0,
            rests: false,
            orphaned: false,
            closed: false,
        }
    }
}

impl<A> List<A> {
    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.blocked.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The object runs a request or looks at one.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The one that waits longest for its guard, of the highest priority.
    pub(super) fn first_blocked(&self) -> Option<&Queued<A>> {
        self.blocked.values().next()
    }

    /// At the end of its priority. `true`: the object is to be woken.
    pub(super) fn push(&mut self, priority: u8, request: Box<dyn Request<A>>) -> (Place, bool) {
        let place = (priority, self.numbered);
        self.numbered += 1;
        let queued = Queued {
            place,
            request,
            blocked: None,
        };
        self.fresh.insert(place, queued);
        (place, self.wake())
    }

    fn wake(&mut self) -> bool {
        std::mem::replace(&mut self.rests, false)
    }

    pub(super) fn turn(&mut self) -> Turn<A> {
        match self.fresh.pop_first() {
            Some((place, queued)) => {
                self.current = Some(place);
                Turn::Next(queued)
            }
            None if self.orphaned => Turn::End,
            None => {
                self.rests = true;
                Turn::Rest
            }
        }
    }

    /// The guard of the one that was looked at is false.
    pub(super) fn put_back(&mut self, queued: Queued<A>) {
        self.current = None;
        self.blocked.insert(queued.place, queued);
    }

    /// The one that was looked at is answered; the object is as it was.
    pub(super) fn pass(&mut self) {
        self.current = None;
    }

    /// The one that ran has ended: all are looked at again.
    pub(super) fn changed(&mut self) {
        self.current = None;
        self.fresh.append(&mut self.blocked);
    }

    pub(super) fn take_back(&mut self, place: Place) -> Taken<A> {
        if let Some(queued) = self
            .fresh
            .remove(&place)
            .or_else(|| self.blocked.remove(&place))
        {
            return Taken::Back(queued.request);
        }
        if self.current == Some(place) {
            Taken::Runs
        } else {
            Taken::Gone
        }
    }

    /// No proxy is left. `true`: the object is to be woken.
    pub(super) fn orphan(&mut self) -> bool {
        self.orphaned = true;
        self.wake()
    }

    /// Takes no more; gives what was in it.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Queued<A>> + use<A> {
        self.closed = true;
        self.current = None;
        let fresh = std::mem::take(&mut self.fresh);
        let blocked = std::mem::take(&mut self.blocked);
        fresh.into_values().chain(blocked.into_values())
    }
}
