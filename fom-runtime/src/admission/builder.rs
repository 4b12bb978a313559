//! How an intake is made.

use std::{fmt, sync::Arc};

use crate::{
    admission::{
        Admission, Fifo, Policy,
        gate::{Settings, Shared},
    },
    runtime::{Runtime, World},
};

/// What becomes of a request that finds the queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is given back, with [`RefusedReason::Full`](crate::RefusedReason::Full).
    #[default]
    Reject,
    /// It is let in, and the one that the policy says is answered with [`Cause::Shed`](crate::Cause::Shed) and its
    /// operation: the latest deadline, the lowest priority, the longest queue; by default the one that came last.
    Shed,
}

/// How full a queue is. It becomes full at its high mark, and normal again at its low one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// There is room.
    #[default]
    Normal,
    /// The high mark was reached, and the low one not since.
    Full,
}

impl Level {
    pub(super) fn of(full: bool) -> Self {
        if full { Self::Full } else { Self::Normal }
    }
}

/// An intake could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildAdmissionError {
    /// Nothing would ever start.
    #[error("`in_flight` is zero: nothing would ever start; let at least one fom run")]
    NothingInFlight,
    /// The marks are the wrong way round, or nothing would be let in.
    #[error("the marks must be low < high, and are {low} and {high}")]
    Marks {
        /// The low one.
        low: usize,
        /// The high one.
        high: usize,
    },
}

/// An intake to be made; see [`Admission::builder`].
#[must_use = "it is made by `build`"]
pub struct AdmissionBuilder {
    world: Arc<World>,
    settings: Settings,
    policy: Box<dyn Policy>,
}

impl fmt::Debug for AdmissionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBuilder")
            .field("in_flight", &self.settings.in_flight)
            .field("low", &self.settings.low)
            .field("high", &self.settings.high)
            .finish_non_exhaustive()
    }
}

impl AdmissionBuilder {
    pub(super) fn new(runtime: &Runtime) -> Self {
        let world = Arc::clone(runtime.world());
        let settings = Settings {
            in_flight: 16 * world.localities.len(),
            low: 900,
            high: 1000,
            when_full: WhenFull::default(),
            on_level: None,
        };
        Self {
            world,
            settings,
            policy: Box::new(Fifo::new()),
        }
    }

    /// How many foms of this intake run at a time, at most; sixteen for each locality by default. The fewer, the more the policy
    /// has to say; the more, the better what waits is hidden.
    pub fn in_flight(mut self, foms: usize) -> Self {
        self.settings.in_flight = foms;
        self
    }

    /// The water marks: at `high` queued requests the queue is full, and has room again at `low`. 900 and 1000 by default.
    pub fn marks(mut self, low: usize, high: usize) -> Self {
        self.settings.low = low;
        self.settings.high = high;
        self
    }

    /// What becomes of those that find it full. By default they are given back.
    pub fn when_full(mut self, what: WhenFull) -> Self {
        self.settings.when_full = what;
        self
    }

    /// Calls this at each mark that is reached, in order, on whatever thread comes by: it must not block. It holds no lock, and
    /// may use the intake; a panic in it is reported.
    pub fn on_level(mut self, call: impl Fn(Level) + Send + Sync + 'static) -> Self {
        self.settings.on_level = Some(Box::new(call));
        self
    }

    /// The policy to begin with; [`Fifo`] by default.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    ///
    /// [`BuildAdmissionError`].
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
        let shared = Shared::new(self.world, self.settings, self.policy);
        Ok(Admission { shared })
    }
}
