//! The builder of an intake.

use std::{borrow::Cow, fmt};

use fom_runtime::Runtime;
use serde::Serialize;

use crate::admission::{
    Admission, Fifo, Policy,
    intake::{Settings, Shared},
};

/// The result of a request that finds the queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The caller gets the request back, with [`RefusedReason::Full`](fom_runtime::error::RefusedReason::Full).
    #[default]
    Reject,
    /// The request enters, and the policy chooses a request to shed, that is, to remove from the queue. By default that
    /// is the newest request. Some policies choose by the latest deadline, the lowest priority or the longest queue. The
    /// shed request fails with [`Cause::Shed`](fom_runtime::Cause::Shed), and the failure has its operation.
    Shed,
}

/// The fill level of a queue. A queue becomes full at its high mark, and normal again at its low mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The queue has room.
    #[default]
    Normal,
    /// The high mark was reached, and the low mark was not reached since.
    Full,
}

/// The error of [`AdmissionBuilder::build`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildAdmissionError {
    /// `in_flight` is zero: nothing would ever start.
    #[error("`in_flight` is zero, so no fom would ever start; it must be at least one")]
    NothingInFlight,
    /// The low mark is not below the high mark.
    #[error("the low mark must be below the high mark; they are {low} and {high}")]
    Marks {
        /// The low mark.
        low: usize,
        /// The high mark.
        high: usize,
    },
}

/// A builder for an intake; see [`Admission::builder`].
#[must_use = "it is made by `build`"]
pub struct AdmissionBuilder {
    runtime: Runtime,
    settings: Settings,
    policy: Box<dyn Policy>,
}

impl fmt::Debug for AdmissionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBuilder")
            .field("name", &self.settings.name)
            .field("in_flight", &self.settings.in_flight)
            .field("low", &self.settings.low)
            .field("high", &self.settings.high)
            .finish_non_exhaustive()
    }
}

impl AdmissionBuilder {
    pub(super) fn new(runtime: &Runtime) -> Self {
        let settings = Settings {
            name: Cow::Borrowed("admission"),
            in_flight: 16 * runtime.localities(),
            low: 900,
            high: 1000,
            when_full: WhenFull::default(),
            on_level: None,
        };
        Self {
            runtime: runtime.detached(),
            settings,
            policy: Box::new(Fifo::new()),
        }
    }

    /// Sets the name of this intake in listings. Default: `admission`.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets how many foms of this intake can run at a time. Default: 16 per locality. With fewer foms, the policy
    /// decides more. With more foms, the waits of foms are hidden better.
    pub fn in_flight(mut self, foms: usize) -> Self {
        self.settings.in_flight = foms;
        self
    }

    /// Sets the marks. The queue is full at `high` queued requests, and has room again at `low`. Default: 900 and 1,000.
    pub fn marks(mut self, low: usize, high: usize) -> Self {
        self.settings.low = low;
        self.settings.high = high;
        self
    }

    /// Sets what happens to a request that finds the queue full. Default: [`WhenFull::Reject`].
    pub fn when_full(mut self, what: WhenFull) -> Self {
        self.settings.when_full = what;
        self
    }

    /// Calls `call` at each mark that is reached, in order. Any thread can make the call, so `call` must not block. No
    /// lock is held, and `call` may use the intake. A panic in `call` is reported.
    pub fn on_level(mut self, call: impl Fn(Level) + Send + Sync + 'static) -> Self {
        self.settings.on_level = Some(Box::new(call));
        self
    }

    /// Sets the first policy. Default: [`Fifo`].
    pub fn policy(mut self, policy: impl Into<Box<dyn Policy>>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Builds the intake.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildAdmissionError`] if `in_flight` is zero, or `low` is not below `high`.
    pub fn build(self) -> Result<Admission, BuildAdmissionError> {
        let Settings {
            in_flight,
            low,
            high,
            ..
        } = self.settings;
        if in_flight == 0 {
            return Err(BuildAdmissionError::NothingInFlight);
        }
        if low >= high {
            return Err(BuildAdmissionError::Marks { low, high });
        }
        let shared = Shared::new(self.runtime, self.settings, self.policy);
        Ok(Admission { shared })
    }
}
