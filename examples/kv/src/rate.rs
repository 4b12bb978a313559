//! The rate of commands of each client: an admission policy in front of the localities.
//!
//! Without a rate, commands do not pass here.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use fom_patterns::admission::{Admission, BuildAdmissionError, Fifo, Queued, Rate, TokenBuckets};
use fom_runtime::error::Exclusive;
use fom_runtime::prelude::*;

use crate::live::SettingError;
use crate::wire::Reply;

/// The most commands that wait for their turn. Each client has its own, far lower limit.
const MOST: usize = 1 << 20;

/// What happens to a command beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The command waits for its turn.
    Wait,
    /// The command gets an error.
    Reject,
}

/// The rate of commands for each client.
#[derive(Debug)]
pub(crate) struct RateLimit {
    intake: Admission,
    /// Commands a second; 0 means no limit.
    rate: AtomicU64,
    reject: AtomicBool,
    /// Serialises changes of the policy.
    changing: Mutex<()>,
}

impl RateLimit {
    pub(crate) fn new(runtime: &Runtime) -> Result<Self, BuildAdmissionError> {
        let intake = Admission::builder(runtime)
            // Commands that wait for an element or the disk keep no other command out.
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

    /// Returns what happens to commands beyond the rate. Returns `None` without a rate.
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

    /// Returns the queue.
    pub(crate) fn intake(&self) -> &Admission {
        &self.intake
    }

    /// Returns the settings, as text.
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
        // No critical section leaves the policy half changed.
        let _changing = self.changing.lock();
        if rate == 0 {
            self.intake.set_policy(Fifo::new());
        } else {
            // The commands of a tenth of a second may come at once.
            let each = Rate::per_second(rate)
                .and_then(|each| each.burst((rate / 10).max(1)))
                .map_err(|_| SettingError::NoNumber)?;
            self.intake.set_policy(TokenBuckets::per_client(each));
        }
        self.rate.store(rate, Ordering::Relaxed);
        Ok(())
    }
}

/// The turn of a command that has several foms, or a fom that takes events. The command waits for the ticket, and then
/// begins.
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

/// The reply to a command that came too soon.
pub(crate) const LIMITED: Reply = Reply::error("ERR rate limited");

/// Takes the operation out of the queue and returns it, if its turn has not come.
pub(crate) fn unless_started<O: Operation>(mut queued: Queued<O>) -> Option<O> {
    let mut no_waker = Context::from_waker(Waker::noop());
    if pin!(queued.started())
        .as_mut()
        .poll(&mut no_waker)
        .is_ready()
    {
        return None;
    }
    queued.cancel();
    match Pin::new(&mut queued).poll(&mut no_waker) {
        std::task::Poll::Ready(Err(failure)) => failure.operation.map(Exclusive::into_inner),
        _ => None,
    }
}
