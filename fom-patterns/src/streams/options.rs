//! The bounds of a stream, and how its keys take turns.

use std::time::Duration;

/// How many requests a stream takes in, and how its keys take turns.
///
/// ```
/// use std::time::Duration;
/// use fom_patterns::streams::StreamOptions;
///
/// let options = StreamOptions::default()
///     .bound(16_384)
///     .per_key(1_024)
///     .quantum(8, Duration::from_micros(200));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct StreamOptions {
    pub(super) bound: usize,
    pub(super) per_key: usize,
    pub(super) requests: u32,
    pub(super) time: Duration,
}

impl Default for StreamOptions {
    /// 65,536 requests in each locality, no limit of its own for one key, and a quantum of 16 requests or 100 us.
    fn default() -> Self {
        Self {
            bound: 65_536,
            per_key: usize::MAX,
            requests: 16,
            time: Duration::from_micros(100),
        }
    }
}

impl StreamOptions {
    /// Sets the maximum number of requests in each locality that were taken in and have not ended. A
    /// [`Producer`](crate::streams::Producer) hands over whole batches, so it may exceed the bound by one batch.
    pub fn bound(mut self, requests: usize) -> Self {
        self.bound = requests.max(1);
        self
    }

    /// Sets the maximum number of requests of one key that wait behind the one that has its turn. So a key with a long
    /// wait leaves room for others. Requests on their way when the key becomes full are still taken in. They are at
    /// most those that the locality takes in before its next round, and a batch of each
    /// [`Producer`](crate::streams::Producer).
    pub fn per_key(mut self, requests: usize) -> Self {
        self.per_key = requests.max(1);
        self
    }

    /// Sets how long a key may go on while others are ready: this many requests, or this time if it is over first. Then
    /// the key goes to the tail. Each request counts for the time that it takes, but at least for its share. The share
    /// is the time divided by the requests, rounded up to a nanosecond.
    pub fn quantum(mut self, requests: u32, time: Duration) -> Self {
        self.requests = requests;
        self.time = time;
        self
    }
}
