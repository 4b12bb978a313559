//! Expiring keys: checked at each access, and swept if no command accesses them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fom_runtime::time::{Clock, Instant};

use super::Shard;

/// The time of day, on a clock that a test can move.
#[derive(Clone, Debug)]
pub(crate) struct Wall {
    clock: Clock,
    /// The time when the clock began, in milliseconds since 1970.
    began: u64,
}

impl Wall {
    pub(crate) fn new(clock: Clock) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let began = millis(now.saturating_sub(clock.now() - Instant::START));
        Self { clock, began }
    }

    /// Returns the milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.began + millis(self.clock.now() - Instant::START)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Shard {
    /// Returns the milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.wall.now()
    }

    /// Removes the key if it has expired.
    pub(super) fn drop_expired(&mut self, key: &[u8]) {
        if self.expiring.is_empty() {
            return;
        }
        let expires = self.entries.get(key).and_then(|entry| entry.expires);
        if expires.is_some_and(|expires| expires <= self.now()) {
            self.remove(key);
        }
    }

    pub(super) fn note_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let Some(expires) = expires else { return };
        self.expiring.insert((expires, key.into()));
    }

    pub(super) fn unexpire(&mut self, key: &[u8], expires: Option<u64>) {
        if let Some(expires) = expires {
            self.expiring.remove(&(expires, key.into()));
        }
    }

    /// Returns how many keys have an expiry.
    pub(crate) fn expiring(&self) -> usize {
        self.expiring.len()
    }

    /// Removes at most `most` expired keys. Other work runs between two sweeps.
    pub(crate) fn sweep(&mut self, most: usize) {
        if self.expiring.is_empty() {
            return;
        }
        let now = self.now();
        for _ in 0..most {
            match self.expiring.first() {
                Some((expires, _)) if *expires <= now => {}
                _ => break,
            }
            if let Some((_, key)) = self.expiring.pop_first() {
                self.remove(&key);
            }
        }
        self.settle();
    }
}
