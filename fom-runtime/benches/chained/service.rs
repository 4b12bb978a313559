//! The service: a thread on a core of its own, which answers at once.

use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use kit::{Histogram, mix, now, pin};

/// An answer, and the time at which it was given if the time is measured, else 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) x: u64,
    pub(crate) given: u64,
}

impl Answer {
    /// Answers this question.
    pub(crate) fn to(x: u64) -> Self {
        Self {
            x: mix(x),
            given: if mix(x).is_multiple_of(16) { now() } else { 0 },
        }
    }

    /// Notes that the answer has arrived, and returns its number.
    pub(crate) fn arrived(self, wakes: &Histogram) -> u64 {
        if self.given > 0 {
            wakes.add(now().saturating_sub(self.given));
        }
        self.x
    }
}

/// The place where an answer goes.
pub(crate) trait Reply: Send + 'static {
    fn reply(self, answer: Answer);
}

impl Reply for tokio::sync::oneshot::Sender<Answer> {
    fn reply(self, answer: Answer) {
        assert!(self.send(answer).is_ok(), "the caller waits for it");
    }
}

pub(crate) struct Request<R> {
    pub(crate) x: u64,
    pub(crate) to: R,
}

pub(crate) type Service<R> = Sender<Request<R>>;

/// Starts the service on the second core.
pub(crate) fn service<R: Reply>() -> Service<R> {
    let (ask, asked): (_, Receiver<Request<R>>) = unbounded();
    thread::spawn(move || {
        pin(1);
        for request in asked {
            request.to.reply(Answer::to(request.x));
        }
    });
    ask
}
