//! One token bucket, as a virtual time.
//!
//! The bucket is kept as the time when it will be full (the generic cell rate algorithm, ITU-T I.371). No tokens are
//! added, nothing is rounded at each look, and the time of the next token is a subtraction.
//!
//! This is our own code, not the `governor` crate. A bucket here is one number that one thread at a time touches. Its
//! rate changes while the bucket is half empty, and its level is read before the bucket is forgotten. In `governor` the
//! level is an atomic inside a limiter, and the quota is fixed when the limiter is made. The limiter allows neither a
//! new rate nor a read of the level, and the crate brings eleven crates.

use std::{fmt, time::Duration};

use fom_protocol::nanos;

use super::ConfigError;
use crate::admission::text::Shown;

/// The rate of a bucket: a number of tokens in some time, and the number of tokens that the bucket holds.
///
/// A bucket never gives more: the time between two tokens is rounded up, to a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    time: Duration,
    /// The time from one token to the next, in nanoseconds.
    interval: u64,
    depth: u64,
}

/// The default depth, as in Lustre.
const DEPTH: u64 = 3;

/// Ten years, so that no sum of times overflows 64 bits.
const LONGEST: u64 = 10 * 365 * 86_400 * 1_000_000_000;

impl Rate {
    /// Creates a rate of `tokens` tokens in `time`.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `tokens` or `time` is zero. Fails with [`ConfigError::OutOfRange`] if a
    /// bucket with the default burst would take more than ten years to fill.
    pub fn new(tokens: u64, time: Duration) -> Result<Self, ConfigError> {
        if tokens == 0 {
            return Err(ConfigError::Zero("rate"));
        }
        if time.is_zero() {
            return Err(ConfigError::Zero("time of a rate"));
        }
        Self {
            tokens,
            time,
            interval: nanos(time).div_ceil(tokens),
            depth: DEPTH,
        }
        .checked("rate")
    }

    /// Creates a rate of `tokens` tokens a second.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `tokens` is zero.
    pub fn per_second(tokens: u64) -> Result<Self, ConfigError> {
        Self::new(tokens, Duration::from_secs(1))
    }

    /// Sets how many tokens the bucket holds: that many requests may start at once after a pause. Default: 3.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Zero`] if `depth` is zero. Fails with [`ConfigError::OutOfRange`] if the bucket would
    /// take more than ten years to fill.
    pub fn burst(mut self, depth: u64) -> Result<Self, ConfigError> {
        if depth == 0 {
            return Err(ConfigError::Zero("burst"));
        }
        self.depth = depth;
        self.checked("burst")
    }

    fn checked(self, what: &'static str) -> Result<Self, ConfigError> {
        match self.interval.checked_mul(self.depth) {
            Some(whole) if whole <= LONGEST => Ok(self),
            _ => Err(ConfigError::OutOfRange(what)),
        }
    }

    /// Returns the time that an empty bucket takes to fill.
    fn whole(self) -> u64 {
        self.interval * self.depth
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate={}", self.tokens)?;
        if self.time != Duration::from_secs(1) {
            write!(f, "/{}", Shown(self.time))?;
        }
        write!(f, " burst={}", self.depth)
    }
}

/// The level of a bucket. The default is a full bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// The time when the bucket is full, if nothing is taken until then.
    full_at: u64,
}

impl Level {
    pub(super) fn full_at(self) -> u64 {
        self.full_at
    }

    /// Returns the time of the next token.
    pub(super) fn next(self, rate: Rate) -> u64 {
        self.full_at.saturating_sub(rate.whole() - rate.interval)
    }

    /// Takes a token, which may not be there yet.
    pub(super) fn take(&mut self, rate: Rate, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(rate.interval);
    }

    /// Changes the rate. The tokens in the bucket stay, as far as the new bucket holds them. The rest of a deeper
    /// bucket comes with time.
    pub(super) fn change(&mut self, old: Rate, new: Rate, now: u64) {
        let missing = self.full_at.saturating_sub(now);
        let there = old.whole().saturating_sub(missing);
        // Each time is at most ten years, so the product fits.
        let there = u128::from(there) * u128::from(new.interval) / u128::from(old.interval);
        let there = u64::try_from(there).unwrap_or(u64::MAX).min(new.whole());
        self.full_at = now.saturating_add(new.whole() - there);
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rate(tokens: u64, burst: u64) -> Rate {
        Rate::per_second(tokens).unwrap().burst(burst).unwrap()
    }

    fn given(level: &mut Level, rate: Rate, now: u64) -> usize {
        let mut given = 0;
        while level.next(rate) <= now {
            level.take(rate, now);
            given += 1;
        }
        given
    }

    /// NR-05: a bucket gives no more than its depth at once, and no more than its rate after that.
    #[test]
    fn a_bucket_gives_its_depth_and_then_its_rate() {
        let (rate, mut level) = (rate(10, 4), Level::default());
        assert_eq!(given(&mut level, rate, 0), 4);
        assert_eq!(level.next(rate), SECOND / 10);
        assert_eq!(given(&mut level, rate, SECOND / 10 - 1), 0);
        assert_eq!(given(&mut level, rate, SECOND / 10), 1);
        assert_eq!(given(&mut level, rate, 100 * SECOND), 4);
    }

    /// NR-05: a changed rate neither gives a new bucket nor takes away tokens that fit.
    #[test]
    fn a_changed_rate_keeps_the_tokens() {
        let (slow, fast, deep) = (rate(1, 4), rate(100, 2), rate(1, 10));
        let mut level = Level::default();
        level.take(slow, 0);
        // Three tokens are left. The new bucket holds two of them.
        level.change(slow, fast, 0);
        assert_eq!(given(&mut level, fast, 0), 2);
        let mut level = Level::default();
        level.take(slow, 0);
        level.change(slow, deep, 0);
        assert_eq!(given(&mut level, deep, 0), 3);
    }
}
