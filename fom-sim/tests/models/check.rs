//! Runs a model in the simulation.

use std::{sync::Arc, time::Duration};

use fom_sim as sim;

use super::shuttle::thread;

/// The time of the simulation in which a model ends: longer than its longest wait.
const LIMIT: Duration = Duration::from_secs(36_000);

/// Runs `f` under so many seeds.
pub(super) fn check(orders: usize, f: impl Fn() + Send + Sync + 'static) {
    let f = Arc::new(f);
    // Not from 0: the first run makes the statics of a model, so it cannot be repeated.
    sim::explore(1..1 + orders as u64, move |_| {
        let f = Arc::clone(&f);
        let model = thread::spawn(move || f());
        assert!(model.ends_within(LIMIT), "the model does not end");
    });
}
