//! The timers of RFC 3261, 17 and table 4, for UDP.

use std::time::Duration;

use fom_runtime::time::Instant;
use serde::{Deserialize, Serialize};

/// Returns the time since the start of the router's clock. A call is saved with its times, and the router on bare tokio
/// has the same calls, so they have no instants of fom.
pub(crate) fn since_start(at: Instant) -> Duration {
    at.duration_since(Instant::START)
}

/// The times from which all others derive.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    /// The usual longest round trip. A repeat is first sent after this time.
    pub t1: Duration,
    /// The longest wait between two retransmissions of a request other than INVITE.
    pub t2: Duration,
    /// The longest time that a datagram may stay in the network.
    pub t4: Duration,
    /// The longest time that an INVITE may ring: timer C, more than three minutes (16.6 step 11).
    pub c: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Timers::scaled(Duration::from_millis(500))
    }
}

impl Timers {
    /// Returns the timers for another T1. Where round trips are short, all timers may be (17.1.1.1).
    pub fn scaled(t1: Duration) -> Timers {
        Timers {
            t1,
            t2: 8 * t1,
            t4: 10 * t1,
            c: Duration::from_secs(181),
        }
    }

    /// Timers B, D, F, H, J: after this long without an answer there is none. Later packets do not count as
    /// retransmissions.
    pub fn give_up(&self) -> Duration {
        64 * self.t1
    }
}

/// When to send again: timers A, E and G.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Repeat {
    /// The next time.
    pub(crate) at: Duration,
    wait: Duration,
    most: Duration,
}

impl Repeat {
    /// Timer A: an INVITE is repeated after T1, 2 T1, 4 T1, and so on (17.1.1.2).
    pub(crate) fn invite(now: Duration, timers: &Timers) -> Repeat {
        Repeat {
            at: now + timers.t1,
            wait: timers.t1,
            most: timers.give_up(),
        }
    }

    /// Timers E and G: doubling up to T2 (17.1.2.2, 17.2.1).
    pub(crate) fn other(now: Duration, timers: &Timers) -> Repeat {
        Repeat {
            at: now + timers.t1,
            wait: timers.t1,
            most: timers.t2,
        }
    }

    /// Starts again on another clock, after a restart.
    pub(crate) fn restart(&mut self, now: Duration, timers: &Timers) {
        self.wait = timers.t1;
        self.at = now + timers.t1;
    }

    /// Returns true if it is time, and then sets the next time.
    pub(crate) fn due(&mut self, now: Duration) -> bool {
        if now < self.at {
            return false;
        }
        self.wait = (self.wait * 2).min(self.most);
        self.at = now + self.wait;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut repeat: Repeat, until: Duration) -> Vec<u128> {
        let mut times = Vec::new();
        while repeat.at < until {
            times.push(repeat.at.as_millis());
            assert!(repeat.due(repeat.at));
        }
        times
    }

    #[test]
    fn an_invite_is_sent_seven_times_in_all() {
        let timers = Timers::default();
        let again = times(Repeat::invite(Duration::ZERO, &timers), timers.give_up());
        assert_eq!(again, [500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    }

    #[test]
    fn anything_else_eleven_times() {
        let timers = Timers::default();
        let again = times(Repeat::other(Duration::ZERO, &timers), timers.give_up());
        assert_eq!(
            again,
            [
                500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500
            ]
        );
    }
}
