//! Processes that run a program of their own: their threads, their kills and their stops.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_protocol::{schedule, sync};
use fom_sim::{self as sim, Sim};

sim::interpose!();

const TICK: Duration = Duration::from_secs(1);

/// A program with a thread that counts the seconds.
#[derive(Clone, Default)]
struct Ticks(Arc<AtomicU64>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Ends the thread of a program.
#[derive(Clone)]
struct Program {
    ticks: Ticks,
    _ends: Arc<Ends>,
}

struct Ends(Arc<AtomicBool>);

/// Starts the program. `seen` gets the times of all its ticks.
fn ticking(seen: &Arc<Mutex<Vec<Duration>>>) -> Program {
    let (ticks, ended) = (Ticks::default(), Arc::new(AtomicBool::new(false)));
    let begun = sync::now();
    let (counts, over, seen) = (ticks.clone(), Arc::clone(&ended), Arc::clone(seen));
    let main = move || {
        while !over.load(Relaxed) {
            sync::sleep(TICK);
            sim::message("ticking", "the clock");
            counts.0.fetch_add(1, Relaxed);
            seen.lock().unwrap().push(sync::now().duration_since(begun));
        }
    };
    schedule::spawn("ticks", main).unwrap();
    Program {
        ticks,
        _ends: Arc::new(Ends(ended)),
    }
}

#[test]
fn a_killed_process_starts_again_from_nothing() {
    sim::explore(0..200, |sim: &mut Sim| {
        let seen = Arc::default();
        let process = sim.process("ticking", move || ticking(&seen));
        sim::sleep(TICK * 10 + TICK / 2);
        assert_eq!(process.get().ticks.0.load(Relaxed), 10);
        process.kill();
        let again = process.get();
        assert!(again.ticks.0.load(Relaxed) < 10, "it counts anew");
        sim::sleep(TICK * 5 + TICK / 2);
        assert_eq!(again.ticks.0.load(Relaxed), 5);
    });
}

/// A request to a process that is killed meanwhile is lost.
#[test]
fn a_kill_breaks_requests() {
    sim::explore(0..200, |sim: &mut Sim| {
        let seen = Arc::default();
        let process = sim.process("ticking", move || ticking(&seen));
        let asked = process.clone();
        sim.spawn(async move {
            let answer = asked.call(async |program| {
                sim::sleep(TICK * 10);
                program.ticks.0.load(Relaxed)
            });
            assert!(answer.await.is_err());
            // It may be down still.
            let again = || asked.call(async |program| program.ticks.0.load(Relaxed));
            let counted = loop {
                if let Ok(counted) = again().await {
                    break counted;
                }
            };
            assert!(counted < 10);
        });
        process.get();
        sim::sleep(TICK * 4);
        process.kill();
        sim.settle(TICK * 100);
    });
}

/// While a process is stopped, none of its threads runs, and time goes on.
#[test]
fn a_stopped_process_goes_on_later() {
    let stops = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&stops);
    sim::explore(0..300, move |sim: &mut Sim| {
        let seen: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let log = Arc::clone(&seen);
        let process = sim.process("ticking", move || ticking(&log));
        sim.during(|chaos| chaos.stop("ticking", 1, TICK * 60));
        sim::sleep(TICK * 200);
        sim.settle(TICK * 100);
        let seen = seen.lock().unwrap();
        let pauses: Vec<_> = seen
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .filter(|pause| *pause > TICK)
            .collect();
        assert!(pauses.len() <= 1, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= TICK * 61), "{pauses:?}");
        counted.fetch_add(pauses.len() as u64, Relaxed);
        assert!(process.get().ticks.0.load(Relaxed) >= 130);
    });
    let stops = stops.load(Relaxed);
    assert!(stops > 30, "only {stops} stops");
}
