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
    pub(super) name: Option<&'static str>,
}

impl Default for StreamOptions {
    /// 65,536 requests in each locality, no limit of its own for one key, and a quantum of 16 requests or 100 us.
    fn default() -> Self {
        Self {
            bound: 65_536,
            per_key: usize::MAX,
            requests: 16,
            time: Duration::from_micros(100),
            name: None,
        }
    }
}

impl StreamOptions {
    /// Sets the name of the stream in listings. The default is the name of the operation.
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the maximum number of requests in each locality that were taken in and have not ended. A
    /// [`Producer`](crate::streams::Producer) hands over whole batches, so it may exceed the bound by one batch.
    pub fn bound(mut self, requests: usize) -> Self {
        self.bound = requests.max(1);
        self
    }

    /// Sets the maximum number of requests of one key that wait behind the request that has its turn. So a key with a
    /// long wait leaves room for others. The stream still takes in the requests that are on their way when the key
    /// becomes full. They are at most the requests that the locality takes in before its next round, and a batch of each
    /// [`Producer`](crate::streams::Producer).
    pub fn per_key(mut self, requests: usize) -> Self {
        self.per_key = requests.max(1);
        self
    }

    /// Sets how long a key may go on while other keys are ready: for this number of requests, or for this time, whichever
    /// ends first. Then the key goes to the tail. Each request counts for the time that it takes, but at least for its
    /// share. The share is the time divided by the number of requests, rounded up to a nanosecond.
    pub fn quantum(mut self, requests: u32, time: Duration) -> Self {
        self.requests = requests;
        self.time = time;
        self
    }
}
