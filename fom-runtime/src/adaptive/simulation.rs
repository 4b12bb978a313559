//! Compares the estimator with the alternatives, on the same visits.
//!
//! Each visit asks a service with four servers and one queue. A visit that gives up is served all the same, since the
//! service does not learn of it. All numbers are integers, so the table is the same everywhere. The book has the table,
//! and this test compares both.

use std::{cmp::Reverse, collections::BinaryHeap, fmt::Write as _};

use super::{Estimator, Ticket};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const FLOOR: u64 = 50 * MS;
const CEILING: u64 = 30 * S;
/// Counting begins here; before, all estimators learn.
const WARM: u64 = 20 * S;
const END: u64 = 120 * S;

/// The common interface of the estimators.
trait Rule {
    fn enter(&mut self) -> (u16, u64);
    fn answered(&mut self, ticket: u16, took: u64, now: u64);
    fn late(&mut self, ticket: u16, allowed: u64, now: u64);
}

struct Fixed(u64);

impl Rule for Fixed {
    fn enter(&mut self) -> (u16, u64) {
        (0, self.0)
    }
    fn answered(&mut self, _: u16, _: u64, _: u64) {}
    fn late(&mut self, _: u16, _: u64, _: u64) {}
}

/// RFC 6298: mean and deviation with gains of 1/8 and 1/4. A late visit doubles the time until the next answer.
#[derive(Default)]
struct Smoothed {
    mean: u64,
    deviation: u64,
    doubled: u32,
}

impl Rule for Smoothed {
    fn enter(&mut self) -> (u16, u64) {
        let time = match self.mean {
            0 => CEILING,
            mean => (mean + 4 * self.deviation) << self.doubled.min(16),
        };
        (0, time.clamp(FLOOR, CEILING))
    }
    fn answered(&mut self, _: u16, took: u64, _: u64) {
        if self.mean == 0 {
            (self.mean, self.deviation) = (took, took / 2);
        } else {
            self.deviation = (3 * self.deviation + self.mean.abs_diff(took)) / 4;
            self.mean = (7 * self.mean + took) / 8;
        }
        self.doubled = 0;
    }
    fn late(&mut self, _: u16, _: u64, _: u64) {
        self.doubled += 1;
    }
}

/// Lustre: 125 % of the worst time of a window as long as the ceiling, in four parts. A late visit counts with its
/// time. This leaves out the 5 s that Lustre adds, and its minimum of 5 s, which would hide the rest here.
#[derive(Default)]
struct Worst {
    parts: [u64; 4],
    begun: u64,
}

impl Rule for Worst {
    fn enter(&mut self) -> (u16, u64) {
        let worst = self.parts.into_iter().max().unwrap_or(0);
        let time = if worst == 0 { CEILING } else { worst * 5 / 4 };
        (0, time.clamp(FLOOR, CEILING))
    }
    fn answered(&mut self, _: u16, took: u64, now: u64) {
        while now - self.begun >= CEILING / 4 {
            self.parts.rotate_right(1);
            self.parts[0] = 0;
            self.begun += CEILING / 4;
        }
        self.parts[0] = self.parts[0].max(took);
    }
    fn late(&mut self, ticket: u16, allowed: u64, now: u64) {
        self.answered(ticket, allowed, now);
    }
}

impl Rule for Estimator {
    fn enter(&mut self) -> (u16, u64) {
        let (ticket, time) = self.enter();
        (ticket.bits(), time)
    }
    fn answered(&mut self, ticket: u16, took: u64, now: u64) {
        self.answered(Ticket::from_bits(ticket).unwrap(), took, now);
    }
    fn late(&mut self, ticket: u16, _: u64, now: u64) {
        self.late(Ticket::from_bits(ticket).unwrap(), now);
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_in(&mut self, n: u64) -> bool {
        (self.next() >> 11).is_multiple_of(n)
    }

    /// Returns nearly exponential waits with this mean. Straight lines between powers of 2 stand for the logarithm.
    fn wait(&mut self, mean: u64) -> u64 {
        let bits = self.next() | 1;
        let zeros = u64::from(bits.leading_zeros());
        let rest = (bits << zeros) >> 43; // 21 bits, the highest is 1
        let log2 = (zeros << 20) + (1 << 21) - rest;
        // 0.693 / 2^20 of the mean for each.
        u64::try_from((u128::from(mean) * u128::from(log2) * 693 / 1000) >> 20).unwrap()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Steady,
    Lost,
    Dead,
    Stall,
    Slower,
    TwoKinds,
    Burst,
    Overload,
}

const CASES: [(Case, &str); 8] = [
    (Case::Steady, "steady, one in 1,000 is never answered"),
    (Case::Lost, "one in 50 is never answered"),
    (Case::Dead, "20 s in which nothing is answered"),
    (Case::Stall, "2 s in which nothing is served, every 20 s"),
    (Case::Slower, "100 times slower after half of the time"),
    (Case::TwoKinds, "one in 100 takes 0.4 to 1.2 s"),
    (Case::Burst, "besides, 1,000 at once every 10 s"),
    (Case::Overload, "10 s of three times as many"),
];

/// Returns when visits begin and when they are answered.
fn visits(case: Case) -> Vec<(u64, Option<u64>)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut begins = Vec::new();
    let mut at = 0;
    while at < END {
        let busy = case == Case::Overload && (40 * S..50 * S).contains(&at);
        at += random.wait(if busy { 833_333 } else { 2_500_000 });
        begins.push(at);
        if case == Case::Burst && begins.len().is_multiple_of(4_000) {
            begins.extend((1..=1_000).map(|n| at + n));
        }
    }
    begins.sort_unstable();
    let mut free = [0; 4];
    let answer = |begun: u64| {
        let lost = match case {
            Case::Lost => random.one_in(50),
            Case::Dead => (40 * S..60 * S).contains(&begun) || random.one_in(1_000),
            _ => random.one_in(1_000),
        };
        let mut takes = 2 * MS + random.wait(3 * MS);
        if case == Case::TwoKinds && random.one_in(100) {
            takes = 400 * MS + random.wait(2 * S) % (800 * MS);
        }
        if lost {
            return (begun, None);
        }
        if case == Case::TwoKinds {
            return (begun, Some(begun + takes));
        }
        if case == Case::Slower {
            let factor = if begun > END / 2 { 100 } else { 1 };
            return (begun, Some(begun + factor * takes));
        }
        let server = free.iter_mut().min().unwrap();
        let mut starts = begun.max(*server);
        if case == Case::Stall && starts > WARM && starts % (20 * S) < 2 * S {
            starts += 2 * S - starts % (20 * S);
        }
        *server = starts + takes;
        (begun, Some(*server))
    };
    begins.into_iter().map(answer).collect()
}

struct Report {
    /// Visits that would have been answered within the ceiling.
    answerable: u64,
    /// Of these, visits that ran out of time before the answer.
    too_early: u64,
    /// How long it took to find the others late: median and mean.
    found_after: u64,
    found_after_mean: u64,
}

/// The events of a visit. At the same time, answers come first.
const ANSWERED: u8 = 0;
const BEGINS: u8 = 1;
const LATE: u8 = 2;

fn run(rule: &mut dyn Rule, visits: &[(u64, Option<u64>)]) -> Report {
    let mut events: BinaryHeap<_> = visits
        .iter()
        .enumerate()
        .map(|(visit, (begun, _))| Reverse((*begun, BEGINS, visit)))
        .collect();
    let mut given = vec![(0, 0); visits.len()];
    let (mut answerable, mut too_early, mut found) = (0, 0, Vec::new());
    while let Some(Reverse((at, what, visit))) = events.pop() {
        let (begun, answer) = visits[visit];
        let (ticket, time) = given[visit];
        match what {
            ANSWERED => rule.answered(ticket, at - begun, at),
            LATE => rule.late(ticket, time, at),
            _ => {
                given[visit] = rule.enter();
                let time = given[visit].1;
                let answered = answer.filter(|answer| *answer <= begun + time);
                events.push(Reverse(match answered {
                    Some(answer) => (answer, ANSWERED, visit),
                    None => (begun + time, LATE, visit),
                }));
                if begun < WARM {
                    continue;
                }
                match answer {
                    Some(answer) if answer - begun <= CEILING => {
                        answerable += 1;
                        too_early += u64::from(answered.is_none());
                    }
                    _ => found.push(time),
                }
            }
        }
    }
    found.sort_unstable();
    Report {
        answerable,
        too_early,
        found_after: found[found.len() / 2],
        found_after_mean: found.iter().sum::<u64>() / found.len() as u64,
    }
}

fn rules() -> [(&'static str, Box<dyn Rule>); 4] {
    [
        ("a fixed 1 s", Box::new(Fixed(S))),
        ("RFC 6298", Box::<Smoothed>::default()),
        ("as Lustre", Box::<Worst>::default()),
        ("`adaptive`", Box::new(Estimator::new(FLOOR, CEILING, 0))),
    ]
}

/// Formats the visits that ended too early, in per cent of the answerable ones, and the wait for a lost visit, as
/// median and mean.
fn cell(report: &Report) -> String {
    let share = report.too_early as f64 * 100.0 / report.answerable as f64;
    let early = match report.too_early {
        0 => "0".to_owned(),
        _ => format!("{share:.2}"),
    };
    let seconds = |nanos: u64| format!("{:.2}", nanos as f64 / 1e9);
    format!(
        "{early} %; {} s ({} s)",
        seconds(report.found_after),
        seconds(report.found_after_mean)
    )
}

fn table() -> String {
    let names = rules().map(|(name, _)| name).join(" | ");
    let mut table = format!("| | {names} |\n| --- | --- | --- | --- | --- |\n");
    for (case, name) in CASES {
        let visits = visits(case);
        let cells = rules().map(|(_, mut rule)| cell(&run(&mut *rule, &visits)));
        let _ = writeln!(table, "| {name} | {} |", cells.join(" | "));
    }
    table
}

#[test]
fn the_book_has_this_table() {
    let table = table();
    let book = include_str!("../../../book/src/adaptive.md");
    assert!(book.contains(&table), "the book's table is not:\n{table}");
}
