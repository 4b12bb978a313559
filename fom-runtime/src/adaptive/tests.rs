use proptest::prelude::*;

use super::{ENOUGH, Estimator, SILENCE, Ticket};

const MS: u64 = 1_000_000;
const FLOOR: u64 = 10 * MS;
const CEILING: u64 = 1_000 * MS;

/// Returns how long the next visit may take if it is not a probe.
fn next(estimator: &Estimator) -> u64 {
    estimator.estimate(estimator.load + 1)
}

/// An estimator with a clock. Its visits come one after the other.
struct Line {
    estimator: Estimator,
    now: u64,
}

impl Line {
    fn new() -> Self {
        Self {
            estimator: Estimator::new(FLOOR, CEILING, 0),
            now: 0,
        }
    }

    /// Makes one visit that needs `takes`. Returns whether it was answered in time.
    fn visit(&mut self, takes: u64) -> bool {
        let (ticket, time) = self.estimator.enter();
        self.now += takes.min(time);
        if takes <= time {
            self.estimator.answered(ticket, takes, self.now);
        } else {
            self.estimator.late(ticket, self.now);
        }
        takes <= time
    }

    /// Makes `times` visits. Returns how many were late.
    fn visits(&mut self, takes: u64, times: u32) -> u32 {
        (0..times).map(|_| u32::from(!self.visit(takes))).sum()
    }

    fn learned(takes: u64) -> Self {
        let mut line = Self::new();
        assert_eq!(line.visits(takes, ENOUGH), 0);
        line
    }

    fn next(&self) -> u64 {
        next(&self.estimator)
    }
}

#[test]
fn it_is_the_ceiling_until_enough_is_known() {
    let mut line = Line::new();
    line.visits(20 * MS, ENOUGH - 1);
    assert_eq!(line.next(), CEILING);
    line.visit(20 * MS);
    assert_eq!(line.next(), 40 * MS);
}

#[test]
fn floor_and_ceiling_hold() {
    assert_eq!(Line::learned(MS).next(), FLOOR);
    assert_eq!(Line::learned(0).next(), FLOOR);
    assert_eq!(Line::learned(900 * MS).next(), CEILING);
}

#[test]
fn what_is_constant_stays() {
    let mut line = Line::learned(20 * MS);
    assert_eq!(line.visits(20 * MS, 10_000), 0);
    assert_eq!(line.next(), 40 * MS);
}

#[test]
fn jitter_is_allowed_for() {
    let mut line = Line::learned(30 * MS);
    for visit in 0..10_000 {
        assert!(line.visit((20 + visit * 7 % 11) * MS));
    }
    assert_eq!(line.next(), 60 * MS);
}

/// However much slower the visits become, one is late, and the next is a probe and measures it.
#[test]
fn it_follows_a_step_up() {
    for takes in [50, 400, 900] {
        let mut line = Line::learned(20 * MS);
        assert_eq!(line.visits(takes * MS, 100), 1, "{takes} ms");
        assert_eq!(line.next(), (2 * takes * MS).min(CEILING));
    }
}

/// One to two ceilings later, the slow visits are forgotten.
#[test]
fn it_follows_a_step_down() {
    let mut line = Line::learned(400 * MS);
    let slow_until = line.now;
    while line.next() > 40 * MS {
        assert!(line.visit(20 * MS));
    }
    let took = line.now - slow_until;
    assert!((CEILING..=2 * CEILING).contains(&took), "{took}");
}

/// An outlier counts at once, and as long as the window remembers it.
#[test]
fn an_outlier_is_remembered_for_a_window() {
    let mut line = Line::learned(20 * MS);
    line.visits(20 * MS, 1_000);
    assert!(line.visit(39 * MS));
    assert_eq!(line.next(), 78 * MS);
    line.now += 10 * CEILING;
    line.visits(20 * MS, ENOUGH - 1);
    assert_eq!(line.next(), 78 * MS, "few visits are little evidence");
    line.now += CEILING;
    line.visits(20 * MS, 2 * ENOUGH);
    line.now += CEILING;
    line.visits(20 * MS, 2 * ENOUGH);
    assert_eq!(line.next(), 40 * MS);
}

/// A queue that is served in turn: each visit waits for all before it.
#[test]
fn a_burst_has_the_time_that_its_queue_needs() {
    let mut estimator = Line::learned(20 * MS).estimator;
    let burst: Vec<_> = (1..=20).map(|n| (n * 20 * MS, estimator.enter())).collect();
    let mut before = 0;
    for (takes, (ticket, time)) in burst {
        assert!(takes <= time && time >= before);
        before = time;
        estimator.answered(ticket, takes, takes);
    }
    // Now the time for this load is known, and a single visit gets the same.
    assert_eq!(next(&estimator), 800 * MS);
}

/// A load that was measured to be harmless does not lengthen the time.
#[test]
fn a_load_that_costs_nothing_is_learned() {
    let mut estimator = loaded(100);
    let times: Vec<_> = (0..100).map(|_| estimator.enter().1).collect();
    assert_eq!(times, [40 * MS; 100]);
    assert_eq!(next(&estimator), 40 * MS * 101 / 100);
}

/// Returns an estimator that saw `load` visits at a time, 20 ms each.
fn loaded(load: u32) -> Estimator {
    let mut estimator = Estimator::new(FLOOR, CEILING, 0);
    let all: Vec<_> = (0..load).map(|_| estimator.enter().0).collect();
    for ticket in all {
        estimator.answered(ticket, 20 * MS, 20 * MS);
    }
    estimator
}

/// Without any answers, visits are found late as soon as at first, except for probes.
#[test]
fn an_outage_is_found_soon_while_it_lasts() {
    let mut estimator = loaded(50);
    let mut waiting = Vec::new();
    let mut given = Vec::new();
    for now in (CEILING..4 * CEILING).step_by(MS as usize) {
        for (ticket, _) in waiting.extract_if(.., |(_, until)| *until <= now) {
            estimator.late(ticket, now);
        }
        let (ticket, time) = estimator.enter();
        given.push(time);
        waiting.push((ticket, now + time));
    }
    let soon = given.iter().filter(|time| **time == 40 * MS).count();
    assert!((2_960..2_980).contains(&soon), "{soon} of 3,000");
    assert!(given.iter().all(|time| [40 * MS, CEILING].contains(time)));
}

/// After a stall the probes are answered, and later visits get their time.
#[test]
fn it_recovers_after_a_stall() {
    let mut estimator = loaded(50);
    let all: Vec<_> = (0..50).map(|_| estimator.enter()).collect();
    for (ticket, time) in all {
        estimator.late(ticket, time);
    }
    let (probe, time) = estimator.enter();
    assert_eq!(time, CEILING);
    estimator.answered(probe, 450 * MS, 500 * MS);
    assert_eq!(next(&estimator), 900 * MS);
}

/// One visit in a hundred is never answered. That is no reason to wait longer for the others.
#[test]
fn what_is_lost_does_not_lengthen_the_time() {
    let mut line = Line::learned(20 * MS);
    let mut found = Vec::new();
    for _ in 0..500 {
        line.visits(20 * MS, 99);
        let (ticket, time) = line.estimator.enter();
        line.now += time;
        line.estimator.late(ticket, line.now);
        found.push(time);
    }
    found.sort_unstable();
    assert_eq!(found[250], 40 * MS);
}

/// One visit in ten takes much longer than the others. A probe measures it, and then the time allows for it.
#[test]
fn a_slow_kind_is_found() {
    let mut line = Line::learned(20 * MS);
    let mut late = 0;
    for _ in 0..200 {
        line.visits(20 * MS, 9);
        late += u32::from(!line.visit(300 * MS));
    }
    assert!(late < 40, "{late}");
    assert_eq!(line.next(), 600 * MS);
}

#[test]
fn probes_are_few() {
    let mut estimator = loaded(1_000);
    let (ticket, _) = estimator.enter();
    estimator.late(ticket, 0);
    let given: Vec<_> = (0..1_000).map(|_| estimator.enter().1).collect();
    assert_eq!(given[0], CEILING);
    let probes = given.iter().filter(|time| **time == CEILING).count();
    assert!((80..=125).contains(&probes), "{probes}");
    // Without a late visit there are no probes.
    let mut estimator = loaded(1_000);
    assert!((0..1_000).all(|_| estimator.enter().1 == 40 * MS));
}

/// Resumed visits, errors and cancels count as load while they last, and are not measured.
#[test]
fn what_is_no_measure_is_none() {
    let mut line = Line::learned(20 * MS);
    let partial = line.estimator.resume();
    assert_eq!(line.next(), 80 * MS, "there are two");
    line.estimator.answered(partial, 400 * MS, line.now);
    let (ticket, _) = line.estimator.enter();
    line.estimator.leave(ticket);
    assert_eq!(line.next(), 40 * MS);
}

#[test]
fn tickets_are_numbers() {
    for (load, probe) in [(1, false), (7, true), (u32::MAX, false), (u32::MAX, true)] {
        let ticket = Ticket::new(load, probe);
        assert_eq!(Ticket::from_bits(ticket.bits()), Some(ticket));
        assert_eq!(ticket.is_probe(), probe);
        assert_ne!(ticket, Ticket::PARTIAL);
    }
    assert!(!Ticket::PARTIAL.is_probe());
    assert_eq!(Ticket::from_bits(0), None);
}

#[derive(Clone, Debug)]
enum Act {
    Enter,
    Resume,
    /// An answer to one of the visits under way, and how long the visit took.
    Answer(u8, u64),
    Late(u8),
    Leave(u8),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let times = prop_oneof![0..100 * MS, 0..2 * CEILING, Just(u64::MAX)];
    proptest::collection::vec(
        prop_oneof![
            4 => Just(Act::Enter),
            1 => Just(Act::Resume),
            4 => (any::<u8>(), times).prop_map(|(which, took)| Act::Answer(which, took)),
            1 => any::<u8>().prop_map(Act::Late),
            1 => any::<u8>().prop_map(Act::Leave),
            1 => (0..CEILING).prop_map(Act::Wait),
        ],
        0..200,
    )
}

/// Plays the acts. `check` sees each state and the time given in it.
fn play(acts: &[Act], longer: u64, mut check: impl FnMut(&Estimator, Option<u64>)) -> Estimator {
    let (mut estimator, mut now, mut under_way) =
        (Estimator::new(FLOOR, CEILING, 0), 0, Vec::new());
    for act in acts {
        let mut given = None;
        let mut pick = |which: u8| {
            (!under_way.is_empty())
                .then(|| under_way.swap_remove(usize::from(which) % under_way.len()))
        };
        match *act {
            Act::Enter => {
                let (ticket, time) = estimator.enter();
                under_way.push(ticket);
                given = Some(time);
            }
            Act::Resume => under_way.push(estimator.resume()),
            Act::Answer(which, took) => {
                if let Some(ticket) = pick(which) {
                    estimator.answered(ticket, took.saturating_add(longer), now);
                }
            }
            Act::Late(which) => {
                if let Some(ticket) = pick(which) {
                    estimator.late(ticket, now);
                }
            }
            Act::Leave(which) => {
                if let Some(ticket) = pick(which) {
                    estimator.leave(ticket);
                }
            }
            Act::Wait(time) => now += time,
        }
        assert_eq!(estimator.load as usize, under_way.len());
        check(&estimator, given);
    }
    for ticket in under_way {
        estimator.leave(ticket);
    }
    assert_eq!((estimator.load, estimator.probes), (0, 0));
    estimator
}

proptest! {
    #[test]
    fn always_between_floor_and_ceiling(acts in acts()) {
        play(&acts, 0, |estimator, given| {
            for time in [Some(next(estimator)), Some(estimator.time()), given].into_iter().flatten() {
                assert!((FLOOR..=CEILING).contains(&time));
            }
        });
    }

    /// Exact for a small load, and never above the load: a load that seems smaller lengthens the time.
    #[test]
    fn a_ticket_remembers_the_load(load in (0..32u32).prop_flat_map(|bits| 1..=u32::MAX >> bits)) {
        let kept = Ticket::new(load, load.is_multiple_of(2)).load();
        assert!(kept <= load && load - kept <= load >> 10, "{kept}");
    }

    /// More visits under way never mean less time.
    #[test]
    fn the_time_grows_with_the_load(acts in acts()) {
        play(&acts, 0, |estimator, _| {
            let times: Vec<_> = (1..50).step_by(8).map(|load| estimator.estimate(load)).collect();
            assert!(times.is_sorted());
        });
    }

    /// The same visits, each longer, never mean less time.
    #[test]
    fn the_time_grows_with_what_visits_took(acts in acts(), longer in 0..CEILING) {
        let mut shorter = Vec::new();
        play(&acts, 0, |estimator, _| shorter.push(next(estimator)));
        let mut shorter = shorter.into_iter();
        play(&acts, longer, |estimator, _| {
            assert!(Some(next(estimator)) >= shorter.next());
        });
    }

    /// Without answers, the load says nothing about a queue.
    #[test]
    fn silence_takes_the_load_out(late in SILENCE..100) {
        let mut estimator = Line::learned(20 * MS).estimator;
        let all: Vec<_> = (0..late).map(|_| estimator.enter().0).collect();
        for ticket in all {
            estimator.late(ticket, CEILING);
        }
        assert_eq!(estimator.estimate(1_000), 40 * MS);
    }
}
