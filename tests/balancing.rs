//! Balancing helps, and does no harm: the simulation of the example `balancing`, with 64 localities.

#[path = "../examples/balancing/simulation/mod.rs"]
mod simulation;

use fom_runtime::{balance::Balance, topology::Machine};
use simulation::{Outcome, Simulation, loads::Load, percentile};

const TIME: u64 = 20_000_000;

fn run(load: Load, balance: Balance) -> Outcome {
    let machine = Machine::synthetic(2, 4, 8, 1);
    let arrivals = load.arrivals(machine.cores(), TIME, 7);
    let outcome = Simulation::new(&machine, balance).run(&arrivals, TIME);
    assert_eq!(
        outcome.waits.len(),
        arrivals.len(),
        "every fom has run once"
    );
    outcome
}

fn is_no_worse(with: &Outcome, without: &Outcome) {
    assert!(with.throughput >= 0.99 * without.throughput);
    for percent in [50.0, 99.0] {
        let (with, without) = (with.wait(percent), without.wait(percent));
        assert!(with as f64 <= 1.01 * without as f64, "{with} > {without}");
    }
}

/// With the same load everywhere, almost no fom is moved, and no fom waits longer.
#[test]
fn a_uniform_load_is_left_alone() {
    let off = run(Load::Uniform, Balance::Off);
    let both = run(Load::Uniform, Balance::Both);
    assert!(both.moved * 1_000 <= both.waits.len());
    assert_eq!(both.loans, 0);
    is_no_worse(&both, &off);
}

/// Random queues are short, and moving them gains little; it does no harm.
#[test]
fn chance_is_no_reason_to_move_much() {
    let off = run(Load::Random, Balance::Off);
    let foms = run(Load::Random, Balance::Foms);
    assert!(foms.moved * 50 <= foms.waits.len());
    is_no_worse(&foms, &off);
}

/// Foms that arrive in few localities are spread over all of them, and end as fast as they arrive.
#[test]
fn an_unbalanced_load_is_spread() {
    let off = run(Load::Unbalanced, Balance::Off);
    let foms = run(Load::Unbalanced, Balance::Foms);
    assert!(foms.throughput >= 1.25 * off.throughput);
    assert!(foms.wait(99.0) * 100 <= off.wait(99.0));
    assert!(foms.worst_queue * 20 <= off.worst_queue);
}

#[test]
fn a_burst_is_spread() {
    let off = run(Load::Bursty, Balance::Off);
    let foms = run(Load::Bursty, Balance::Foms);
    assert!(foms.wait(50.0) * 4 <= off.wait(50.0));
    assert!(foms.wait(99.0) * 4 <= off.wait(99.0));
    // Half, and half again: a fom is moved a few times at most.
    assert!(foms.moved <= 4 * foms.waits.len());
}

/// The foms of one key run one after the other at one home. Balancing cannot help them, and must not hurt them.
#[test]
fn a_hot_key_is_neither_helped_nor_hurt() {
    let off = run(Load::HotKey, Balance::Off);
    for balance in [Balance::Foms, Balance::Processors, Balance::Both] {
        let outcome = run(Load::HotKey, balance);
        is_no_worse(&outcome, &off);
        let hot = |outcome: &Outcome| percentile(&outcome.hot_waits, 99.0) as f64;
        assert!((hot(&outcome) / hot(&off) - 1.0).abs() <= 0.01);
    }
}

/// A second processor is for computations beside the handler. A handler alone cannot use it.
#[test]
fn processors_help_computations_in_blocking_sections() {
    let off = run(Load::Blocking, Balance::Off);
    let processors = run(Load::Blocking, Balance::Processors);
    assert!(processors.loans > 0);
    assert!(processors.wait(99.0) * 3 <= off.wait(99.0) * 2);
    assert!(processors.throughput >= off.throughput);
    for load in [Load::Uniform, Load::Unbalanced, Load::Bursty] {
        let processors = run(load, Balance::Processors);
        assert_eq!(processors.loans, 0, "{}", load.name());
        assert_eq!(processors, run(load, Balance::Off));
    }
}

/// Each fom runs once, wherever it is moved (`run` checks that). Only foms that arrived can have ended in time.
#[test]
fn nothing_is_lost_on_the_way() {
    for load in Load::ALL {
        let outcome = run(load, Balance::Both);
        assert!(outcome.throughput <= outcome.waits.len() as f64 * 1e9 / TIME as f64);
    }
}

/// The same seed gives the same run, so these assertions do not depend on luck.
#[test]
fn runs_are_reproducible() {
    assert_eq!(
        run(Load::Bursty, Balance::Both),
        run(Load::Bursty, Balance::Both)
    );
}
