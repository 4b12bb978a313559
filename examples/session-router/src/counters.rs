//! The router's counters, and how they are printed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the count to `count`.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// Returns the count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident: $label:literal,)*) => {
        /// Everything that the router counts.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: Counter,)* }

        impl Counters {
            /// Returns all counters, in order, with their words for a table.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($label, self.$name.get()),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Datagrams that arrived.
    received: "datagrams in",
    /// Datagrams that the kernel dropped because the buffer of the socket was full. The router reads this count
    /// whenever nothing comes for a moment, and every 1,024 datagrams.
    lost: "dropped by the kernel",
    /// Datagrams that went out.
    sent: "datagrams out",
    /// Datagrams that the network did not take.
    unsent: "not sent",
    /// Malformed requests that were answered.
    refused: "malformed, answered",
    /// Packets that were dropped because there is no receiver for an answer.
    dropped: "malformed, dropped",
    /// Packets in good form that belong to nothing that the router knows.
    stray: "strays",
    /// Retransmissions that arrived and were absorbed.
    absorbed: "retransmissions absorbed",
    /// Retransmissions that the router sent.
    repeated: "retransmissions sent",
    /// Calls that began.
    calls: "calls",
    /// Calls that a journal brought back.
    resumed: "calls that came back",
    /// Users that a journal brought back with their bindings.
    bindings: "users that came back",
    /// Calls that were answered and hung up.
    completed: "completed",
    /// Answered calls without an ACK of the caller.
    unconfirmed: "never confirmed",
    /// Calls that the caller gave up.
    cancelled: "cancelled by the caller",
    /// Calls that ended with a final answer of 300 and above.
    rejected: "rejected",
    /// Calls that were sent to more than one endpoint.
    forked: "forked",
    /// Requests that were turned away because the router was full.
    overloaded: "503, overloaded",
    /// Requests that got 503 because their source sent more than its rate.
    limited: "503, over a source's rate",
    /// Packets that the router dropped because their source sent more than its rate.
    ignored: "dropped, over a source's rate",
    /// REGISTER requests that were served.
    registered: "registrations",
    /// Call detail records that could not be written.
    unrecorded: "records not written",
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, count) in self.all().filter(|(_, count)| *count > 0) {
            writeln!(f, "  {label:<29} {:>10}", crate::report::count(count))?;
        }
        Ok(())
    }
}
