//! Delays, to see how a program behaves when some of its requests are slow.

use std::{collections::BTreeMap, time::Duration};

use fom_protocol::nanos;
use fom_runtime::time::Instant;

use crate::admission::{ConfigError, Next, Policy, Request, Tags, text::Shown};

/// Delays some requests, to test how clients behave under a slow server. Each request is delayed with a given
/// probability, by a random time. The other requests are declined, so they go to the first-in-first-out queue.
///
/// The same seed gives the same delays for the same submissions. Sheds the request that would start last.
#[derive(Debug)]
pub struct Delay {
    least: Duration,
    most: Duration,
    percent: u8,
    seed: u64,
    queue: BTreeMap<(Instant, u64), Request>,
    name: String,
}

impl Delay {
    /// Creates the policy. It delays this share of the requests, each by a time from `least` to `most`. The seed of the
    /// random numbers is 0.
    ///
    /// # Errors
    ///
    /// Fails with [`ConfigError::Percent`] if `percent` is more than 100, and with [`ConfigError::Order`] if `least` is
    /// more than `most`.
    pub fn new(least: Duration, most: Duration, percent: u8) -> Result<Self, ConfigError> {
        if percent > 100 {
            return Err(ConfigError::Percent(percent));
        }
        if least > most {
            return Err(ConfigError::Order("least", "most"));
        }
        let delay = Self {
            least,
            most,
            percent,
            seed: 0,
            queue: BTreeMap::new(),
            name: String::new(),
        };
        Ok(delay.seed(0))
    }

    /// Sets the seed of the random numbers.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.name = format!(
            "delay least={} most={} percent={} seed={seed}",
            Shown(self.least),
            Shown(self.most),
            self.percent
        );
        self
    }

    /// Returns when the request may start, or `None` if it is not delayed.
    fn place(&self, request: &Tags) -> Option<(Instant, u64)> {
        let number = request.number();
        let chosen = mixed(self.seed ^ mixed(number));
        if chosen % 100 >= u64::from(self.percent) {
            return None;
        }
        let span = nanos(self.most - self.least).saturating_add(1);
        let delay = self.least + Duration::from_nanos(mixed(chosen) % span);
        Some((request.since() + delay, number))
    }
}

/// Returns a number without any likeness to this one (splitmix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

impl Policy for Delay {
    fn name(&self) -> &str {
        &self.name
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        match self.place(&request) {
            Some(place) => {
                self.queue.insert(place, request);
                Ok(())
            }
            None => Err(request),
        }
    }

    fn get(&mut self, now: Instant, force: bool) -> Next {
        let Some(first) = self.queue.first_entry() else {
            return Next::Empty;
        };
        let (due, _) = *first.key();
        if due > now && !force {
            return Next::Throttled(due);
        }
        Next::Request(first.remove())
    }

    fn remove(&mut self, request: &Tags) -> Option<Request> {
        let place = self.place(request)?;
        self.queue.remove(&place)
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.queue.values().for_each(|request| visitor(request));
    }

    fn victim(&mut self) -> Option<Request> {
        self.queue.pop_last().map(|(_, request)| request)
    }
}
