//! Single events in the life of a cluster, and how it goes on.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, ClusterError, Found, Place, Slot, Status};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use fom_sim::{self as sim, Process, Sim};
use serde::{Deserialize, Serialize};

use crate::{
    errands::{Log, SECOND, counted, errands, start_errands},
    kit::{SLOTS, Simulated},
};

const TICK: Duration = Duration::from_millis(10);

/// Returns the longest time for which some slot was not served, watched until `end` on the clock of the simulation.
fn longest_gap(sim: &Sim, cluster: &Simulated, end: Duration) -> Duration {
    let (mut longest, mut since) = (Duration::ZERO, None);
    while sim.now() < end {
        if cluster.served() < usize::from(SLOTS) {
            let since = *since.get_or_insert(sim.now());
            longest = longest.max(sim.now() - since + TICK);
        } else {
            since = None;
        }
        sim::sleep(TICK);
    }
    assert_eq!(since, None, "a slot has no owner at the end");
    longest
}

/// While a node leaves in order, no slot is without an owner for more than a second.
#[test]
fn a_planned_leave_is_short() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, errands));
        cluster.wait_for_owners();
        let leaves = nodes.iter().map(|node| node.get());
        let leaves = leaves.max_by_key(|node| node.served().len()).unwrap();
        // The caller still has what it has started.
        let _errands = start_errands(&leaves, 6, 20);
        sim::sleep(SECOND * 12);
        let stays = nodes
            .iter()
            .map(|node| node.get())
            .find(|node| node.served() != leaves.served());
        sim.spawn(async move { leaves.leave().await });
        let gap = longest_gap(sim, &cluster, sim.now() + SECOND * 15);
        assert!(gap <= SECOND, "a slot was without an owner for {gap:?}");
        let stays = stays.expect("another node has slots, too");
        sim.spawn(async move { assert_eq!(counted(&stays).await, [0, 1, 2, 3, 4, 5]) });
        sim.settle(SECOND * 100);
        assert_eq!(log.count("errand"), 6, "each ran once");
    });
}

/// After a kill, all slots are served again within ten seconds.
#[test]
fn a_takeover_takes_less_than_ten_seconds() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, errands));
        cluster.wait_for_owners();
        start_errands(&nodes[0].get(), 6, 3);
        let most = nodes
            .iter()
            .max_by_key(|node| node.get().served().len())
            .unwrap();
        sim.during(|chaos| chaos.downtime(SECOND * 60));
        most.kill();
        let killed = sim.now();
        // Its process may be back at once. Its name is taken until the dead process is noticed.
        let gap = longest_gap(sim, &cluster, killed + SECOND * 80);
        assert!(gap < SECOND * 10, "a slot was without an owner for {gap:?}");
        let survivor = nodes[0].get();
        sim.spawn(async move { assert_eq!(counted(&survivor).await, [0, 1, 2, 3, 4, 5]) });
        sim.settle(SECOND * 100);
    });
}

/// While the engine is gone, no node takes a slot from another one, and no phase function begins. After its return, all goes
/// on with the same owners and the same terms.
#[test]
fn an_outage_of_the_engine_moves_nothing() {
    sim::explore(0..10, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, errands));
        cluster.wait_for_owners();
        start_errands(&nodes[0].get(), 6, 10);
        // Slots move to their best owners, if they do, before that.
        sim::sleep(SECOND * 5);
        let served = || {
            nodes
                .iter()
                .map(|node| node.get().served())
                .collect::<Vec<_>>()
        };
        let before = served();
        cluster.outage.set(true);
        sim::sleep(SECOND * 60);
        assert_eq!(
            log.count("errand"),
            0,
            "a phase function began without a lease"
        );
        assert_eq!(served(), before, "a slot has moved");
        cluster.outage.set(false);
        let returned = sim.now();
        let node = nodes[0].get();
        sim.spawn(async move { assert_eq!(counted(&node).await, [0, 1, 2, 3, 4, 5]) });
        sim.settle(SECOND * 100);
        let took = sim.now() - returned;
        assert!(
            took <= SECOND * 7,
            "it took {took:?} after the return of the engine"
        );
        assert_eq!(log.count("errand"), 6);
        let terms =
            |nodes: &[Vec<(Slot, u64)>]| nodes.iter().flatten().map(|(_, term)| *term).sum::<u64>();
        // A commit that was under way claims its slot again, which adds to its term.
        assert!(terms(&served()) - terms(&before) <= u64::from(SLOTS));
    });
}

/// A node that saw a higher term refuses an engine that was restored from an old backup, and writes nothing.
#[test]
fn an_engine_that_has_lost_commits_is_refused() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let a = cluster.start(sim, "a", &log, errands).get();
        cluster.wait_for_owners();
        let backup = cluster.engine.fork();
        let b = cluster.start(sim, "b", &log, errands).get();
        // Slots move to `b`, and their terms grow.
        sim::sleep(SECOND * 30);
        assert!(!b.served().is_empty());
        cluster.engine.restore(&backup);
        sim::sleep(SECOND * 30);
        let troubles = |status: Status| {
            let back =
                |trouble: &ClusterError| matches!(trouble, ClusterError::TermWentBack { .. });
            status
                .troubles
                .iter()
                .filter(|trouble| back(trouble))
                .count()
        };
        assert_eq!(troubles(a.status()), 1, "{}", a.status());
        assert_eq!(troubles(b.status()), 1, "{}", b.status());
        let before = cluster.engine.fork();
        sim::sleep(SECOND * 30);
        for slot in 0..SLOTS {
            use fom_cluster::engine::Engine as _;
            let load =
                |engine: &fom_cluster::MemoryEngine| engine.load(Slot(slot), 0, u64::MAX).unwrap();
            assert_eq!(load(&cluster.engine), load(&before), "a log has changed");
        }
    });
}

/// The name of a node that lives is refused.
#[test]
fn two_processes_with_one_name_are_refused() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let a = cluster.start(sim, "a", &log, errands).get();
        cluster.wait_for_owners();
        let engine = cluster.engine.clone();
        sim.spawn(async move {
            let again = Cluster::builder(engine.clone(), "a").slots(SLOTS).join();
            assert!(matches!(again.await, Err(ClusterError::NameInUse(name)) if name == "a"));
            let other = Cluster::builder(engine, "b").slots(SLOTS + 1).join().await;
            assert!(matches!(
                other,
                Err(ClusterError::OtherSlots { found: SLOTS, .. })
            ));
        });
        sim.settle(SECOND * 60);
        assert_eq!(a.served().len(), usize::from(SLOTS));
    });
}

/// The nodes, which a bomb kills, and how often it did.
#[derive(Clone, Default)]
struct Bombs {
    nodes: Arc<Mutex<Vec<Process<Cluster>>>>,
    log: Log,
    /// Whether bombs do nothing.
    is_defused: Arc<AtomicBool>,
    /// The node of this runtime.
    me: String,
}

/// Ends the process that runs it, as an abort does.
#[derive(Serialize, Deserialize)]
struct Bomb;

#[fom(operation(Bomb))]
enum Bombing {
    #[phase(start, sync, to(Never))]
    Abort,
    #[phase(end)]
    Never,
}

impl BombingTransitions for Bomb {
    fn abort(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let bombs = cx.resource::<Bombs>();
        if bombs.is_defused.load(Ordering::SeqCst) {
            return Ok(());
        }
        bombs.log.push("death");
        let nodes = bombs.nodes.lock().unwrap().clone();
        let me = nodes.iter().find(|node| node.name() == bombs.me);
        me.expect("it is listed").kill();
        unreachable!("a killed process never goes on")
    }
}

/// Works beside a bomb, in the same slot.
#[derive(Serialize, Deserialize)]
struct Bystander {
    steps: u32,
}

#[fom(operation(Bystander))]
enum Working {
    #[phase(start, to(Work, Done))]
    Work,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Bystander {
    async fn work(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterWork, BoxError> {
        cx.sleep(SECOND / 2).await;
        self.steps -= 1;
        Ok(match self.steps {
            0 => WorkingAfterWork::Done,
            _ => WorkingAfterWork::Work,
        })
    }
}

/// An operation that ends each process that runs it ends three, and goes into quarantine. The others of its slot go on. When the
/// cause is gone, any node tries it again.
#[test]
fn a_poison_operation_ends_three_owners_and_no_more() {
    sim::explore(0..30, |sim: &mut Sim| {
        let (mut cluster, bombs) = (Simulated::new(), Bombs::default());
        let nodes = ["a", "b", "c"].map(|name| {
            let me = Bombs {
                me: name.to_owned(),
                ..bombs.clone()
            };
            cluster.start(sim, name, &me, |builder| {
                builder.operation::<Bomb>().operation::<Bystander>()
            })
        });
        bombs.nodes.lock().unwrap().extend(nodes.iter().cloned());
        sim.during(|chaos| chaos.downtime(SECOND * 5));
        cluster.wait_for_owners();
        let client = nodes[0].clone();
        let defused = Arc::clone(&bombs.is_defused);
        sim.spawn(async move {
            let ask = async |key: &'static str| {
                loop {
                    let asked = client.call(async move |cluster: Cluster| {
                        let bystander = cluster.submit(Bystander { steps: 20 });
                        match bystander.key((key, "bystander")).once("one").start().await {
                            Ok(started) => started.await.map(drop),
                            Err(not) => Err(not.reason),
                        }
                    });
                    if let Ok(Ok(())) = asked.await {
                        return;
                    }
                }
            };
            let asked = client.call(async |cluster: Cluster| {
                let bomb = cluster.submit(Bomb).key(("slot", "bomb")).once("one");
                bomb.start().await.map(drop).map_err(|not| not.reason)
            });
            // The bomb may end this node.
            drop(asked.await);
            ask("slot").await;
            loop {
                let asked = client.call(async |cluster: Cluster| {
                    let place = fom_cluster::Place::key(("slot", "bomb")).with_once("one");
                    cluster.find::<Bomb>(place).await
                });
                if let Ok(Ok(found)) = asked.await {
                    assert!(matches!(found, Found::Quarantined), "{found:?}");
                    break;
                }
            }
            defused.store(true, Ordering::SeqCst);
            loop {
                let asked = client.call(async |cluster: Cluster| {
                    for entry in cluster.operator().quarantine().await? {
                        assert_eq!(entry.operation.as_deref(), Some("Bomb"));
                        cluster.operator().retry(entry.slot, entry.id).await?;
                    }
                    let place = fom_cluster::Place::key(("slot", "bomb")).with_once("one");
                    cluster.outcome::<Bomb>(place).await
                });
                // Another node may have the slot before the retry is in the journal.
                if let Ok(Ok(ended)) = asked.await {
                    return drop(ended.unwrap());
                }
            }
        });
        sim.settle(SECOND * 600);
        assert_eq!(bombs.log.count("death"), 3);
        bombs.nodes.lock().unwrap().clear();
    });
}

/// An operation type that only the next release has.
#[derive(Serialize, Deserialize)]
struct Parcel {
    number: u32,
}

#[fom(operation(Parcel))]
enum Carrying {
    #[phase(start, to(Delivered))]
    Carry,
    #[phase(end)]
    Delivered,
}

impl CarryingTransitions for Parcel {
    async fn carry(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(SECOND * 60).await;
        cx.resource::<Log>().push(format!("parcel {}", self.number));
        Ok(())
    }
}

fn next_release(builder: ClusterBuilder) -> ClusterBuilder {
    errands(builder).operation::<Parcel>()
}

/// PR-09: a slot that a node of the next release has had goes to a node that can read it, and not to the one that it would belong to.
#[test]
fn a_slot_goes_to_a_node_that_can_read_it() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let [a, b] = ["a", "b"].map(|name| cluster.start(sim, name, &log, errands).get());
        cluster.wait_for_owners();
        let [f, y] = ["f", "y"].map(|name| cluster.start(sim, name, &log, next_release).get());
        sim::sleep(SECOND * 40);
        let slots: Vec<_> = f.served().iter().map(|(slot, _)| *slot).collect();
        assert_eq!(slots, [Slot(1), Slot(2)]);
        let mut parcels = 0;
        for number in 0..20 {
            let key = format!("parcel {number}");
            if slots.contains(&Place::key(&*key).slot(SLOTS)) {
                let started = f.submit(Parcel { number }).key(key).once("one").start();
                drop(block_on(started).unwrap());
                parcels += 1;
            }
        }
        block_on(f.leave());
        // Slot 2 belongs to `b`, which cannot read it.
        sim::sleep(SECOND * 20);
        let at_y: Vec<_> = y.served().iter().map(|(slot, _)| *slot).collect();
        assert!(
            slots.iter().all(|slot| at_y.contains(slot)),
            "{slots:?} {at_y:?}"
        );
        let at_b: Vec<_> = b.served().iter().map(|(slot, _)| *slot).collect();
        assert_eq!(at_b, [Slot(0)]);
        sim::sleep(SECOND * 60);
        assert_eq!(log.count("parcel"), parcels);
        assert_eq!(block_on(a.operator().quarantine()).unwrap(), []);
    });
}

/// While the engine is gone for five minutes, a node takes so many requests and no more: the others are told to come again. When the
/// engine is back, all that were taken go on within seconds.
#[test]
fn during_an_outage_a_node_takes_a_bounded_number_of_requests() {
    const REQUESTS: u32 = 1100;
    const TAKEN: usize = 1024;
    sim::explore(0..2, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let a = cluster.start(sim, "a", &log, next_release).get();
        cluster.wait_for_owners();
        cluster.outage.set(true);
        sim::sleep(SECOND * 10);
        for number in 0..REQUESTS {
            let (a, log) = (a.clone(), log.clone());
            sim.spawn(async move {
                let parcel = a.submit(Parcel { number }).key(number).once("one");
                match parcel.start().await {
                    Ok(started) => {
                        log.push("started");
                        drop(started.await.unwrap().unwrap());
                    }
                    Err(not) => {
                        assert!(matches!(not.reason, ClusterError::Busy), "{not}");
                        assert_eq!(not.operation.unwrap().number, number, "it is given back");
                        log.push("busy");
                    }
                }
            });
        }
        sim::sleep(SECOND * 300);
        assert_eq!(log.count("busy"), REQUESTS as usize - TAKEN);
        assert_eq!(log.count("started"), 0);
        cluster.outage.set(false);
        sim::sleep(SECOND * 5);
        assert_eq!(log.count("started"), TAKEN);
        sim.settle(SECOND * 120);
        assert_eq!(log.count("parcel"), TAKEN);
    });
}

/// A node that cannot build a runtime, for example because a setting is wrong, says so, and tries again with each heartbeat: not more
/// often, which would be a load for the engine.
#[test]
fn a_slot_that_cannot_be_served_is_tried_again_each_second() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let is_wrong = Arc::new(AtomicBool::new(true));
        let set_to = Arc::clone(&is_wrong);
        let node = cluster.start(sim, "a", &log, move |builder| {
            let is_wrong = Arc::clone(&set_to);
            errands(builder).runtime(move |builder| match is_wrong.load(Ordering::SeqCst) {
                true => builder.localities(0),
                false => builder,
            })
        });
        let node = node.get();
        sim::sleep(SECOND * 60);
        let status = node.status();
        let told = status.to_string();
        assert!(
            told.contains("the runtime of slot 0 could not be built"),
            "{told}"
        );
        for slot in &status.slots {
            assert!((30..=62).contains(&slot.term), "{told}");
        }
        is_wrong.store(false, Ordering::SeqCst);
        sim::sleep(SECOND * 3);
        assert_eq!(node.served().len(), usize::from(SLOTS));
    });
}
