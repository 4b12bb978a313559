//! How long it is worth waiting before the next sync.
//!
//! Those who were answered run now, and most of them commit again. What they commit shares the next sync if that waits for them;
//! if it does not, two halves take turns for ever, and each sync carries half of what it could. But the disk does nothing
//! meanwhile: where running all of them takes longer than a sync, it is better to let the two overlap.

use std::time::{Duration, Instant};

/// The longest that is waited, however slow the disk is.
const MOST: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Localities that had somebody answered, and how many of them have run those since.
    expected: usize,
    rounds: usize,
    answered_at: Option<Instant>,
    /// When the last of them came round.
    came_at: Option<Instant>,
    /// How long that takes, and how long a sync takes: means of what was seen, the last counts most.
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
    /// A locality has run all who were answered there.
    pub(super) fn came_round(&mut self, now: Instant) {
        self.rounds += 1;
        if self.rounds == self.expected {
            self.came_at = Some(now);
        }
    }

    /// A sync took so long; so many localities are answered.
    pub(super) fn answered(&mut self, sync: Duration, localities: usize, now: Instant) {
        self.sync = mean(self.sync, sync);
        if let (Some(answered), true) = (self.answered_at, self.expected > 0) {
            // If they have not come by now it takes at least as long as that.
            let came = self.came_at.unwrap_or(now);
            self.round = mean(self.round, came.saturating_duration_since(answered));
        }
        self.expected = localities;
        self.rounds = 0;
        self.answered_at = Some(now);
        self.came_at = None;
    }

    /// Until when it is worth waiting for those who still run; none: nobody does, or it is not.
    pub(super) fn until(&self) -> Option<Instant> {
        let runs = self.rounds < self.expected;
        let most = self.sync.min(MOST);
        let wait = (self.round * 3 / 2).clamp(most / 4, most);
        (runs && self.is_worth_it()).then(|| self.answered_at.map(|at| at + wait))?
    }

    /// Running them takes much less time than a sync. Where it takes half of it, two halves that overlap are the better ones:
    /// those who wait for the one run while the other is on its way.
    fn is_worth_it(&self) -> bool {
        self.round * 2 < self.sync
    }

    /// How long a locality may gather before it hands over.
    pub(super) fn pause(&self) -> Duration {
        let pause = match self.is_worth_it() {
            true => self.sync,
            false => self.sync / 2,
        };
        pause.min(MOST)
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// A gather that has seen this often.
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

    /// A slow disk: all who were answered go down together.
    #[test]
    fn a_slow_disk_is_waited_for_by_all() {
        let (mut gather, now) = seen(micros(4_000), micros(400));
        let until = gather.until().expect("it waits");
        assert!(until > now + micros(400) && until <= now + micros(4_000));
        gather.came_round(now + micros(300));
        assert_eq!(gather.until(), None, "all are there");
    }

    /// A fast one: running and syncing overlap.
    #[test]
    fn a_fast_disk_is_not_kept_waiting() {
        let (gather, _) = seen(micros(100), micros(400));
        assert_eq!(gather.until(), None);
        assert_eq!(gather.pause(), micros(50));
    }

    /// Those who do not commit again cost one bounded wait, and then less.
    #[test]
    fn nobody_is_waited_for_for_long() {
        let (gather, now) = seen(micros(40_000), micros(1_000));
        assert!(gather.until().expect("it waits") <= now + MOST);
        let mut gather = Gather::default();
        gather.answered(micros(1_000), 0, now);
        assert_eq!(gather.until(), None, "nobody was answered");
    }
}
