//! Failed attempts at a phase.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{clock::elapsed, serial};

/// A failed attempt at a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// The number of the attempt in its visit of the phase. The first attempt has number 1.
    pub number: u32,
    /// The text of the error, and of its [sources](std::error::Error::source), joined by `: `. At most 400 characters.
    pub error: String,
    /// How long ago the attempt failed, when this value was made. With a journal, this includes the time in which the
    /// program did not run.
    #[serde(serialize_with = "serial::seconds")]
    pub age: Duration,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}: {}", self.number, self.error)
    }
}

/// A failed attempt, as a fom and its record in the journal keep it.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// As [`Attempt::number`].
    pub number: u32,
    /// As [`Attempt::error`].
    pub error: String,
    /// When the attempt failed: on the runtime's clock, or in the time of the journal. A time before the start of the
    /// clock is negative, in two's complement.
    pub at: u64,
}

impl Tried {
    /// Returns the attempt as it is shown at `now`, which is a time of the same clock.
    #[must_use]
    pub fn shown(&self, now: u64) -> Attempt {
        Attempt {
            number: self.number,
            error: self.error.clone(),
            age: elapsed(now, self.at),
        }
    }
}
