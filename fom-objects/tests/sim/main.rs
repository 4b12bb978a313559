//! Objects of a simulated cluster with faults: at most one for each key, and each call runs once on an object.

#[path = "../../../fom-cluster/tests/sim/kit.rs"]
#[allow(dead_code, reason = "the kit of the cluster has more")]
mod kit;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, ClusterError, Place};
use fom_objects::{ObjectCx, ObjectsBuilderExt as _, ObjectsExt as _};
use fom_patterns::{active::ActiveCallError, prelude::*};
use fom_sim::{self as sim, Process, Sim};

use kit::Simulated;

fom_sim::interpose!();

const SECOND: Duration = Duration::from_secs(1);
const KEYS: u32 = 5;
const CLIENTS: u32 = 3;
const CALLS: u32 = 12;

/// What objects have done, in the order in which it happened.
#[derive(Clone, Debug, Default)]
struct World(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The number of objects so far.
    made: u32,
    /// Each call: the key, the number of the object, and the call.
    calls: Vec<(u32, u32, u32)>,
}

/// Counts its calls.
struct Counter {
    key: u32,
    object: u32,
    count: u32,
    world: World,
}

#[active(remote)]
impl Counter {
    /// Takes a while. Returns the number of the object, and of the call among those of the object.
    pub(crate) async fn count(&mut self, call: u32) -> (u32, u32) {
        self.note(call);
        sim::sleep(SECOND / 20);
        self.count += 1;
        (self.object, self.count)
    }

    /// Waits until the object has counted so many calls.
    #[when(self.count >= calls)]
    pub(crate) fn wait_for(&mut self, calls: u32, call: u32) -> u32 {
        assert!(self.count >= calls, "the guard was true");
        self.note(call);
        self.object
    }

    fn note(&self, call: u32) {
        let mut seen = self.world.0.lock().unwrap();
        seen.calls.push((self.key, self.object, call));
    }
}

fn counters(world: &World) -> impl Fn(ClusterBuilder) -> ClusterBuilder + Send + Sync + 'static {
    let world = world.clone();
    move |builder| {
        let world = world.clone();
        builder.objects(move |cx: ObjectCx| {
            let world = world.clone();
            async move {
                cx.runtime.sleep(SECOND / 10).await;
                let object = {
                    let mut seen = world.0.lock().unwrap();
                    seen.made += 1;
                    seen.made
                };
                let fom_runtime::Key::Int(key) = cx.key else {
                    panic!("keys are numbers")
                };
                let counter = Counter {
                    key: key as u32,
                    object,
                    count: 0,
                    world,
                };
                Ok::<_, Infallible>(counter.activation())
            }
        })
    }
}

/// Calls from any node, until there is an answer. Each attempt is a call of its own.
async fn call(nodes: &[Process<Cluster>], first: usize, key: u32, call: u32) -> (u32, u32) {
    for (attempt, node) in nodes.iter().cycle().skip(first).enumerate() {
        let call = call * 1000 + attempt as u32;
        let asked = node.call(async move |cluster: Cluster| {
            let runtime = Runtime::builder().localities(1).build().unwrap();
            let counter = cluster.object::<Counter>(u64::from(key));
            let counter: CounterProxy = counter.start(&runtime).unwrap();
            counter.count(call).await
        });
        match asked.await {
            Ok(Ok(counted)) => return counted,
            // The node was killed, or leaves, or the slot has no owner for long. The call may have run.
            Err(_) | Ok(Err(ActiveCallError::Elsewhere(_))) => {}
            Ok(Err(error)) => panic!("{error}"),
        }
    }
    unreachable!("there are nodes")
}

fn calls(sim: &mut Sim, faults: impl FnOnce(&mut fom_sim::Chaos)) -> World {
    calls_while(sim, faults, |_, _| {})
}

/// As [`calls`], with something else at the same time.
fn calls_while(
    sim: &mut Sim,
    faults: impl FnOnce(&mut fom_sim::Chaos),
    also: impl FnOnce(&mut Sim, &[Process<Cluster>]),
) -> World {
    let (mut cluster, world) = (Simulated::new(), World::default());
    for name in ["a", "b", "c"] {
        cluster.start(sim, name, &world, counters(&world));
    }
    cluster.wait_for_owners();
    // Until each slot is at its best owner.
    sim::sleep(SECOND * 60);
    sim.during(|chaos| {
        faults(chaos);
        chaos
    });
    also(sim, &cluster.nodes);
    let answers = Arc::new(Mutex::new(Vec::new()));
    for client in 0..CLIENTS {
        let (nodes, answers) = (cluster.nodes.clone(), Arc::clone(&answers));
        sim.spawn(async move {
            for number in 0..CALLS {
                let (id, key) = (client * CALLS + number, (client + number) % KEYS);
                let counted = call(&nodes, client as usize, key, id).await;
                answers.lock().unwrap().push((key, counted));
                sim::sleep(SECOND);
            }
        });
    }
    sim.settle(SECOND * 1200);
    let answers = answers.lock().unwrap();
    let once: BTreeSet<_> = answers.iter().collect();
    assert_eq!(once.len(), answers.len(), "two calls have one number");
    let mut last = BTreeMap::new();
    let seen = world.0.lock().unwrap();
    let once: BTreeSet<_> = seen.calls.iter().collect();
    assert_eq!(
        once.len(),
        seen.calls.len(),
        "a call has run twice on an object"
    );
    for (key, object, _) in &seen.calls {
        let before = last.insert(*key, *object).unwrap_or(0);
        assert!(
            before <= *object,
            "object {before} of key {key} was called after object {object}"
        );
    }
    drop(seen);
    world
}

/// AO-09: without faults, each key has one object, and each call runs once.
#[test]
fn each_key_has_one_object() {
    sim::explore(0..50, |sim: &mut Sim| {
        let world = calls(sim, |_| {});
        let seen = world.0.lock().unwrap();
        assert_eq!(seen.made, KEYS);
        assert_eq!(seen.calls.len(), (CLIENTS * CALLS) as usize);
    });
}

/// AO-09, KY-20: at most one object of a key at a time, whichever node dies, and a call runs once on an object.
#[test]
fn at_most_one_object_of_a_key_with_faults() {
    sim::explore(0..50, |sim: &mut Sim| {
        calls(sim, |chaos| {
            let chaos = chaos.kill("a", 1).kill("b", 1).downtime(SECOND * 60);
            chaos.lose().delay(SECOND * 2).clock_jumps(SECOND * 3600);
        });
    });
}

/// PR-07: after a lost answer, the node repeats the call, and the object runs it once.
#[test]
fn a_call_with_a_lost_answer_runs_once() {
    sim::explore(0..50, |sim: &mut Sim| {
        calls(sim, |chaos| {
            chaos.lose().delay(SECOND);
        });
    });
}

/// KY-20: while slots move, no call fails.
#[test]
fn calls_go_on_while_slots_move() {
    sim::explore(0..50, |sim: &mut Sim| {
        let world = calls_while(
            sim,
            |_| {},
            |sim, nodes| {
                let node = nodes[0].get();
                sim.spawn(async move {
                    let operator = node.operator();
                    for name in ["b", "c", "a"] {
                        operator.drain(name).await.unwrap();
                        sim::sleep(SECOND * 2);
                        operator.undrain(name).await.unwrap();
                    }
                });
            },
        );
        let seen = world.0.lock().unwrap();
        assert!(seen.made > KEYS, "no slot has moved");
        let again = seen.calls.iter().filter(|(_, _, call)| call % 1000 > 0);
        assert_eq!(again.count(), 0, "a call has failed");
    });
}

/// A call that waits for its guard goes with its key: the next owner has it in the list of the next object.
#[test]
fn a_call_that_waits_goes_on_at_the_next_owner() {
    sim::explore(0..50, |sim: &mut Sim| {
        let (mut cluster, world) = (Simulated::new(), World::default());
        let [a, b] = ["a", "b"].map(|name| cluster.start(sim, name, &world, counters(&world)));
        cluster.wait_for_owners();
        sim::sleep(SECOND * 60);
        let (b, a) = (b.get(), a.get());
        sim.spawn(async move {
            let runtime = Runtime::builder().localities(1).build().unwrap();
            let counters: Vec<CounterProxy> = (0..KEYS)
                .map(|key| b.object::<Counter>(u64::from(key)).start(&runtime).unwrap())
                .collect();
            let waiting: Vec<_> = counters
                .iter()
                .map(|counter| counter.wait_for(2, 7))
                .collect();
            for counter in &counters {
                assert_eq!(counter.count(0).await.unwrap().1, 1);
            }
            a.leave().await;
            let mut moved = 0;
            for (counter, waiting) in counters.iter().zip(waiting) {
                let (object, count) = counter.count(1).await.unwrap();
                if count == 1 {
                    moved += 1;
                    counter.count(2).await.unwrap();
                }
                assert_eq!(waiting.await.unwrap(), object);
            }
            assert!((1..KEYS).contains(&moved), "{moved} keys have moved");
        });
        sim.settle(SECOND * 600);
    });
}

/// AO-02: a call that is cancelled, dropped or late leaves the list of its object at another node.
#[test]
fn a_cancel_reaches_the_object() {
    sim::explore(0..50, |sim: &mut Sim| {
        let (mut cluster, world) = (Simulated::new(), World::default());
        let nodes = ["a", "b"].map(|name| cluster.start(sim, name, &world, counters(&world)));
        cluster.wait_for_owners();
        sim::sleep(SECOND * 60);
        let (node, another) = (nodes[0].get(), nodes[1].get());
        sim.spawn(async move {
            let runtime = Runtime::builder().localities(1).build().unwrap();
            for key in 0..u64::from(KEYS) {
                let counter: CounterProxy = node.object::<Counter>(key).start(&runtime).unwrap();
                // Its calls do not tell the owner which calls of the first node are done.
                let same: CounterProxy = another.object::<Counter>(key).start(&runtime).unwrap();
                let (cancelled, kept) = (counter.wait_for(1, 1), counter.wait_for(1, 3));
                let late = counter.wait_for(1, 2).within(SECOND);
                // Each is at its object now.
                sim::sleep(SECOND / 2);
                cancelled.cancel();
                assert!(matches!(cancelled.await, Err(ActiveCallError::Cancelled)));
                assert!(matches!(late.await, Err(ActiveCallError::TimedOut(_))));
                let other = runtime_dropped(&node, key);
                sim::sleep(SECOND);
                drop(other);
                sim::sleep(SECOND);
                same.count(0).await.unwrap();
                kept.await.unwrap();
            }
        });
        sim.settle(SECOND * 600);
        let seen = world.0.lock().unwrap();
        let mut calls: Vec<_> = seen.calls.iter().map(|(_, _, call)| *call).collect();
        calls.sort_unstable();
        assert_eq!(calls, [0, 0, 0, 0, 0, 3, 3, 3, 3, 3]);
    });
}

/// Calls an object. The call is dropped with what this returns.
fn runtime_dropped(node: &Cluster, key: u64) -> Runtime {
    let runtime = Runtime::builder().localities(1).build().unwrap();
    let counter: CounterProxy = node.object::<Counter>(key).start(&runtime).unwrap();
    drop(counter.wait_for(1, 4));
    runtime
}

/// The nodes, for objects that end their process.
#[derive(Clone, Default)]
struct Nodes(Arc<Mutex<Vec<Process<Cluster>>>>);

/// Ends the process that has it, as an abort does.
struct Bomb {
    nodes: Nodes,
    me: &'static str,
    world: World,
}

#[active(remote)]
impl Bomb {
    pub(crate) fn abort(&mut self) {
        self.world.0.lock().unwrap().made += 1;
        let nodes = self.nodes.0.lock().unwrap().clone();
        let me = nodes.iter().find(|node| node.name() == self.me);
        me.expect("it is listed").kill();
    }
}

/// A call that ends each process that runs it fails when three have died.
#[test]
fn a_call_that_ends_its_owners_fails_after_three() {
    sim::explore(0..30, |sim: &mut Sim| {
        let (mut cluster, nodes, world) = (Simulated::new(), Nodes::default(), World::default());
        for me in ["a", "b", "c", "d"] {
            let (nodes, of_it) = (nodes.clone(), world.clone());
            let bombs = move |builder: ClusterBuilder| {
                let (nodes, world) = (nodes.clone(), of_it.clone());
                builder.objects(move |_| {
                    let (nodes, world) = (nodes.clone(), world.clone());
                    async move { Ok::<_, Infallible>(Bomb { nodes, me, world }.activation()) }
                })
            };
            cluster.start(sim, me, &world, bombs);
        }
        nodes
            .0
            .lock()
            .unwrap()
            .extend(cluster.nodes.iter().cloned());
        sim.during(|chaos| chaos.downtime(SECOND * 5));
        cluster.wait_for_owners();
        let caller = cluster.nodes[3].get();
        sim.spawn(async move {
            // It has no slots, so its process stays.
            caller.operator().drain("d").await.unwrap();
            sim::sleep(SECOND * 60);
            let runtime = Runtime::builder().localities(1).build().unwrap();
            let bomb: BombProxy = caller.object::<Bomb>("bomb").start(&runtime).unwrap();
            let error = bomb.abort().await.unwrap_err();
            let ActiveCallError::Elsewhere(source) = &error else {
                panic!("{error}");
            };
            let source = source.downcast_ref::<ClusterError>();
            assert!(
                matches!(source, Some(ClusterError::OwnersDied { owners: 3, .. })),
                "{error}"
            );
        });
        sim.settle(SECOND * 600);
        // A new process at the address of the third one may get the call before the caller has seen that death.
        let died = world.0.lock().unwrap().made;
        assert!((3..=4).contains(&died), "{died} processes have died");
        // The processes hold what lists them.
        nodes.0.lock().unwrap().clear();
    });
}

/// An object without a call for 15 minutes ends. A call that waits for its guard keeps its object.
#[test]
fn an_object_without_calls_ends() {
    sim::explore(0..50, |sim: &mut Sim| {
        let (mut cluster, world) = (Simulated::new(), World::default());
        let node = cluster.start(sim, "a", &world, counters(&world)).get();
        cluster.wait_for_owners();
        sim.spawn(async move {
            let runtime = Runtime::builder().localities(1).build().unwrap();
            let counter =
                |key: u64| -> CounterProxy { node.object::<Counter>(key).start(&runtime).unwrap() };
            // All keys of one slot.
            let slot = |key: &u64| Place::key(*key).slot(kit::SLOTS);
            let mut keys = (0..).filter(|key| slot(key) == slot(&0));
            let [idle, waits, busy] = [(); 3].map(|()| counter(keys.next().unwrap()));
            for counter in [&idle, &waits, &busy] {
                assert_eq!(counter.count(0).await.unwrap().1, 1);
            }
            let waiting = waits.wait_for(2, 0);
            for _ in 0..17 {
                sim::sleep(SECOND * 60);
                busy.count(0).await.unwrap();
            }
            assert_eq!(idle.count(0).await.unwrap().1, 1);
            assert_eq!(waits.count(0).await.unwrap().1, 2);
            waiting.await.unwrap();
            assert_eq!(busy.count(0).await.unwrap().1, 19);
        });
        sim.settle(SECOND * 3600);
    });
}

/// Cannot be made at first, and panics at its second call.
struct Fragile {
    calls: u32,
}

#[active(remote)]
impl Fragile {
    pub(crate) fn touch(&mut self) -> u32 {
        self.calls += 1;
        assert!(self.calls < 2, "it breaks");
        self.calls
    }
}

/// If an object cannot be made, the call fails, and the next one tries again. An object that has ended is made anew.
#[test]
fn an_object_that_fails_or_ends_is_made_again() {
    sim::explore(0..50, |sim: &mut Sim| {
        let mut cluster = Simulated::new();
        let tries = Arc::new(Mutex::new(0));
        let makes = move |builder: ClusterBuilder| {
            let tries = Arc::clone(&tries);
            builder.objects(move |_| {
                let is_first = {
                    let mut tries = tries.lock().unwrap();
                    *tries += 1;
                    *tries == 1
                };
                async move {
                    match is_first {
                        true => Err("the database is away"),
                        false => Ok(Fragile { calls: 0 }.activation().end_on_panic()),
                    }
                }
            })
        };
        let node = cluster.start(sim, "a", &(), makes).get();
        cluster.wait_for_owners();
        sim.spawn(async move {
            let runtime = Runtime::builder().localities(1).build().unwrap();
            let fragile: FragileProxy = node.object::<Fragile>("vase").start(&runtime).unwrap();
            let failed = fragile.touch().await.unwrap_err().to_string();
            let why = "the object `Fragile vase` could not be made: the database is away";
            assert!(failed.ends_with(why), "{failed}");
            for _ in 0..3 {
                assert_eq!(fragile.touch().await.unwrap(), 1);
                let broken = fragile.touch().await.unwrap_err();
                assert!(matches!(broken, ActiveCallError::Panicked(_)), "{broken}");
            }
        });
        sim.settle(SECOND * 60);
    });
}
