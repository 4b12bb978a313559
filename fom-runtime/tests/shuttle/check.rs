//! Runs a model under shuttle.

use std::sync::Arc;

use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
};

/// Runs `f` in `orders` evenly drawn orders, and in as many orders with few but well-placed switches (PCT). PCT finds
/// bugs that appear only if one thread is held back for long.
pub(super) fn check(orders: usize, f: impl Fn() + Send + Sync + 'static) {
    fn run(scheduler: impl Scheduler + 'static, f: Arc<impl Fn() + Send + Sync + 'static>) {
        let mut config = Config::new();
        // A phase function with its panic machinery needs more than the 32 KiB that shuttle gives.
        config.stack_size = 0x2_0000;
        // The warning says that every ordering is taken for SeqCst; loom checks the weaker ones.
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(move || f());
    }
    // `SHUTTLE_ORDERS=20` tries twenty times as many, `0.1` a tenth.
    let times = std::env::var("SHUTTLE_ORDERS").map_or(1.0, |times| times.parse().unwrap());
    let orders = ((orders as f64 * times) as usize).max(1);
    let f = Arc::new(f);
    run(RandomScheduler::new(orders), Arc::clone(&f));
    run(PctScheduler::new(3, orders), f);
}
