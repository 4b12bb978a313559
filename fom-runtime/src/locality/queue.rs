//! The run queues: one for each priority, first in first out inside one.

use std::{collections::VecDeque, sync::Arc};

use crate::{fom::AnyFom, runtime::Priority};

/// One pick in so many goes to the lowest queue that has work, so that no priority starves.
const LOWEST_EVERY: u32 = 16;

#[derive(Default)]
pub(super) struct RunQueue {
    queues: [VecDeque<Arc<dyn AnyFom>>; Priority::COUNT],
    picks: u32,
}

impl RunQueue {
    pub(super) fn push(&mut self, priority: Priority, fom: Arc<dyn AnyFom>) {
        self.queues[priority as usize].push_back(fom);
    }

    pub(super) fn pop(&mut self) -> Option<Arc<dyn AnyFom>> {
        self.picks = self.picks.wrapping_add(1);
        if self.picks.is_multiple_of(LOWEST_EVERY) {
            self.queues.iter_mut().rev().find_map(VecDeque::pop_front)
        } else {
            self.queues.iter_mut().find_map(VecDeque::pop_front)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}
