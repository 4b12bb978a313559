//! The activation list: the requests of one object that wait for their turn. No code of the user's runs in here.

use std::collections::{BTreeMap, VecDeque};

use crate::active::{
    marks::{Limits, Pressure},
    request::Request,
    station::Place,
};

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

/// What became of a request that is to be queued.
pub(super) enum Pushed<A> {
    At {
        place: Place,
        /// The object is to be woken.
        wake: bool,
        /// Not in the list yet: there is no room.
        waits: bool,
    },
    Full(Box<dyn Request<A>>),
    Closed(Box<dyn Request<A>>),
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

type Requests<A> = BTreeMap<Place, Queued<A>>;

pub(super) struct List<A> {
    limits: Limits,
    /// Those to be looked at, the next one first.
    fresh: Requests<A>,
    /// Those whose guard was false since the object changed last.
    blocked: Requests<A>,
    /// Those that there is no room for. Their calls keep them: each goes when its call is dropped.
    outside: Requests<A>,
    /// The one that is looked at or runs.
    current: Option<Place>,
    /// It is looked at, and so still in the list.
    looked_at: bool,
    numbered: u64,
    /// The object waits to be woken.
    rests: bool,
    /// No proxy is left.
    orphaned: bool,
    /// The object has ended.
    closed: bool,
    /// More than the high mark, and not yet less than the low one.
    pressed: bool,
    /// What is still to be told of that.
    pub(super) news: VecDeque<Pressure>,
    /// Somebody tells it.
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

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.blocked.len() + usize::from(self.looked_at)
    }

    /// Those, and the one that runs.
    pub(super) fn load(&self) -> usize {
        self.len() + usize::from(self.is_busy() && !self.looked_at)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The object runs a request or looks at one.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The object has nothing to do until there is a further request: how many there were.
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

    /// The one that waits longest for its guard, of the highest priority.
    pub(super) fn first_blocked(&self) -> Option<&Queued<A>> {
        self.blocked.values().next()
    }

    /// At the end of its priority.
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

    /// There may be room: for the next ones outside. `true`: the object is to be woken.
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

    /// Notes when a mark is crossed.
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

    /// The guard of the one that was looked at is true: it runs.
    pub(super) fn begin(&mut self) {
        self.looked_at = false;
        self.refill();
    }

    /// The guard of the one that was looked at is false.
    pub(super) fn put_back(&mut self, queued: Queued<A>) {
        self.current = None;
        self.looked_at = false;
        self.blocked.insert(queued.place, queued);
    }

    /// The one that was looked at is answered; the object is as it was.
    pub(super) fn pass(&mut self) {
        self.current = None;
        self.begin();
    }

    /// The one that ran has ended: all are looked at again.
    pub(super) fn changed(&mut self) {
        self.current = None;
        self.fresh.append(&mut self.blocked);
    }

    /// Takes a request out, and says whether the object is to be woken: for one that came in instead.
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

    /// A call was dropped: takes its request, if that is still outside.
    pub(super) fn withdraw(&mut self, place: Place) -> Option<Box<dyn Request<A>>> {
        self.outside.remove(&place).map(|queued| queued.request)
    }

    /// There will be no further request. `true`: the object is to be woken.
    pub(super) fn orphan(&mut self) -> bool {
        self.orphaned = true;
        self.wake()
    }

    /// Takes no more; gives what was in it.
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
