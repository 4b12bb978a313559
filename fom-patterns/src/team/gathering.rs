//! A wait for the ends of several foms, with a single wake.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    task::{Poll, Wake, Waker},
};

use fom_protocol::sync::Mutex;
use fom_runtime::extension::{Attached, Blocker, FomAddress, Hold, Holder, Wait, WaitKind};

/// What a leader waits for. Listings name the helpers instead.
static HELPERS: WaitKind = WaitKind::new("another fom");

/// The foms of one wait. Each fom tells its end here, and the end that completes the wait wakes the leader.
pub(super) struct Gathering {
    leader: FomAddress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The addresses of the members that have not ended.
    members: Vec<Option<FomAddress>>,
    left: usize,
    /// The members that have ended and were not returned yet.
    ended: VecDeque<usize>,
    all: bool,
    /// Set while the leader waits.
    waker: Option<Waker>,
}

impl State {
    fn is_over(&self) -> bool {
        if self.all {
            self.left == 0
        } else {
            !self.ended.is_empty() || self.left == 0
        }
    }

    fn left(&self) -> Vec<FomAddress> {
        self.members.iter().flatten().cloned().collect()
    }
}

impl Gathering {
    pub(super) fn new(leader: FomAddress) -> Arc<Self> {
        Arc::new(Self {
            leader,
            state: Mutex::default(),
        })
    }

    /// Adds a member. Returns the waker to be woken at its end.
    pub(super) fn join(self: &Arc<Self>, member: FomAddress) -> Waker {
        let mut state = self.state.lock();
        state.members.push(Some(member));
        state.left += 1;
        Waker::from(Arc::new(Member {
            gathering: Arc::downgrade(self),
            place: state.members.len() - 1,
        }))
    }

    /// Records that the member at this place has ended.
    fn ended(&self, place: usize) {
        let (member, waker) = {
            let mut state = self.state.lock();
            let Some(member) = state.members[place].take() else {
                return;
            };
            state.left -= 1;
            state.ended.push_back(place);
            let is_over = state.is_over();
            (member, state.waker.take_if(|_| is_over))
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(member);
    }

    fn poll(&self, waker: &Waker, all: bool) -> Poll<()> {
        let mut state = self.state.lock();
        state.all = all;
        let ready = state.is_over();
        let old = match ready {
            true => state.waker.take(),
            false => state.waker.replace(waker.clone()),
        };
        drop(state);
        // The old waker may run any code, so it is dropped without the lock.
        drop(old);
        if ready {
            return Poll::Ready(());
        }
        HELPERS.record();
        Poll::Pending
    }

    /// Becomes ready when all members have ended.
    pub(super) fn poll_all(&self, waker: &Waker) -> Poll<()> {
        self.poll(waker, true)
    }

    /// Returns the next member that has ended, in the order of the ends, or `None` if all were returned.
    pub(super) fn poll_next(&self, waker: &Waker) -> Poll<Option<usize>> {
        self.poll(waker, false)
            .map(|()| self.state.lock().ended.pop_front())
    }

    /// Records that the leader no longer waits.
    pub(super) fn give_up(&self) {
        let waker = self.state.lock().waker.take();
        drop(waker);
    }

    /// Returns the number of members.
    pub(super) fn len(&self) -> usize {
        self.state.lock().members.len()
    }

    /// Returns the members that have not ended.
    pub(super) fn left(&self) -> Vec<FomAddress> {
        self.state.lock().left()
    }

    /// Returns the members that must end before the leader goes on. If the leader waits for the next of several
    /// members, this is empty.
    fn needed(&self) -> Vec<FomAddress> {
        let state = self.state.lock();
        if state.waker.is_none() || !(state.all || state.left == 1) {
            return Vec::new();
        }
        state.left()
    }
}

impl Attached for Gathering {
    fn waits(&self, kind: &WaitKind) -> Vec<Wait> {
        let left = {
            let state = self.state.lock();
            match &state.waker {
                Some(_) if *kind == HELPERS => state.left(),
                _ => Vec::new(),
            }
        };
        if left.is_empty() {
            return Vec::new();
        }
        let holders = left.iter().map(|fom| Holder {
            fom: Some(fom.id()),
            name: fom.id().to_string(),
            hold: Hold::MustEnd,
        });
        vec![Wait {
            holders: holders.collect(),
            ..Wait::of("fom")
        }]
    }

    fn blockers(&self) -> Vec<Blocker> {
        if !self.leader.is_waiting_for(&HELPERS) {
            return Vec::new();
        }
        let needed = self.needed().into_iter();
        needed
            .map(|fom| Blocker {
                fom,
                kind: "its helper",
                subject: None,
                hold: Hold::MustEnd,
                numbers: (0, 0),
            })
            .collect()
    }
}

/// Tells the end of one member. The runtime wakes it only then.
struct Member {
    gathering: Weak<Gathering>,
    place: usize,
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        if let Some(gathering) = self.gathering.upgrade() {
            gathering.ended(self.place);
        }
    }
}
