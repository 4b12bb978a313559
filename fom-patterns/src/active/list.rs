//! The activation list: the requests of one object that wait for their turn. No user code runs in this module.

use std::collections::{BTreeMap, VecDeque};

use crate::active::{
    object_handle::Place,
    request::Request,
    water_marks::{Limits, Pressure},
};
use fom_runtime::time::Instant;

/// A request in the list.
pub(super) struct Queued<A> {
    pub(super) place: Place,
    pub(super) request: Box<dyn Request<A>>,
    /// The time when its guard was first seen false.
    pub(super) blocked: Option<Instant>,
}

/// The object's next action.
pub(super) enum Turn<A> {
    /// The object looks at this request.
    Next(Queued<A>),
    Rest,
    End,
}

/// The result of [`List::push`].
pub(super) enum Pushed<A> {
    At {
        place: Place,
        /// The caller must wake the object.
        wake: bool,
        /// The request is not in the list yet, because there is no room.
        waits: bool,
    },
    Full(Box<dyn Request<A>>),
    Closed(Box<dyn Request<A>>),
}

/// The result of [`List::take_back`].
pub(super) enum Taken<A> {
    /// The request, taken out of the list.
    Back(Box<dyn Request<A>>),
    /// The request runs, or the object looks at it.
    Runs,
    /// The request has been answered.
    Gone,
}

type Requests<A> = BTreeMap<Place, Queued<A>>;

pub(super) struct List<A> {
    limits: Limits,
    /// Requests to look at, the next one first.
    fresh: Requests<A>,
    /// Requests with a guard that was false after the object's last change.
    blocked: Requests<A>,
    /// Requests without room. Each one is removed when its call is dropped.
    outside: Requests<A>,
    /// The request that runs or is looked at.
    current: Option<Place>,
    /// Whether the current request is only looked at, and so still counts as waiting.
    looked_at: bool,
    numbered: u64,
    /// Whether the object waits to be woken.
    rests: bool,
    /// Whether no proxy is left.
    orphaned: bool,
    /// Whether the object has ended.
    closed: bool,
    /// Whether the high mark was reached, and the low mark not since.
    pressed: bool,
    /// Pressure changes that are not reported yet.
    pub(super) news: VecDeque<Pressure>,
    /// Whether a thread reports them now.
    pub(super) telling: bool,
}

impl<A> List<A> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            fresh: BTreeMap::new(),
            blocked: BTreeMap::new(),
            outside: BTreeMap::new(),
            current: None,
            looked_at: false,
            numbered: 0,
            rests: false,
            orphaned: false,
            closed: false,
            pressed: false,
            news: VecDeque::new(),
            telling: false,
        }
    }

    /// Counts the waiting requests.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.blocked.len() + usize::from(self.looked_at)
    }

    /// Returns the number of requests so far.
    pub(super) fn numbered(&self) -> u64 {
        self.numbered
    }

    /// Counts the waiting requests and the running request.
    pub(super) fn load(&self) -> usize {
        self.len() + usize::from(self.is_busy() && !self.looked_at)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether the object runs a request or looks at one.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the number of requests so far if the object has ended, or does nothing until the next request.
    pub(super) fn rests(&self) -> Option<u64> {
        (self.rests || self.closed).then_some(self.numbered)
    }

    pub(super) fn pressure(&self) -> Pressure {
        if self.pressed {
            Pressure::High
        } else {
            Pressure::Low
        }
    }

    /// Returns the oldest request of the highest priority that waits for its guard.
    pub(super) fn first_blocked(&self) -> Option<&Queued<A>> {
        self.blocked.values().next()
    }

    /// Adds a request at the end of its priority.
    pub(super) fn push(&mut self, priority: u8, request: Box<dyn Request<A>>) -> Pushed<A> {
        if self.closed {
            return Pushed::Closed(request);
        }
        let waits = self.len() >= self.limits.capacity;
        if waits && !self.limits.waits {
            return Pushed::Full(request);
        }
        let place = (priority, self.numbered);
        self.numbered += 1;
        let queued = Queued {
            place,
            request,
            blocked: None,
        };
        if waits {
            self.outside.insert(place, queued);
        } else {
            self.fresh.insert(place, queued);
            self.mark();
        }
        let wake = !waits && self.wake();
        Pushed::At { place, wake, waits }
    }

    fn wake(&mut self) -> bool {
        std::mem::replace(&mut self.rests, false)
    }

    /// Moves requests from outside into the list while there is room. Returns `true` if the object must be woken.
    fn refill(&mut self) -> bool {
        let mut came = false;
        while self.len() < self.limits.capacity
            && let Some((place, queued)) = self.outside.pop_first()
        {
            self.fresh.insert(place, queued);
            came = true;
        }
        self.mark();
        came && self.wake()
    }

    /// Records a pressure change when a mark is crossed.
    fn mark(&mut self) {
        let Some((high, low)) = self.limits.marks else {
            return;
        };
        let len = self.len();
        let crossed = if self.pressed {
            len <= low
        } else {
            len >= high
        };
        if crossed {
            self.pressed = !self.pressed;
            self.news.push_back(self.pressure());
        }
    }

    pub(super) fn turn(&mut self) -> Turn<A> {
        match self.fresh.pop_first() {
            Some((place, queued)) => {
                self.current = Some(place);
                self.looked_at = queued.request.is_guarded();
                if !self.looked_at {
                    self.refill();
                }
                Turn::Next(queued)
            }
            None if self.orphaned => Turn::End,
            None => {
                self.rests = true;
                Turn::Rest
            }
        }
    }

    /// Starts the current request: its guard is true.
    pub(super) fn begin(&mut self) {
        self.looked_at = false;
        self.refill();
    }

    /// Puts the current request back: its guard is false.
    pub(super) fn put_back(&mut self, queued: Queued<A>) {
        self.current = None;
        self.looked_at = false;
        self.blocked.insert(queued.place, queued);
    }

    /// Removes the current request, which is answered without a run. The object is unchanged.
    pub(super) fn pass(&mut self) {
        self.current = None;
        self.begin();
    }

    /// Ends the current request. The object looks at all blocked requests again.
    pub(super) fn changed(&mut self) {
        self.current = None;
        self.fresh.append(&mut self.blocked);
    }

    /// Takes a request out. The flag says whether the object must be woken for a request that came in instead.
    pub(super) fn take_back(&mut self, place: Place) -> (Taken<A>, bool) {
        if self.current == Some(place) {
            return (Taken::Runs, false);
        }
        let places = [&mut self.fresh, &mut self.blocked, &mut self.outside];
        let found = places.into_iter().find_map(|queue| queue.remove(&place));
        match found {
            Some(queued) => (Taken::Back(queued.request), self.refill()),
            None => (Taken::Gone, false),
        }
    }

    /// Takes the request of a dropped call, if the request is still outside.
    pub(super) fn withdraw(&mut self, place: Place) -> Option<Box<dyn Request<A>>> {
        self.outside.remove(&place).map(|queued| queued.request)
    }

    /// Notes that no further request comes. Returns `true` if the object must be woken.
    pub(super) fn orphan(&mut self) -> bool {
        self.orphaned = true;
        self.wake()
    }

    /// Closes the list and returns its requests.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Queued<A>> + use<A> {
        self.closed = true;
        self.current = None;
        self.looked_at = false;
        let queues = [&mut self.fresh, &mut self.blocked, &mut self.outside];
        let left = queues.map(std::mem::take);
        self.mark();
        left.into_iter().flat_map(BTreeMap::into_values)
    }
}
