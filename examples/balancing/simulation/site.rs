//! One locality: its queue, and the threads that share its processors.

use std::{collections::VecDeque, time::Duration};

use fom_runtime::balance::Load;

use super::Nanos;

/// One fom: it runs once, and may then compute in a blocking section.
pub(super) struct Fom {
    pub(super) arrived: Nanos,
    pub(super) service: Nanos,
    pub(super) section: Nanos,
    pub(super) movable: bool,
    /// True for a fom of the key that many foms have.
    pub(super) hot: bool,
}

/// The work of a thread.
enum Work {
    Fom(Fom),
    /// Giving foms away.
    Move,
}

struct Thread {
    work: Work,
    begun: Nanos,
    /// The remaining work, in nanoseconds of a whole processor.
    left: f64,
}

pub(super) enum Next {
    Runs { waited: Nanos, hot: bool },
    Idle,
}

/// Less work than this counts as none: the time line has whole nanoseconds.
const NOTHING: f64 = 0.5;

pub(super) struct Site {
    pub(super) queue: VecDeque<Fom>,
    /// Foms in the queue that may be moved.
    pub(super) movable: usize,
    handler: Option<Thread>,
    sections: Vec<Thread>,
    /// The share of its own processor that it has, and its shares of others.
    pub(super) own: f64,
    pub(super) borrowed: f64,
    pub(super) loans: usize,
    pub(super) lent_to: Option<usize>,
    /// Grows with each change that makes an expected end wrong.
    pub(super) version: u64,
    pub(super) idle_since: Option<Nanos>,
    /// True if the site is idle, and no move to it is under way.
    pub(super) hungry: bool,
    service: f64,
    share: f64,
    /// The time in which the handler had work since the last look, and its time on a processor.
    wanted: f64,
    got: f64,
    advanced: Nanos,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            movable: 0,
            handler: None,
            sections: Vec::new(),
            own: 1.0,
            borrowed: 0.0,
            loans: 0,
            lent_to: None,
            version: 0,
            idle_since: Some(0),
            hungry: true,
            service: 0.0,
            share: 1.0,
            wanted: 0.0,
            got: 0.0,
            advanced: 0,
        }
    }
}

impl Site {
    /// Returns each thread's share of a processor: the threads share evenly, and none uses more than one.
    fn rate(&self) -> f64 {
        let threads = self.sections.len() + usize::from(self.handler.is_some());
        ((self.own + self.borrowed) / threads.max(1) as f64).min(1.0)
    }

    /// Works up to `now`.
    pub(super) fn advance(&mut self, now: Nanos) {
        let time = (now - self.advanced) as f64;
        self.advanced = now;
        let done = time * self.rate();
        for thread in self.handler.iter_mut().chain(&mut self.sections) {
            thread.left -= done;
        }
        if self.handler.is_some() {
            self.wanted += time;
            self.got += done;
        }
    }

    /// Returns the time until the first of its threads is done.
    pub(super) fn next_finish(&self) -> Option<Nanos> {
        let left = self.handler.iter().chain(&self.sections);
        let least = left.map(|thread| thread.left).reduce(f64::min)?;
        Some((least.max(0.0) / self.rate()).ceil() as Nanos)
    }

    /// Removes the finished work. Returns how many foms have ended, and whether the handler is free.
    pub(super) fn take_finished(&mut self, now: Nanos) -> (usize, bool) {
        let before = self.sections.len();
        self.sections.retain(|thread| thread.left > NOTHING);
        let mut ended = before - self.sections.len();
        let Some(done) = self.handler.take_if(|thread| thread.left <= NOTHING) else {
            return (ended, false);
        };
        if let Work::Fom(fom) = done.work {
            let took = (now - done.begun) as f64;
            self.service += (took - self.service) / 8.0;
            if fom.section > 0 {
                self.sections.push(Thread {
                    left: fom.section as f64,
                    work: Work::Fom(fom),
                    begun: now,
                });
            } else {
                ended += 1;
            }
        }
        (ended, true)
    }

    /// Lets the handler run the first fom in the queue.
    pub(super) fn begin_next(&mut self, now: Nanos) -> Next {
        let Some(fom) = self.queue.pop_front() else {
            return Next::Idle;
        };
        self.movable -= usize::from(fom.movable);
        let (waited, hot) = (now - fom.arrived, fom.hot);
        self.handler = Some(Thread {
            left: fom.service as f64,
            work: Work::Fom(fom),
            begun: now,
        });
        Next::Runs { waited, hot }
    }

    /// Keeps the handler busy for that long with giving foms away.
    pub(super) fn begin_move(&mut self, now: Nanos, time: Nanos) {
        self.handler = Some(Thread {
            left: time as f64,
            work: Work::Move,
            begun: now,
        });
    }

    /// Takes every other fom, so that both the moved and the remaining foms keep their order, and neither waits for the
    /// other.
    pub(super) fn take_every_other(&mut self, foms: usize) -> Vec<Fom> {
        let mut taken = Vec::new();
        let mut at = 1;
        while taken.len() < foms && at < self.queue.len() {
            if self.queue[at].movable {
                taken.extend(self.queue.remove(at));
            }
            at += 1;
        }
        self.movable -= taken.len();
        taken
    }

    /// Computes the share in the time since the last look. A time without work leaves the share as it is.
    pub(super) fn look(&mut self, now: Nanos) {
        self.advance(now);
        if self.wanted > 0.0 {
            self.share = self.got / self.wanted;
        }
        (self.wanted, self.got) = (0.0, 0.0);
    }

    pub(super) fn load(&self, now: Nanos) -> Load {
        let mut load = Load::default();
        load.ready = self.queue.len();
        load.movable = self.movable;
        load.service = Duration::from_nanos(self.service as Nanos);
        load.share = self.share;
        load.idle = self
            .idle_since
            .map(|since| Duration::from_nanos(now - since));
        load.borrowed = self.loans;
        load
    }
}
