//! How many commands a client may send: an admission policy in front of the localities.
//!
//! Where no rate is set, commands do not come by here.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use fom_runtime::admission::{Admission, BuildAdmissionError, Fifo, Queued, Rate, TokenBuckets};
use fom_runtime::prelude::*;

use crate::live::SettingError;
use crate::wire::Reply;

/// Commands that wait for their turn, at the most; each client has its own limit, far below.
const MOST: usize = 1 << 20;

/// What becomes of a command beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// It waits for its turn.
    Wait,
    /// It is answered with an error.
    Reject,
}

/// How many commands each client may send.
#[derive(Debug)]
pub(crate) struct RateLimit {
    intake: Admission,
    /// Commands a second; 0 is no limit.
    rate: AtomicU64,
    reject: AtomicBool,
    /// While one changes the policy, no other does.
    changing: Mutex<()>,
}

impl RateLimit {
    pub(crate) fn new(runtime: &Runtime) -> Result<Self, BuildAdmissionError> {
        let intake = Admission::builder(runtime)
            // Those that wait, for an element or the disk, keep nobody else out.
            .in_flight(MOST)
            .marks(MOST / 2, MOST)
            .build()?;
        Ok(Self {
            intake,
            rate: AtomicU64::new(0),
            reject: AtomicBool::new(false),
            changing: Mutex::default(),
        })
    }

    /// What becomes of commands beyond the rate; none where there is no rate.
    pub(crate) fn beyond(&self) -> Option<Beyond> {
        if self.rate.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(if self.reject.load(Ordering::Relaxed) {
            Beyond::Reject
        } else {
            Beyond::Wait
        })
    }

    /// The queue.
    pub(crate) fn intake(&self) -> &Admission {
        &self.intake
    }

    /// The settings, as text.
    pub(crate) fn all(&self) -> [(&'static str, String); 2] {
        let mode = if self.reject.load(Ordering::Relaxed) {
            "reject"
        } else {
            "wait"
        };
        [
            ("rate-limit", self.rate.load(Ordering::Relaxed).to_string()),
            ("rate-limit-mode", mode.to_owned()),
        ]
    }

    /// Changes a setting, if it is one of these.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Option<Result<(), SettingError>> {
        if name.eq_ignore_ascii_case(b"rate-limit-mode") {
            let reject = match value {
                b"wait" => false,
                b"reject" => true,
                _ => return Some(Err(SettingError::NoMode)),
            };
            self.reject.store(reject, Ordering::Relaxed);
            return Some(Ok(()));
        }
        name.eq_ignore_ascii_case(b"rate-limit")
            .then(|| self.set_rate(value))
    }

    fn set_rate(&self, value: &[u8]) -> Result<(), SettingError> {
        let rate = crate::wire::integer(value)
            .and_then(|rate| u64::try_from(rate).ok())
            .ok_or(SettingError::NoNumber)?;
        // Nothing is done under it that could leave it half done.
        let _changing = self.changing.lock();
        if rate == 0 {
            self.intake.set_policy(Fifo::new());
        } else {
            // What comes in a tenth of a second may come at once.
            let each = Rate::per_second(rate)
                .and_then(|each| each.burst((rate / 10).max(1)))
                .map_err(|_| SettingError::NoNumber)?;
            self.intake.set_policy(TokenBuckets::per_client(each));
        }
        self.rate.store(rate, Ordering::Relaxed);
        Ok(())
    }
}

/// The turn of a command that is several foms, or one that is told things: it waits for this, and begins then.
#[derive(Debug)]
pub(crate) struct Ticket;

/// The phases of a ticket.
#[fom(operation(Ticket), error(Infallible), transient)]
pub(crate) enum Admitting {
    #[phase(start, sync, to(Admitted))]
    Enter,
    #[phase(end)]
    Admitted,
}

impl AdmittingTransitions for Ticket {
    fn enter(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}

/// What a command is answered that came too soon.
pub(crate) const LIMITED: Reply = Reply::error("ERR rate limited");

/// The operation, if its turn has not come: it is out of the queue then.
pub(crate) fn unless_started<O: Operation>(mut queued: Queued<O>) -> Option<O> {
    let mut nobody = Context::from_waker(Waker::noop());
    if pin!(queued.started()).as_mut().poll(&mut nobody).is_ready() {
        return None;
    }
    queued.cancel();
    match Pin::new(&mut queued).poll(&mut nobody) {
        std::task::Poll::Ready(Err(failure)) => failure.operation,
        _ => None,
    }
}
