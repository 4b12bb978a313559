//! How long to wait before the next sync.
//!
//! The foms that were answered run now, and most of them commit again. If the next sync waits for them, their commits
//! share it. If it does not, two halves take turns forever, and each sync carries half of what it could. But the disk
//! is idle during the wait. If it takes longer to run all foms than to sync, it is better to let the two overlap.

use std::time::{Duration, Instant};

/// Longest wait, however slow the disk is.
const MOST: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Localities with answered foms, and how many of them have run these foms since.
    expected: usize,
    rounds: usize,
    answered_at: Option<Instant>,
    /// When the last of these localities reported.
    came_at: Option<Instant>,
    /// How long a round of the localities takes, and how long a sync takes. Moving averages in which the last value
    /// counts most.
    round: Duration,
    sync: Duration,
}

fn mean(before: Duration, now: Duration) -> Duration {
    if before.is_zero() {
        now
    } else {
        (before * 3 + now) / 4
    }
}

impl Gather {
    /// Notes that a locality has run all foms that were answered there.
    pub(super) fn came_round(&mut self, now: Instant) {
        self.rounds += 1;
        if self.rounds == self.expected {
            self.came_at = Some(now);
        }
    }

    /// Notes how long a sync took, and how many localities are answered.
    pub(super) fn answered(&mut self, sync: Duration, localities: usize, now: Instant) {
        self.sync = mean(self.sync, sync);
        if let (Some(answered), true) = (self.answered_at, self.expected > 0) {
            // A round that is not over by now takes at least this long.
            let came = self.came_at.unwrap_or(now);
            self.round = mean(self.round, came.saturating_duration_since(answered));
        }
        self.expected = localities;
        self.rounds = 0;
        self.answered_at = Some(now);
        self.came_at = None;
    }

    /// Returns until when to wait for the foms that still run. Returns `None` if none runs, or if a wait is not worth
    /// it.
    pub(super) fn until(&self) -> Option<Instant> {
        let runs = self.rounds < self.expected;
        let most = self.sync.min(MOST);
        let wait = (self.round * 3 / 2).clamp(most / 4, most);
        (runs && self.is_worth_it()).then(|| self.answered_at.map(|at| at + wait))?
    }

    /// Whether a round takes less than half as long as a sync. If it takes longer, two halves that overlap are better:
    /// the foms of one half run while the other half is synced.
    fn is_worth_it(&self) -> bool {
        self.round * 2 < self.sync
    }

    /// Returns how long a locality may gather before it hands over.
    pub(super) fn pause(&self) -> Duration {
        let pause = match self.is_worth_it() {
            true => self.sync,
            false => self.sync / 2,
        };
        pause.min(MOST)
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Returns a gather that has seen these times often.
    fn seen(sync: Duration, round: Duration) -> (Gather, Instant) {
        let (mut gather, mut now) = (Gather::default(), Instant::now());
        for _ in 0..20 {
            gather.answered(sync, 1, now);
            gather.came_round(now + round);
            now += sync + round;
        }
        gather.answered(sync, 1, now);
        (gather, now)
    }

    /// With a slow disk, all foms that were answered are committed together.
    #[test]
    fn a_slow_disk_is_waited_for_by_all() {
        let (mut gather, now) = seen(micros(4_000), micros(400));
        let until = gather.until().expect("it waits");
        assert!(until > now + micros(400) && until <= now + micros(4_000));
        gather.came_round(now + micros(300));
        assert_eq!(gather.until(), None, "all are there");
    }

    /// With a fast disk, runs and syncs overlap.
    #[test]
    fn a_fast_disk_is_not_kept_waiting() {
        let (gather, _) = seen(micros(100), micros(400));
        assert_eq!(gather.until(), None);
        assert_eq!(gather.pause(), micros(50));
    }

    /// Foms that do not commit again cost one bounded wait, and less after that.
    #[test]
    fn no_wait_for_other_foms_is_long() {
        let (gather, now) = seen(micros(40_000), micros(1_000));
        assert!(gather.until().expect("it waits") <= now + MOST);
        let mut gather = Gather::default();
        gather.answered(micros(1_000), 0, now);
        assert_eq!(gather.until(), None, "no fom was answered");
    }
}
