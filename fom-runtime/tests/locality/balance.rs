//! When moving pays: the questions of a balanced runtime, tested on their own.

use std::time::Duration;

use fom_runtime::{
    balance::{
        Balance, Distance, Load,
        foms::{self, LINE, WAKE},
        processors::{self, IDLE},
    },
    topology::{Cpu, Machine, PlanOptions, plan},
};

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn queue(ready: usize, service: Duration) -> Load {
    let mut load = Load::default();
    (load.ready, load.movable, load.service) = (ready, ready, service);
    load
}

fn idle(time: Duration) -> Load {
    let mut load = Load::default();
    load.idle = Some(time);
    load
}

fn starved() -> Load {
    let mut load = Load::default();
    (load.ready, load.share) = (1, 0.5);
    load
}

#[test]
fn off_unless_asked_for() {
    let moves = |balance: Balance| (balance.moves_foms(), balance.moves_processors());
    assert_eq!(moves(Balance::default()), (false, false));
    assert_eq!(moves(Balance::Foms), (true, false));
    assert_eq!(moves(Balance::Processors), (false, true));
    assert_eq!(moves(Balance::Both), (true, true));
}

#[test]
fn distances_in_a_machine() {
    let plans = plan(&Machine::synthetic(2, 4, 8, 2), &PlanOptions::default());
    let to = |other: usize| Distance::between(&plans[0], &plans[other]);
    assert_eq!(to(0), Distance::None);
    for (others, distance) in [
        (1..8, Distance::Cache),
        (8..32, Distance::Node),
        (32..64, Distance::Far),
    ] {
        assert!(others.into_iter().all(|other| to(other) == distance));
    }
    // Several localities on one core: none is nearer, and a move gains nothing.
    let shared = plan(
        &Machine::synthetic(1, 1, 2, 1),
        &PlanOptions::default().localities(4),
    );
    let to = |other: usize| Distance::between(&shared[0], &shared[other]);
    assert_eq!(
        [to(1), to(2), to(3)],
        [Distance::Cache, Distance::None, Distance::Cache]
    );
    // Nodes with unknown caches have a cache number in common that says nothing.
    let machine = Machine::from_cpus((0..4).map(|id| {
        let mut cpu = Cpu::new(id);
        cpu.node = id / 2;
        cpu
    }));
    let plans = plan(&machine, &PlanOptions::default());
    assert_eq!(Distance::between(&plans[1], &plans[2]), Distance::Far);
    // Localities over several caches, and over several nodes.
    let plans = plan(
        &Machine::synthetic(2, 4, 2, 1),
        &PlanOptions::default().localities(4),
    );
    assert_eq!(Distance::between(&plans[0], &plans[1]), Distance::Node);
    assert_eq!(Distance::between(&plans[0], &plans[2]), Distance::Far);
}

/// Halving the shortest queue that may be halved gains at least twice its cost, however long a run takes. If a run is
/// shorter than fetching its fom, the fom is never moved.
#[test]
fn a_move_brings_twice_what_it_costs() {
    for distance in [Distance::Cache, Distance::Node, Distance::Far] {
        for service in [1, 2, 5, 10, 100, 1_000, 100_000].map(micros) {
            let least = (1..1_000).find(|ready| foms::pays(&queue(*ready, service), distance));
            let Some(least) = least else {
                assert!(service < LINE * 8 * distance.factor() + WAKE / 100);
                continue;
            };
            let moved = foms::share(&queue(least, service));
            assert_eq!(moved, least / 2);
            assert!(service * moved as u32 >= foms::cost(moved, distance) * 2);
            assert!(!foms::pays(&queue(least - 1, service), distance));
            assert!((least..2_000).all(|ready| foms::pays(&queue(ready, service), distance)));
        }
        assert!(!foms::pays(
            &queue(1_000_000, Duration::from_nanos(100)),
            distance
        ));
    }
    assert!(!foms::pays(&queue(1_000_000, micros(10)), Distance::None));
    assert!(!foms::pays(&Load::default(), Distance::Cache));
}

/// The figures in the book.
#[test]
fn the_least_queues_that_are_halved() {
    let least =
        |service| (1..10_000).find(|ready| foms::pays(&queue(*ready, service), Distance::Cache));
    assert_eq!(least(micros(10)), Some(12));
    assert_eq!(least(micros(1)), Some(250));
    assert!(least(Duration::from_nanos(800)).is_some());
    assert_eq!(least(Duration::from_nanos(790)), None);
}

/// A locality never loses its only fom, and foms that must not move do not count.
#[test]
fn half_is_given_at_most() {
    assert!(!foms::pays(&queue(1, micros(1_000_000)), Distance::Cache));
    assert_eq!(foms::share(&queue(3, micros(10))), 1);
    let mut load = queue(100, micros(10));
    load.movable = 10;
    assert_eq!(foms::share(&load), 10);
    load.movable = 0;
    assert!(!foms::pays(&load, Distance::Cache));
    // The giver is not kept from its own work for long, either.
    assert_eq!(foms::share(&queue(1_000_000, micros(10))), 256);
    // Figures that make no sense do no harm.
    assert!(foms::pays(
        &queue(usize::MAX, Duration::MAX),
        Distance::Cache
    ));
}

/// Two localities that pass foms to each other whenever it pays soon come to rest: no fom goes to and fro.
#[test]
fn nothing_goes_to_and_fro() {
    let service = micros(10);
    for all in [11, 12, 100, 255] {
        let mut queues = [all, 0];
        let mut moves = 0;
        // One locality gives while the other has nothing. Neither works, which is the worst case.
        while let Some(giver) = (0..2).find(|giver| {
            queues[1 - giver] == 0 && foms::pays(&queue(queues[*giver], service), Distance::Cache)
        }) {
            let moved = foms::share(&queue(queues[giver], service));
            queues[giver] -= moved;
            queues[1 - giver] += moved;
            moves += 1;
        }
        assert!(moves <= 1, "{moves} moves of {all}");
    }
}

#[test]
fn the_nearest_idle_one_is_served() {
    let load = queue(100, micros(10));
    let idle = [
        (5, Distance::Far),
        (9, Distance::Node),
        (7, Distance::Cache),
        (8, Distance::Cache),
    ];
    assert_eq!(foms::choose_receiver(&load, idle), Some(7));
    assert_eq!(foms::choose_receiver(&load, idle[..2].to_vec()), Some(9));
    assert_eq!(foms::choose_receiver(&load, []), None);
    assert_eq!(foms::choose_receiver(&load, [(1, Distance::None)]), None);
    assert_eq!(
        foms::choose_receiver(&queue(5, micros(10)), idle),
        None,
        "too short"
    );
    // A move that pays nearby may not pay far away.
    let short = queue(1_000, Duration::from_nanos(1_000));
    assert_eq!(foms::choose_receiver(&short, idle), Some(7));
    assert_eq!(foms::choose_receiver(&short, [(5, Distance::Far)]), None);
}

#[test]
fn processors_of_a_locality_that_is_idle_for_long() {
    let others = |idle_for| {
        [
            (1, idle(idle_for), Distance::Far),
            (2, idle(idle_for), Distance::Cache),
            (3, starved(), Distance::Cache),
        ]
    };
    let borrow = |load: &Load, idle_for| processors::choose_lender(load, others(idle_for));
    assert_eq!(borrow(&starved(), IDLE), Some(2));
    assert_eq!(borrow(&starved(), IDLE / 2), None, "it may have work soon");
    let mut well = starved();
    well.share = 0.9;
    assert_eq!(borrow(&well, IDLE), None, "it has what it needs");
    assert_eq!(borrow(&idle(IDLE), IDLE), None, "it has nothing to do");
    let mut much = starved();
    much.borrowed = 100;
    assert_eq!(borrow(&much, IDLE), None);
    // A loan gains nothing if both have the same processors, or if the lender has borrowed itself.
    let mut borrower = idle(IDLE);
    borrower.borrowed = 1;
    let useless = [
        (1, idle(IDLE), Distance::None),
        (2, borrower, Distance::Cache),
    ];
    assert_eq!(processors::choose_lender(&starved(), useless), None);
}

#[test]
fn a_loan_ends_when_the_lender_has_work_or_the_borrower_has_none() {
    assert!(!processors::gives_back(&starved(), &idle(IDLE)));
    assert!(processors::gives_back(&starved(), &queue(1, micros(10))));
    assert!(processors::gives_back(&idle(IDLE), &idle(IDLE)));
    assert!(!processors::gives_back(&idle(IDLE / 2), &idle(IDLE)));
    // A borrower that has enough thanks to the loan is no reason to end the loan: that would be to and fro.
    let mut well = starved();
    well.share = 1.0;
    assert!(!processors::gives_back(&well, &idle(IDLE)));
}
