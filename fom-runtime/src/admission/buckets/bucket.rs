//! One token bucket, as a virtual time.
//!
//! The bucket is kept as the time when it will be full (the generic cell rate algorithm, ITU-T I.371): there are no tokens to be
//! added, nothing is rounded at each look, and the time of the next token is a subtraction.
//!
//! Of our own, and not the `governor` crate: this is one number that is touched by one thread at a time, whose rate is changed
//! while it is half empty and whose level is asked for before it is forgotten. There the level is an atomic inside of a limiter whose
//! quota is fixed when it is made, which can be asked for neither, and which brings eleven crates.

use std::{fmt, time::Duration};

use super::ConfigError;
use crate::{admission::text::Shown, clock::nanos};

/// How many requests a bucket gives: so many tokens in some time, and how many it holds.
///
/// Never more than that: the time between two tokens is rounded up, to a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    time: Duration,
    /// From one token to the next, in nanoseconds.
    interval: u64,
    depth: u64,
}

/// The depth where none is given, as Lustre's.
const DEPTH: u64 = 3;

/// So that no sum of times leaves 64 bits: ten years.
const LONGEST: u64 = 10 * 365 * 86_400 * 1_000_000_000;

impl Rate {
    /// So many tokens in this time.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`], and [`ConfigError::OutOfRange`] for less than one token in ten years.
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

    /// So many tokens a second.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`].
    pub fn per_second(tokens: u64) -> Result<Self, ConfigError> {
        Self::new(tokens, Duration::from_secs(1))
    }

    /// How many tokens the bucket holds: so many requests may start at once after a pause. Three, if nothing is said.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Zero`], and [`ConfigError::OutOfRange`] when it would take ten years to fill.
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

    /// The time that an empty bucket takes to fill.
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

/// A full bucket is the default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// When it is full, if nothing is taken until then.
    full_at: u64,
}

impl Level {
    pub(super) fn full_at(self) -> u64 {
        self.full_at
    }

    /// When there is a token.
    pub(super) fn next(self, rate: Rate) -> u64 {
        self.full_at.saturating_sub(rate.whole() - rate.interval)
    }

    /// Takes a token, which may not be there yet.
    pub(super) fn take(&mut self, rate: Rate, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(rate.interval);
    }

    /// The rate changes: what tokens there are stay, as far as the new bucket holds them; of a deeper one the rest comes with time.
    pub(super) fn change(&mut self, old: Rate, new: Rate, now: u64) {
        let missing = self.full_at.saturating_sub(now);
        let there = old.whole().saturating_sub(missing);
        // Below ten years each: the product fits.
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

    /// NR-05: no more than its depth at once, and no more than its rate after that.
    #[test]
    fn a_bucket_gives_its_depth_and_then_its_rate() {
        let (rate, mut level) = (rate(10, 4), Level::default());
        assert_eq!(given(&mut level, rate, 0), 4);
        assert_eq!(level.next(rate), SECOND / 10);
        assert_eq!(given(&mut level, rate, SECOND / 10 - 1), 0);
        assert_eq!(given(&mut level, rate, SECOND / 10), 1);
        assert_eq!(given(&mut level, rate, 100 * SECOND), 4);
    }

    /// NR-05: a changed rate neither gives a new bucket nor takes tokens away that fit.
    #[test]
    fn a_changed_rate_keeps_the_tokens() {
        let (slow, fast, deep) = (rate(1, 4), rate(100, 2), rate(1, 10));
        let mut level = Level::default();
        level.take(slow, 0);
        // Three left, of which the new one holds two.
        level.change(slow, fast, 0);
        assert_eq!(given(&mut level, fast, 0), 2);
        let mut level = Level::default();
        level.take(slow, 0);
        level.change(slow, deep, 0);
        assert_eq!(given(&mut level, deep, 0), 3);
    }
}
