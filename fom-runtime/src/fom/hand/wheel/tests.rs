use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{runs::RANKS, *};

const TICK_NANOS: u64 = 1 << TICK;

/// A wheel and a model of it: the nodes by time and order of arming.
struct Pair {
    wheel: Wheel,
    // Raw pointers, so that only the wheel's pointers lead to the nodes.
    nodes: Vec<NonNull<Node>>,
    model: BTreeMap<(u64, u64), usize>,
    keys: Vec<Option<(u64, u64)>>,
    armings: u64,
}

impl Pair {
    fn new(now: u64, nodes: usize) -> Self {
        let node = || NonNull::from(Box::leak(Box::new(Node::new())));
        Self {
            wheel: Wheel::new(now),
            nodes: (0..nodes).map(|_| node()).collect(),
            model: BTreeMap::new(),
            keys: vec![None; nodes],
            armings: 0,
        }
    }

    /// Creates a pair with one node for each time, armed in this order.
    fn armed(now: u64, times: &[u64]) -> Self {
        let mut pair = Self::new(now, times.len());
        for (index, at) in times.iter().enumerate() {
            pair.arm(index, *at);
        }
        pair
    }

    fn arm(&mut self, index: usize, at: u64) {
        // SAFETY: the nodes outlive the wheel.
        unsafe { self.wheel.arm(self.nodes[index], at) };
        self.forget(index);
        self.armings += 1;
        self.keys[index] = Some((at, self.armings));
        self.model.insert((at, self.armings), index);
        self.check();
    }

    fn disarm(&mut self, index: usize) {
        // SAFETY: the nodes outlive the wheel.
        unsafe { self.wheel.disarm(self.nodes[index]) };
        self.forget(index);
        self.check();
    }

    fn forget(&mut self, index: usize) {
        if let Some(key) = self.keys[index].take() {
            self.model.remove(&key);
        }
    }

    /// Pops one node and returns its time.
    fn pop(&mut self, now: u64) -> Option<u64> {
        let expected = self
            .model
            .first_key_value()
            .map(|(key, index)| (*key, *index));
        let expected = expected.filter(|(key, _)| key.0 <= now);
        let popped = self.wheel.pop_due(now);
        assert_eq!(popped, expected.map(|(_, index)| self.nodes[index]));
        match expected {
            Some((_, index)) => self.forget(index),
            None => assert!(self.wheel.next_at().is_none_or(|next| next > now)),
        }
        self.check();
        expected.map(|(key, _)| key.0)
    }

    /// Pops all nodes that are due and returns how many.
    fn drain(&mut self, now: u64) -> usize {
        std::iter::from_fn(|| self.pop(now)).count()
    }

    fn check(&self) {
        let first = self.model.first_key_value().map(|(key, _)| key.0);
        assert_eq!(self.wheel.is_empty(), first.is_none());
        assert_eq!(self.wheel.next_at().is_some(), first.is_some());
        assert!(self.wheel.next_at() <= first);
        for (node, key) in self.nodes.iter().zip(&self.keys) {
            // SAFETY: the nodes live until `drop`.
            let node = unsafe { node.as_ref() };
            assert_eq!(node.is_armed(), key.is_some());
            assert!(key.is_none_or(|key| node.at() == key.0));
        }
        self.check_rings();
    }

    /// Checks what the module says of slots and runs.
    fn check_rings(&self) {
        let wheel = &self.wheel;
        let mut members = 0;
        for rank in 0..RANKS {
            let times = times_in(wheel.runs.run(rank as u32));
            members += times.len();
            assert_eq!(wheel.runs.there() & (1 << rank) != 0, !times.is_empty());
            assert!(times.is_sorted());
            assert!(times.iter().all(|at| at >> TICK <= wheel.current));
        }
        for index in 0..SLOTS {
            let (level, digit) = (index / PER_LEVEL, index % PER_LEVEL);
            let mut times = Vec::new();
            for way in 0..ways(level) {
                let more = times_in(wheel.ring(level, digit, way));
                assert!(more.iter().all(|at| way_of(*at, level) == way));
                times.extend(more);
            }
            members += times.len();
            let said = wheel.occupied[index / PER_LEVEL] & (1 << (index % PER_LEVEL)) != 0;
            assert_eq!(said, !times.is_empty());
            let (level, digit) = (level as u32, digit as u64);
            for at in &times {
                let number = at >> TICK >> (level * DIGIT);
                let ahead = number - (wheel.current >> (level * DIGIT));
                assert!((1..=PER_LEVEL as u64).contains(&ahead));
                assert_eq!(number % PER_LEVEL as u64, digit);
                assert!(level > 0 || wheel.earliest[digit as usize] <= *at);
            }
        }
        assert_eq!(members, self.model.len());
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.wheel = Wheel::new(0);
        for node in &self.nodes {
            // SAFETY: the node came from a box, and the wheel that it may have been in is gone.
            let node = unsafe { Box::from_raw(node.as_ptr()) };
            assert!(!node.is_armed() || std::thread::panicking());
        }
    }
}

fn times_in(head: *mut Links) -> Vec<u64> {
    let mut times = Vec::new();
    // SAFETY: rings are linked all round.
    unsafe {
        let mut member = ring::next(head);
        while member != head {
            assert_eq!(ring::next(ring::prev(member)), member);
            assert_eq!(ring::prev(ring::next(member)), member);
            times.push(ring::at(member));
            member = ring::next(member);
        }
    }
    times
}

#[test]
fn gives_what_is_due_and_no_more_of_a_tick() {
    let mut pair = Pair::armed(0, &[30, 10, 20, 10]);
    assert_eq!(pair.drain(9), 0);
    assert_eq!(pair.drain(10), 2);
    assert_eq!(pair.pop(25), Some(20));
    assert_eq!(pair.drain(29), 0);
    assert_eq!(pair.drain(30), 1);
}

#[test]
fn keeps_the_order_of_arming_through_all_levels() {
    for at in [5, TICK_NANOS, 77 << 30, 3 << 50, u64::MAX - 1, u64::MAX] {
        let mut pair = Pair::armed(0, &[at, at - 1, at, at]);
        // The distance is different now, so the level would be different if the nodes had not moved
        // meanwhile.
        assert_eq!(pair.drain(at / 2), 0);
        pair.nodes
            .push(NonNull::from(Box::leak(Box::new(Node::new()))));
        pair.keys.push(None);
        pair.arm(4, at);
        pair.arm(0, at);
        assert_eq!(pair.drain(u64::MAX), 5);
    }
}

/// The times are just after the beginning of a slot of every level. Arming from far enough away starts
/// the nodes in each level.
#[test]
fn keeps_the_order_of_arming_where_slots_of_all_levels_begin() {
    let top = LEVELS as u32 - 1;
    let at = (1 << (TICK + top * DIGIT)) + 5 * TICK_NANOS;
    let mut pair = Pair::new(0, 3 * LEVELS);
    for (step, level) in (0..=top).rev().enumerate() {
        let now = at.saturating_sub(2 << (TICK + level * DIGIT));
        assert_eq!(pair.drain(now), 0);
        for (node, late) in [(0, 0), (1, 1), (2, 0)] {
            pair.arm(3 * step + node, at + late);
        }
    }
    assert_eq!(pair.drain(at), 2 * LEVELS);
    assert_eq!(pair.drain(at + 1), LEVELS);
}

#[test]
fn knows_both_sides_of_each_border() {
    let borders = (0..u64::BITS).map(|bit| 1_u64 << bit);
    let times: Vec<_> = borders
        .flat_map(|border| [border - 1, border, border + 1, u64::MAX - border])
        .collect();
    for now in [0, TICK_NANOS - 1, 1 << 60] {
        assert_eq!(Pair::armed(now, &times).drain(u64::MAX), times.len());
        let mut pair = Pair::armed(now, &times);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        sorted.dedup();
        for at in sorted {
            pair.drain(at.saturating_sub(1));
            pair.drain(at);
            assert!(
                pair.model
                    .first_key_value()
                    .is_none_or(|(key, _)| key.0 > at)
            );
        }
    }
}

#[test]
fn gives_past_times_in_order_too() {
    let mut pair = Pair::new(1 << 40, 4);
    assert_eq!(pair.drain(1 << 41), 0);
    for (index, at) in [0, 1 << 41, 7, 1 << 39].into_iter().enumerate() {
        pair.arm(index, at);
    }
    assert_eq!(pair.drain(1 << 41), 4);
}

#[test]
fn takes_what_is_armed_and_disarmed_while_it_is_drained() {
    let now = 9 * TICK_NANOS + 9;
    let mut pair = Pair::armed(0, &[now - 4, now - 3, now - 2, now - 1, now]);
    assert_eq!(pair.pop(now), Some(now - 4));
    pair.arm(0, now - 2);
    pair.disarm(1);
    pair.arm(4, 3);
    pair.arm(3, now + 1);
    assert_eq!(pair.pop(now), Some(3));
    assert_eq!(pair.drain(now), 2);
    assert_eq!(pair.drain(now + 1), 1);
}

#[test]
fn merges_runs_of_every_rank() {
    // Each time is earlier than the one before, so each node begins a run.
    let times: Vec<_> = (0..600).rev().collect();
    let mut pair = Pair::armed(0, &times);
    assert!(pair.wheel.runs.there() >= 1 << 9);
    assert_eq!(pair.drain(TICK_NANOS), 600);
}

#[test]
fn knows_the_next_time_when_it_is_near() {
    let near = 3 * TICK_NANOS;
    let mut pair = Pair::armed(0, &[near + 500, near + 300, near + 400, 5 * TICK_NANOS]);
    assert_eq!(pair.wheel.next_at(), Some(near + 300));
    // The time stays until it could be due, and is then computed again.
    pair.disarm(1);
    assert_eq!(pair.wheel.next_at(), Some(near + 300));
    assert_eq!(pair.drain(near + 300), 0);
    assert_eq!(pair.wheel.next_at(), Some(near + 400));
    // A slot that was empty forgets its earlier nodes.
    pair.disarm(3);
    pair.arm(3, 5 * TICK_NANOS + 8);
    assert_eq!(pair.drain(near + 500), 2);
    assert_eq!(pair.wheel.next_at(), Some(5 * TICK_NANOS + 8));
}

#[test]
fn comes_to_a_far_time_in_few_steps() {
    let at = 365 * 24 * 3600 * 1_000_000_000 + 123;
    let mut pair = Pair::armed(0, &[at]);
    let mut steps = 0;
    while let Some(next) = pair.wheel.next_at().filter(|next| *next < at) {
        assert_eq!(pair.pop(next), None);
        steps += 1;
    }
    assert!(steps < LEVELS);
    assert_eq!(pair.pop(at), Some(at));
}

#[test]
fn stands_still_when_time_goes_back() {
    let mut pair = Pair::new(0, 2);
    assert_eq!(pair.drain(1 << 50), 0);
    assert_eq!(pair.drain(0), 0);
    pair.arm(0, 1 << 30);
    pair.arm(1, 1 << 51);
    assert_eq!(pair.drain((1 << 30) - 1), 0);
    assert_eq!(pair.drain(1 << 30), 1);
}

#[test]
fn takes_a_moderate_amount_of_memory() {
    assert!((RINGS + RANKS) * size_of::<Links>() + size_of::<Wheel>() <= 24 << 10);
    assert_eq!(size_of::<Node>(), 24);
}

#[derive(Clone, Debug)]
enum Step {
    Arm { node: usize, at: Time },
    Disarm { node: usize },
    Pop,
    Drain,
    Move(Time),
}

#[derive(Clone, Debug)]
enum Time {
    /// After now.
    In(u64),
    /// Before now.
    Ago(u64),
    /// The same as another node's last time.
    Same(usize),
    /// Before another node's last time.
    Towards(usize, u64),
    /// Just after the beginning of slots of this level and of those below.
    Border(u32, u64),
    Fixed(u64),
}

const NODES: usize = 24;

/// All distances, short ones as often as long ones.
fn distance() -> impl Strategy<Value = u64> {
    (0..64_u32, any::<u64>()).prop_map(|(bits, random)| random >> bits)
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![
        4 => distance().prop_map(Time::In),
        4 => (0..3 * TICK_NANOS).prop_map(Time::In),
        2 => (0..8_u64).prop_map(Time::In),
        1 => distance().prop_map(Time::Ago),
        2 => (0..NODES).prop_map(Time::Same),
        2 => (0..NODES, distance()).prop_map(|(node, by)| Time::Towards(node, by)),
        2 => (0..LEVELS as u32, 0..3 * TICK_NANOS).prop_map(|(level, by)| Time::Border(level, by)),
        1 => prop_oneof![Just(0), Just(u64::MAX - 1), Just(u64::MAX)].prop_map(Time::Fixed),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..NODES, time()).prop_map(|(node, at)| Step::Arm { node, at }),
        2 => (0..NODES).prop_map(|node| Step::Disarm { node }),
        3 => Just(Step::Pop),
        1 => Just(Step::Drain),
        2 => (0..40_u32).prop_map(|bits| Step::Move(Time::In((1 << bits) - 1))),
        1 => time().prop_map(Step::Move),
    ]
}

proptest! {
    #[test]
    fn does_what_an_ordered_map_does(
        start in distance(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut now = start >> 1;
        let mut pair = Pair::new(now, NODES);
        for step in steps {
            let time = |time: Time, pair: &Pair| match time {
                Time::In(by) => now.saturating_add(by),
                Time::Ago(by) => now.saturating_sub(by),
                // SAFETY: the nodes live as long as the pair.
                Time::Same(node) => unsafe { pair.nodes[node].as_ref() }.at(),
                // SAFETY: as above.
                Time::Towards(node, by) => unsafe { pair.nodes[node].as_ref() }.at().saturating_sub(by),
                Time::Border(level, by) => {
                    let shift = TICK + level * DIGIT;
                    (((now >> shift) + 1) << shift).saturating_add(by)
                }
                Time::Fixed(at) => at,
            };
            match step {
                Step::Arm { node, at } => pair.arm(node, time(at, &pair)),
                Step::Disarm { node } => pair.disarm(node),
                Step::Pop => { pair.pop(now); }
                Step::Drain => { pair.drain(now); }
                Step::Move(to) => now = time(to, &pair).max(now),
            }
        }
        pair.drain(now);
        pair.drain(u64::MAX);
        prop_assert!(pair.wheel.is_empty());
    }
}
