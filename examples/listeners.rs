//! Watching from outside: a live log, counts and times of every edge, and an interposer that makes a phase fail.
//!
//! `cargo run --example listeners`

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fom_runtime::{observe::Interpose, prelude::*};

struct Job {
    size: u64,
}

#[fom(operation(Job), transient)]
#[derive(Debug)]
enum Work {
    #[phase(start, to(Small, Large))]
    Look,
    #[phase(to(Done), retry = "2, 1ms..5ms")]
    Small,
    #[phase(to(Done))]
    Large,
    #[phase(end)]
    Done,
}

impl WorkTransitions for Job {
    async fn look(&mut self, _: &mut Cx<'_>) -> Result<WorkAfterLook, BoxError> {
        Ok(if self.size < 3 {
            WorkAfterLook::Small
        } else {
            WorkAfterLook::Large
        })
    }

    async fn small(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn large(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(self.size)).await;
        Ok(())
    }
}

/// Fails the first attempt at `Small`, without touching its code.
#[derive(Default)]
struct Sabotage(AtomicU32);

impl Interpose<Job> for Sabotage {
    fn before(&self, _: &mut Job, phase: &mut Work) -> Option<Result<Work, BoxError>> {
        let sabotage = matches!(phase, Work::Small) && self.0.fetch_add(1, Ordering::Relaxed) == 0;
        sabotage.then(|| Err("sabotaged".into()))
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    let runtime = Runtime::builder().localities(1).build()?;

    // Every transition of every fom; the transitions of one fom are in order.
    let _log = runtime.listen(|t| println!("{:>9.1?} {t}", t.at()));

    // Only for this type, with the operation: the count of each edge, and the time in the phase before it.
    let edges = Arc::new(Mutex::new(BTreeMap::<_, (u32, Duration)>::new()));
    let table = Arc::clone(&edges);
    let _count = runtime.listen_to::<Job>(move |t| {
        let mut table = table.lock().unwrap();
        let edge = table.entry((t.from(), t.to())).or_default();
        edge.0 += 1;
        edge.1 += t.stayed();
    });

    // A listener that panics is removed and reported; the foms do not notice.
    let _bad = runtime.listen(|_| panic!("not my day"));

    let sabotage = runtime.interpose::<Job>(Sabotage::default());
    for size in 1..=4 {
        runtime.submit(Job { size }).await?;
    }
    sabotage.remove()?;

    println!();
    for ((from, to), (times, stayed)) in &*edges.lock().unwrap() {
        println!(
            "{:>6} -> {:<6} {times} times, {:.1?} on average before it",
            from.unwrap_or("queue"),
            to.unwrap_or("failed"),
            *stayed / *times
        );
    }
    let incidents = runtime.operations().incidents;
    println!("\nincidents: {incidents:?}");
    assert_eq!(incidents.len(), 1);
    Ok(())
}
