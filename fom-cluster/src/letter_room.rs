//! How many letters of a slot wait, and the phases that wait until there are fewer.
//!
//! A letter counts from the moment in which a phase writes it. If the phase fails then, the letter is never sent. So the count may be
//! too high, and before a phase is held back, the letters among the foms are counted.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use fom_protocol::sync::Mutex;
use fom_runtime::{
    Runtime,
    extension::{Gate, GateError, WaitKind},
    observe::Transition,
};

use crate::node::Here;

static ROOM: WaitKind = WaitKind::new("room for letters");

/// The letters of a slot that are not delivered: a resource of its runtime.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered {
    state: Arc<Mutex<State>>,
    /// Counts the letters among the foms of a runtime.
    count: fn(&Runtime) -> usize,
    /// Has the runtime tell of its letters. A program that never asks for room pays nothing for it.
    watch: fn(&Runtime, Undelivered),
}

#[derive(Debug, Default)]
struct State {
    /// `None` until those are counted that came back from the journal.
    letters: Option<usize>,
    /// Whether a letter was written since they were counted, so that there may be fewer.
    is_estimate: bool,
    /// Whether the runtime tells of its letters.
    is_watched: bool,
    /// How many letters were delivered.
    delivered: u64,
    /// The foms that wait until there are fewer.
    wakers: Vec<Waker>,
}

impl Undelivered {
    pub(crate) fn new(count: fn(&Runtime) -> usize, watch: fn(&Runtime, Self)) -> Self {
        Self {
            state: Arc::default(),
            count,
            watch,
        }
    }

    /// Notes a letter that a phase writes.
    pub(crate) fn writes(&self) {
        let mut state = self.state.lock();
        state.letters = state.letters.map(|letters| letters + 1);
        state.is_estimate = true;
    }

    /// Notes what a letter does. Its end is its delivery.
    pub(crate) fn saw(&self, transition: &Transition<'_>) {
        if !transition.ends() && transition.to().is_some() {
            return;
        }
        let wakers = {
            let mut state = self.state.lock();
            state.delivered += 1;
            state.letters = state.letters.map(|letters| letters.saturating_sub(1));
            mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns a gate that is open while at most so many letters wait. `runtime` is that of the slot.
    pub(crate) fn room(&self, most: usize, here: &Here, runtime: &Runtime) -> LetterRoom {
        let is_first = {
            let mut state = self.state.lock();
            let is_first = !mem::replace(&mut state.is_watched, true);
            state.is_estimate |= is_first;
            is_first
        };
        if is_first {
            (self.watch)(runtime, self.clone());
            let letters = (self.count)(runtime);
            self.state.lock().letters = Some(letters);
        }
        LetterRoom {
            undelivered: self.clone(),
            most,
            here: here.clone(),
        }
    }
}

/// Holds a phase back while too many letters wait; see [`Letters::room`](crate::Letters::room).
#[derive(Debug)]
pub struct LetterRoom {
    undelivered: Undelivered,
    most: usize,
    here: Here,
}

impl Gate for LetterRoom {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        let Undelivered { state, count, .. } = &self.undelivered;
        // A slot that is about to be served has no runtime yet: its letters were counted just now.
        let runtime = self.here.runtime();
        loop {
            let seen = {
                let mut state = state.lock();
                if state.letters.is_some_and(|letters| letters <= self.most) {
                    return Poll::Ready(Ok(()));
                }
                if !state.is_estimate || runtime.is_none() {
                    state.wakers.push(cx.waker().clone());
                    ROOM.record();
                    return Poll::Pending;
                }
                state.is_estimate = false;
                state.delivered
            };
            let letters = runtime.as_ref().map_or(0, count);
            let mut state = state.lock();
            // Otherwise a letter was written or delivered meanwhile.
            if state.delivered == seen && !state.is_estimate {
                state.letters = Some(letters);
            } else {
                state.is_estimate = true;
            }
        }
    }
}
