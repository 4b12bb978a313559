//! A runtime takes over the journal of another one that still runs, at any moment.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_durable::prelude::*;
use fom_runtime::Cause;
use fom_sim::{self as sim, Disk, Sim};
use serde::{Deserialize, Serialize};

sim::interpose!();

const STEPS: u32 = 4;
const ERRANDS: u32 = 3;
const OWNERS: u32 = 4;

/// An effect in the world outside: a step of an errand.
#[derive(Debug)]
struct Effect {
    number: u32,
    step: u32,
    term: u64,
    key: String,
}

/// All effects, the oldest first.
#[derive(Clone, Debug, Default)]
struct World(Arc<Mutex<Vec<Effect>>>);

#[derive(Serialize, Deserialize)]
struct Errand {
    number: u32,
    step: u32,
}

#[fom(operation(Errand))]
enum Running {
    #[phase(start, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl RunningTransitions for Errand {
    async fn step(&mut self, cx: &mut Cx<'_>) -> Result<RunningAfterStep, BoxError> {
        let effect = Effect {
            number: self.number,
            step: self.step,
            term: cx.term().ok_or("a lease")?,
            key: cx.step_key().to_string(),
        };
        cx.resource::<World>().0.lock().unwrap().push(effect);
        cx.sleep(Duration::from_millis(3)).await;
        self.step += 1;
        Ok(match self.step {
            STEPS => RunningAfterStep::Done,
            _ => RunningAfterStep::Step,
        })
    }
}

fn owner(disk: &Disk, world: &World) -> Runtime {
    let builder = Runtime::builder().localities(2).resource(world.clone());
    builder.journal_with(disk.take_over()).build().unwrap()
}

/// The runtime that has the journal now, as clients know it.
type Current = Arc<Mutex<Runtime>>;

/// A client that asks again, wherever the operation is, until it has ended.
async fn client(current: Current, number: u32, moved: Arc<AtomicU32>) {
    loop {
        let runtime = current.lock().unwrap().clone();
        let errand = Errand { number, step: 0 };
        let failed = match runtime.submit(errand).once(number).start() {
            Ok(errand) => match errand.await {
                Ok(_) => return,
                Err(failure) => failure.cause,
            },
            Err(refused) => Cause::Refused(refused.reason()),
        };
        match failed {
            Cause::Moved | Cause::Refused(_) => moved.fetch_add(1, Relaxed),
            other => panic!("errand {number}: {other}"),
        };
        sim::sleep(Duration::from_millis(1));
    }
}

fn program(sim: &mut Sim, moved: &Arc<AtomicU32>, repeated: &AtomicU32) {
    let (disk, world) = (sim.disk(), World::default());
    let current = Arc::new(Mutex::new(owner(&disk, &world)));
    for number in 0..ERRANDS {
        sim.spawn(client(Arc::clone(&current), number, Arc::clone(moved)));
    }
    let (of, now) = (world.clone(), Arc::clone(&current));
    sim.spawn(async move {
        for _ in 1..OWNERS {
            sim::sleep(Duration::from_micros((1 + sim::draw(8_000)).into()));
            let next = owner(&disk, &of);
            let last = std::mem::replace(&mut *now.lock().unwrap(), next);
            last.moved().await;
        }
    });
    sim.settle(Duration::from_secs(10));

    let mut done = BTreeMap::new();
    let mut highest = 0;
    for Effect {
        number,
        step,
        term,
        key,
    } in world.0.lock().unwrap().drain(..)
    {
        assert!(term >= highest, "an earlier owner acts after a later one");
        highest = term;
        let steps: &mut Vec<String> = done.entry(number).or_default();
        match steps.get(step as usize) {
            None => assert_eq!(steps.len(), step as usize, "a step is left out"),
            Some(before) => {
                assert_eq!(*before, key, "a repeated step has the same key");
                repeated.fetch_add(1, Relaxed);
                continue;
            }
        }
        steps.push(key);
    }
    assert!(done.values().all(|steps| steps.len() == STEPS as usize));
    assert_eq!(done.len(), ERRANDS as usize);
}

/// PR-06, KY-11: the next owner has all that was acknowledged, no effect of an earlier owner comes after it, and each
/// operation ends once.
#[test]
fn the_next_owner_goes_on_with_all_that_was_committed() {
    let (moved, repeated) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    let (of, again) = (Arc::clone(&moved), Arc::new(repeated));
    let counted = Arc::clone(&again);
    let explored = sim::explore(0..400, move |sim| program(sim, &of, &counted));
    // Otherwise the takeovers came between the operations.
    assert!(moved.load(Relaxed) > explored.runs as u32, "{moved:?}");
    assert!(again.load(Relaxed) > 40, "{again:?}");
}
