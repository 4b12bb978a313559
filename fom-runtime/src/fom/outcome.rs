//! How the waiters of a fom hear of its phases and its end.

use std::mem;

use crate::fom::{Cold, Header, Watcher};

/// The waiters of this fom: the handle, and waits for phases.
#[derive(Clone, Copy)]
pub(crate) struct Waiters<'a>(pub(super) &'a Header);

impl Waiters<'_> {
    /// Gives up on the fom. Returns whether there was no answer before.
    pub(crate) fn give_up(self) -> bool {
        let first = self.0.marks.abandon();
        if first == Some(true) {
            self.tell_end(None);
        }
        if first.is_some() {
            if let Some(state) = self.0.cold().and_then(Cold::durable) {
                state.given_up(self.0);
            }
            self.0.ticket().give_guard();
        }
        first.is_some()
    }

    /// Tells the end without the lock, because a woken task may use this fom at once.
    #[cold]
    pub(crate) fn tell_end(self, ended: Option<usize>) {
        let Some(cold) = self.0.cold() else { return };
        let waker = cold.waker.lock().take();
        let watchers = cold
            .ties()
            .map(|ties| mem::take(&mut *ties.watchers.lock()));
        for mut watcher in watchers.into_iter().flatten() {
            watcher.tell_end(ended);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Registers a wait for a phase, or answers it if the fom has ended. Returns whether the wait was registered. If the
    /// fom is in that phase already, a call of [`arrived`](Self::arrived) answers the wait, on the thread that runs the
    /// fom's locality.
    pub(crate) fn watch(self, watcher: Watcher) -> bool {
        self.0.cold_made().ties_made().watch(watcher);
        let Some(in_phase) = self.0.marks.observe() else {
            return true;
        };
        self.tell_end(in_phase.then(|| self.0.visit().index()));
        false
    }

    /// Tells the waiters for this phase, and those for phases that the fom can no longer reach from it.
    #[cold]
    pub(crate) fn arrived(self, index: usize) {
        let Some(ties) = self.0.cold().and_then(Cold::ties) else {
            return;
        };
        let graph = self.0.graph();
        let mut told = Vec::new();
        let hear = |watcher: &mut Watcher| {
            let answer = watcher.answer(graph, index);
            told.extend(answer);
            answer.is_some()
        };
        let watchers: Vec<_> = ties.watchers.lock().extract_if(.., hear).collect();
        for (mut watcher, told) in watchers.into_iter().zip(told) {
            watcher.tell(told);
        }
    }
}
