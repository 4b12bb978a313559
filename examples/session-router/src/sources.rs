//! How fast each source may send, so that one source cannot take the router from the others.
//!
//! All sources share one socket, one parser, and the localities. `Sources` decides about a packet before the parser
//! reads it, by the address that the kernel gives. Each source has token buckets:
//!
//! - `packets`, for every packet: it limits what one source can make the parser read.
//! - `begins`, for a packet that belongs to no call that the router knows: a new INVITE, a REGISTER, a stray, noise.
//! - `refusals`, for the answers 503. Beyond them the router drops a packet, which costs a look or two into tables.
//!
//! A refused packet costs its source an eighth of a token. So a source that sends a little too much gets most of its
//! rate. A source that sends eight times its rate gets nothing until it slows down, since all others wait for the work
//! that a flood causes. While the kernel drops packets, each received packet also counts for lost ones.
//!
//! `Places` limits how much a source may hold at a time.
//!
//! An intake of `fom-patterns` lets operations wait for a token in a queue. A caller in SIP must not wait: it repeats
//! its INVITE after 500 ms. So the router refuses at once, and this module needs no queue.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::places::Places;

/// What each source may take of the router.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Packets a second of one source that belong to no call that the router knows; as many may come at once. At least
    /// 1.
    pub rate: u32,
    /// The share of one source, in percent of the places that it holds and those that are free. Below 100.
    pub share: u32,
    /// The most sources that have buckets of their own at a time. All others share the buckets of one.
    pub sources: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rate: 2_500,
            share: 50,
            sources: 16_384,
        }
    }
}

/// How many packets of any kind a source may send for each that begins something. A call takes six or seven, and some
/// come twice.
const PACKETS: u32 = 10;

/// A packet costs one more token for each so many bytes, so the rate of a source also limits the bytes that the router
/// keeps.
const BYTES: usize = 2048;

/// A source gets one answer 503 for each so many tokens of its rate.
const REFUSALS: u32 = 10;

/// So many refused packets cost a token.
const TURNED_AWAY: u32 = 8;

/// A source may owe the tokens of so much time. Without a debt, a source that sends in bursts gets a token before each
/// burst.
const DEBT: Duration = Duration::from_millis(100);

/// The most packets that one received packet counts for.
const MOST_UNSEEN: u64 = 16;

/// The shortest time between two searches of the table for sources to forget.
const SWEEP: Duration = Duration::from_millis(100);

/// Where packets come from: an IPv4 address, or an IPv6 /64, the least that one customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// An IPv4 address, also one that is mapped into IPv6.
    V4(u32),
    /// The upper half of an IPv6 address.
    V6(u64),
    /// All sources that found the table full.
    Rest,
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source::V4(address.to_bits()),
            IpAddr::V6(address) => Source::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The router reads it.
    Read,
    /// The router answers it with 503.
    Refuse,
    /// The router drops it.
    Drop,
}

/// A token bucket that holds the tokens of one second. It keeps the time at which it is full again (the generic cell
/// rate algorithm), so the table can forget a full bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    full_at: Duration,
}

impl Bucket {
    /// Takes so many tokens if the bucket has them. A packet costs no more than a full bucket, else it never passes.
    fn take(&mut self, tokens: u32, rate: u32, now: Duration) -> bool {
        let second = Duration::from_secs(1);
        let cost = second / rate * tokens.min(rate);
        let full_at = self.full_at.max(now).saturating_add(cost);
        let taken = full_at <= now.saturating_add(second);
        if taken {
            self.full_at = full_at;
        }
        taken
    }

    /// Takes an eighth of so many tokens, also from an empty bucket.
    fn turned_away(&mut self, tokens: u32, rate: u32, now: Duration) {
        let second = Duration::from_secs(1);
        let part = second / rate * tokens / TURNED_AWAY;
        let full_at = self.full_at.max(now).saturating_add(part);
        self.full_at = full_at.min(now.saturating_add(second + DEBT));
    }

    fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }
}

/// Returns how many tokens a packet of so many bytes costs its source.
fn tokens(bytes: usize) -> u32 {
    1 + (bytes / BYTES) as u32
}

/// The buckets of one source.
#[derive(Debug, Default)]
struct Buckets {
    packets: Bucket,
    begins: Bucket,
    refusals: Bucket,
}

impl Buckets {
    fn are_full(&self, now: Duration) -> bool {
        self.packets.is_full(now) && self.begins.is_full(now) && self.refusals.is_full(now)
    }
}

/// The buckets of all sources.
///
/// The table is bounded. It forgets only sources with full buckets, which get full buckets when they come again. So a
/// source cannot fill its buckets by making the router forget it. A source beyond the bound shares the buckets of
/// [`Source::Rest`]. A source with a call is never beyond the bound, so the table has at most one more entry for each
/// call.
#[derive(Debug)]
pub(crate) struct Sources {
    limits: Limits,
    known: HashMap<Source, Buckets>,
    rest: Buckets,
    /// The number of packets that one received packet counts for.
    weight: u32,
    swept: Option<Duration>,
}

impl Sources {
    pub(crate) fn new(limits: Limits) -> Sources {
        Sources {
            limits,
            known: HashMap::new(),
            rest: Buckets::default(),
            weight: 1,
            swept: None,
        }
    }

    /// Notes how many packets the router received since the last call, and how many the kernel dropped. The sources of
    /// the dropped ones are unknown: each source pays for the same part of them as of the received ones.
    pub(crate) fn dropped(&mut self, received: u64, dropped: u64) {
        self.weight = 1 + (dropped / received.max(1)).min(MOST_UNSEEN - 1) as u32;
    }

    /// Charges a packet of so many bytes from `address`. Returns the source that pays, and whether it had the tokens.
    /// `calls` knows which sources have calls.
    pub(crate) fn packet(
        &mut self,
        address: IpAddr,
        bytes: usize,
        calls: &Places,
        now: Duration,
    ) -> (Source, bool) {
        let source = self.enter(address.into(), calls, now);
        let (rate, tokens) = (self.limits.rate, self.weight * tokens(bytes));
        let buckets = self.buckets(source);
        let all = rate.saturating_mul(PACKETS);
        let taken = buckets.packets.take(tokens, all, now);
        if !taken {
            buckets.begins.turned_away(tokens, rate, now);
        }
        (source, taken)
    }

    /// Charges a packet of so many bytes that belongs to no call that the router knows.
    pub(crate) fn begin(&mut self, source: Source, bytes: usize, now: Duration) -> Verdict {
        let (rate, tokens) = (self.limits.rate, self.weight * tokens(bytes));
        let buckets = self.buckets(source);
        if buckets.begins.take(tokens, rate, now) {
            return Verdict::Read;
        }
        buckets.begins.turned_away(tokens, rate, now);
        if buckets.refusals.take(1, (rate / REFUSALS).max(1), now) {
            Verdict::Refuse
        } else {
            Verdict::Drop
        }
    }

    /// Returns how many sources have buckets of their own.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.len()
    }

    fn buckets(&mut self, source: Source) -> &mut Buckets {
        self.known.get_mut(&source).unwrap_or(&mut self.rest)
    }

    /// Gives `source` buckets. Returns [`Source::Rest`] if the table is full.
    fn enter(&mut self, source: Source, calls: &Places, now: Duration) -> Source {
        if self.known.contains_key(&source) {
            return source;
        }
        if self.known.len() >= self.limits.sources {
            self.forget(now);
        }
        if self.known.len() >= self.limits.sources && !calls.holds(source) {
            return Source::Rest;
        }
        self.known.insert(source, Buckets::default());
        source
    }

    /// Forgets the sources with full buckets.
    fn forget(&mut self, now: Duration) {
        if self
            .swept
            .is_some_and(|swept| now < swept.saturating_add(SWEEP))
        {
            return;
        }
        self.swept = Some(now);
        self.known.retain(|_, buckets| !buckets.are_full(now));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;

    use fom_runtime::time::{Clock, TestClock};

    use super::*;
    use crate::call::since_start;

    fn sources(rate: u32, sources: usize) -> Sources {
        Sources::new(Limits {
            rate,
            sources,
            ..Limits::default()
        })
    }

    fn v4(last: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + last))
    }

    fn v6(text: &str) -> IpAddr {
        IpAddr::V6(text.parse::<Ipv6Addr>().expect("an address"))
    }

    /// Sends so many packets that begin something. Returns how many are read, answered with 503, and dropped.
    fn flood(
        sources: &mut Sources,
        calls: &Places,
        from: IpAddr,
        packets: usize,
        now: Duration,
    ) -> [usize; 3] {
        let mut became = [0; 3];
        for _ in 0..packets {
            let verdict = match sources.packet(from, 500, calls, now) {
                (source, true) => sources.begin(source, 500, now),
                (_, false) => Verdict::Drop,
            };
            became[verdict as usize] += 1;
        }
        became
    }

    #[test]
    fn a_source_is_an_address_of_ipv4_or_a_64th_of_ipv6() {
        let source = |address: IpAddr| Source::from(address);
        assert_ne!(source(v4(1)), source(v4(2)));
        assert_eq!(source(v4(1)), source(v6("::ffff:10.0.0.1")));
        assert_eq!(
            source(v6("2001:db8:0:1::1")),
            source(v6("2001:db8:0:1:ffff::9"))
        );
        assert_ne!(source(v6("2001:db8:0:1::1")), source(v6("2001:db8:0:2::1")));
    }

    #[test]
    fn one_source_has_its_rate_and_another_has_all_of_its_own() {
        let (clock, calls) = (TestClock::new(), Places::new(100, 50));
        let now = || since_start(Clock::from(&clock).now());
        let mut sources = sources(100, 8);
        assert_eq!(
            flood(&mut sources, &calls, v4(1), 40_000, now()),
            [100, 10, 39_890]
        );
        assert_eq!(
            flood(&mut sources, &calls, v4(2), 100, now()),
            [100, 0, 0],
            "another"
        );
        clock.advance(Duration::from_millis(500));
        assert_eq!(
            flood(&mut sources, &calls, v4(1), 40_000, now()),
            [40, 5, 39_955]
        );
        clock.advance(Duration::from_secs(3600));
        assert_eq!(
            flood(&mut sources, &calls, v4(1), 120, now()),
            [100, 10, 10],
            "no more than a second is saved up"
        );
    }

    #[test]
    fn a_flood_gets_nothing_and_a_little_too_much_gets_most_of_the_rate() {
        // At `times` times the rate for ten seconds, `least` to `most` percent of the rate are read.
        for (times, least, most) in [
            (1, 100, 100),
            (2, 80, 95),
            (4, 50, 65),
            (8, 0, 2),
            (40, 0, 2),
        ] {
            let (calls, rate) = (Places::new(100, 50), 200);
            let mut sources = sources(rate, 8);
            let mut read = 0;
            for packet in 0..11 * rate * times {
                let now = Duration::from_secs(1) * packet / (rate * times);
                let got = flood(&mut sources, &calls, v4(1), 1, now)[0];
                // The first second uses up what a quiet source has saved.
                read += if now >= Duration::from_secs(1) {
                    got
                } else {
                    0
                };
            }
            let part = read as u32 * 10 / rate;
            assert!((least..=most).contains(&part), "{times}: {part}");
        }
    }

    #[test]
    fn a_flood_in_bursts_gets_nothing_either() {
        let (calls, rate) = (Places::new(100, 50), 1_000);
        let mut sources = sources(rate, 8);
        flood(&mut sources, &calls, v4(1), 2_000, Duration::ZERO);
        let read: usize = (1..100)
            .map(|burst| {
                let now = Duration::from_millis(5) * burst;
                flood(&mut sources, &calls, v4(1), 80, now)[0]
            })
            .sum();
        assert_eq!(read, 0);
        assert_eq!(
            flood(&mut sources, &calls, v4(2), 100, Duration::ZERO)[0],
            100
        );
    }

    #[test]
    fn what_the_kernel_dropped_is_charged_to_those_that_are_heard() {
        let (calls, now) = (Places::new(100, 50), Duration::ZERO);
        let mut sources = sources(100, 8);
        sources.dropped(1_000, 3_000);
        assert_eq!(flood(&mut sources, &calls, v4(1), 100, now)[0], 25);
        sources.dropped(1_000, 999);
        assert_eq!(flood(&mut sources, &calls, v4(2), 200, now)[0], 100);
    }

    #[test]
    fn a_packet_that_costs_more_than_a_full_bucket_takes_all_of_it() {
        let (calls, now) = (Places::new(100, 50), Duration::ZERO);
        for rate in [1, 5] {
            let mut sources = sources(rate, 8);
            sources.dropped(1_000, 1_000_000); // each packet stands for 16
            assert_eq!(flood(&mut sources, &calls, v4(1), 10, now)[0], 1, "{rate}");
            let later = Duration::from_secs(60);
            assert_eq!(flood(&mut sources, &calls, v4(1), 1, later)[0], 1, "{rate}");
        }
    }

    #[test]
    fn packets_of_known_calls_have_a_rate_too() {
        let (calls, now) = (Places::new(100, 50), Duration::ZERO);
        let mut sources = sources(10, 8);
        let read = (0..1_000).filter(|_| sources.packet(v4(1), 500, &calls, now).1);
        assert_eq!(read.count(), 100);
    }

    #[test]
    fn a_large_packet_costs_more() {
        let (calls, now) = (Places::new(100, 50), Duration::ZERO);
        let mut sources = sources(100, 8);
        let read = (0..1_000).filter(|_| {
            let (source, within) = sources.packet(v4(1), 16_384, &calls, now);
            within && sources.begin(source, 16_384, now) == Verdict::Read
        });
        assert_eq!(read.count(), 11, "nine tokens for each");
    }

    #[test]
    fn the_table_is_bounded_and_all_beyond_share_one_rate() {
        let (clock, calls) = (TestClock::new(), Places::new(100, 50));
        let now = || since_start(Clock::from(&clock).now());
        let mut sources = sources(10, 4);
        for known in 0..4 {
            assert_eq!(flood(&mut sources, &calls, v4(known), 1, now()), [1, 0, 0]);
        }
        let read: usize = (4..1_000)
            .map(|other| flood(&mut sources, &calls, v4(other), 1, now())[0])
            .sum();
        assert_eq!((read, sources.len()), (10, 4));
        // The known sources lose nothing by it.
        assert_eq!(flood(&mut sources, &calls, v4(3), 9, now()), [9, 0, 0]);
        // When the buckets are full again, other sources come in.
        clock.advance(Duration::from_secs(2));
        assert_eq!(flood(&mut sources, &calls, v4(7), 10, now()), [10, 0, 0]);
        assert_eq!(sources.len(), 1);
    }

    #[test]
    fn a_source_cannot_fill_its_bucket_by_being_forgotten() {
        let (clock, calls) = (TestClock::new(), Places::new(100, 50));
        let now = || since_start(Clock::from(&clock).now());
        let mut sources = sources(10, 4);
        let mut read = 0;
        for round in 0..100 {
            read += flood(&mut sources, &calls, v4(1), 20, now())[0];
            for other in 0..50 {
                flood(&mut sources, &calls, v4(100 + 50 * round + other), 1, now());
            }
            clock.advance(Duration::from_millis(10));
        }
        assert!(
            (10..=20).contains(&read),
            "ten at once and ten in this second: {read}"
        );
    }

    #[test]
    fn a_source_with_a_call_keeps_buckets_of_its_own() {
        let (clock, calls) = (TestClock::new(), Arc::new(Places::new(100, 50)));
        let now = || since_start(Clock::from(&clock).now());
        let mut sources = sources(10, 4);
        let friend = v4(1);
        let place = calls.take(friend.into()).expect("a place");
        let mut others = (100..).map(v4);
        for _ in 0..100 {
            clock.advance(Duration::from_secs(2));
            for other in others.by_ref().take(50) {
                flood(&mut sources, &calls, other, 20, now());
            }
            let read = flood(&mut sources, &calls, friend, 10, now());
            assert_eq!(read, [10, 0, 0]);
            assert!(sources.len() <= 5);
        }
        drop(place);
        clock.advance(Duration::from_secs(2));
        for other in others.by_ref().take(50) {
            flood(&mut sources, &calls, other, 20, now());
        }
        let read = flood(&mut sources, &calls, friend, 10, now());
        assert_eq!(read[0], 0, "now it is one of the rest");
    }

    #[test]
    fn a_source_that_has_a_call_and_was_never_seen_finds_its_own_buckets() {
        let (calls, now) = (Arc::new(Places::new(100, 50)), Duration::ZERO);
        let mut sources = sources(10, 4);
        for other in 10..1_000 {
            flood(&mut sources, &calls, v4(other), 20, now);
        }
        // As after a restart.
        let _place = calls.keep(v4(1).into());
        assert_eq!(flood(&mut sources, &calls, v4(1), 10, now), [10, 0, 0]);
        assert_eq!(sources.len(), 5);
    }
}
