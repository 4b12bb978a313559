//! The parts of a simulated cluster: an engine and a network with faults, and the nodes.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fom_cluster::{
    Answering, Cluster, ClusterBuilder, Lost, MemoryEngine, Network, Serve, Slot,
    engine::{Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Settings, View},
};
use fom_protocol::{schedule, sync::block_on};
use fom_sim::{self as sim, Process, Sim};

/// The number of slots. More would only cost time.
pub(crate) const SLOTS: u16 = 4;

/// How long a node waits for an engine that does not answer.
const SILENT: Duration = Duration::from_secs(2);

/// Whether the engine, or the network between nodes, is gone.
#[derive(Clone, Default)]
pub(crate) struct Outage(Arc<AtomicBool>);

impl Outage {
    pub(crate) fn set(&self, is_gone: bool) {
        self.0.store(is_gone, Ordering::SeqCst);
    }
}

/// An engine behind a network that delays and loses messages. A request of which the answer is lost may be executed later.
#[derive(Clone)]
pub(crate) struct SimEngine {
    engine: MemoryEngine,
    outage: Outage,
    /// The node that asks.
    node: String,
}

impl SimEngine {
    pub(crate) fn new(engine: &MemoryEngine, outage: &Outage, node: &str) -> Self {
        Self {
            engine: engine.clone(),
            outage: outage.clone(),
            node: node.to_owned(),
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&MemoryEngine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let silent = || {
            sim::sleep(SILENT);
            Err(EngineError::unknown("the network lost a message"))
        };
        if self.outage.0.load(Ordering::SeqCst) {
            return silent();
        }
        if !sim::message(&self.node, "engine") {
            // Lost, or only late.
            if sim::draw(4) == 3 {
                let engine = self.engine.clone();
                let late = Duration::from_secs(1 << sim::draw(5));
                let main = move || {
                    sim::sleep(late);
                    drop(request(&engine));
                };
                schedule::spawn("a late request", main).expect("a thread");
            }
            return silent();
        }
        let answer = request(&self.engine);
        match sim::message("engine", &self.node) {
            true => answer,
            false => silent(),
        }
    }
}

impl Engine for SimEngine {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        let wanted = *wanted;
        self.ask(move |engine| engine.open(&wanted))
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        let (incarnation, is_first, time, node) = (
            me.incarnation.to_owned(),
            me.is_first,
            me.time,
            me.node.clone(),
        );
        self.ask(move |engine| engine.beat(&Beat::new(&incarnation, is_first, time, &node)))
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        let incarnation = incarnation.to_owned();
        self.ask(move |engine| engine.evict(&incarnation, beat))
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let (slot, seen, incarnation, time) = (
            claim.slot,
            claim.seen,
            claim.incarnation.to_owned(),
            claim.time,
        );
        let reads = claim.reads.clone();
        self.ask(move |engine| {
            let mut claim = Claim::new(slot, seen, &incarnation, time);
            claim.reads = &reads;
            engine.claim(&claim)
        })
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        let appends = appends.to_vec();
        self.ask(move |engine| engine.commit(&appends))
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.ask(move |engine| engine.load(slot, from, to))
    }

    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError> {
        self.ask(move |engine| engine.ends(slots))
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        self.ask(move |engine| engine.delete_until(slot, term, last))
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        let notes = notes.to_vec();
        self.ask(move |engine| engine.note(slot, term, &notes))
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        let assignment = assignment.clone();
        self.ask(move |engine| engine.assign(&assignment))
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.ask(move |engine| engine.release(slot, term))
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        let incarnation = incarnation.to_owned();
        self.ask(move |engine| engine.leave(&incarnation))
    }
}

/// The nodes of a simulation, as its network knows them.
#[derive(Clone, Default)]
struct Hub(Arc<Mutex<BTreeMap<String, Line>>>);

#[derive(Default)]
struct Line {
    process: Option<Process<Cluster>>,
    serve: Option<Serve>,
}

/// The network of one node.
struct SimNetwork {
    hub: Hub,
    node: String,
    cut: Outage,
}

impl Network for SimNetwork {
    fn listen(&self, serve: Serve) -> io::Result<String> {
        let mut lines = self.hub.0.lock().unwrap();
        lines.entry(self.node.clone()).or_default().serve = Some(serve);
        Ok(self.node.clone())
    }

    fn call(&self, address: &str, request: Vec<u8>) -> Answering<Result<Vec<u8>, Lost>> {
        if self.cut.0.load(Ordering::SeqCst) {
            return Box::pin(async { Err(Lost) });
        }
        let lines = self.hub.0.lock().unwrap();
        let line = lines.get(address);
        let Some((Some(process), Some(serve))) =
            line.map(|line| (line.process.clone(), line.serve.clone()))
        else {
            return Box::pin(async { Err(Lost) });
        };
        drop(lines);
        Box::pin(async move {
            let asked = process.call(move |_| serve(request));
            asked.await.map_err(|_| Lost)
        })
    }
}

/// A cluster in a simulation.
pub(crate) struct Simulated {
    pub(crate) engine: MemoryEngine,
    pub(crate) outage: Outage,
    /// No node reaches another one.
    pub(crate) cut: Outage,
    pub(crate) nodes: Vec<Process<Cluster>>,
    hub: Hub,
}

impl Simulated {
    pub(crate) fn new() -> Self {
        Self {
            engine: MemoryEngine::new(),
            outage: Outage::default(),
            cut: Outage::default(),
            nodes: Vec::new(),
            hub: Hub::default(),
        }
    }

    /// Starts a node.
    pub(crate) fn start<R: Clone + Send + Sync + 'static>(
        &mut self,
        sim: &mut Sim,
        name: &str,
        resource: &R,
        settings: impl Fn(ClusterBuilder) -> ClusterBuilder + Send + Sync + 'static,
    ) -> Process<Cluster> {
        let (engine, hub) = (
            SimEngine::new(&self.engine, &self.outage, name),
            self.hub.clone(),
        );
        let (resource, node, cut) = (resource.clone(), name.to_owned(), self.cut.clone());
        let main = move || loop {
            let resource = resource.clone();
            let network = SimNetwork {
                hub: hub.clone(),
                node: node.clone(),
                cut: cut.clone(),
            };
            let builder = Cluster::builder(engine.clone(), node.clone())
                .network(network)
                .slots(SLOTS)
                .runtime(move |builder| builder.resource(resource.clone()));
            // The engine may not answer at first, and a former process of this name may seem to live.
            match block_on(settings(builder).join()) {
                Ok(cluster) => return cluster,
                Err(_) => sim::sleep(Duration::from_secs(1)),
            }
        };
        let process = sim.process(name, main);
        let mut lines = self.hub.0.lock().unwrap();
        lines.entry(name.to_owned()).or_default().process = Some(process.clone());
        drop(lines);
        self.nodes.push(process.clone());
        process
    }

    /// Waits until each slot has an owner.
    pub(crate) fn wait_for_owners(&self) {
        while self.served() < usize::from(SLOTS) {
            sim::sleep(Duration::from_millis(100));
        }
    }

    /// Returns how many slots are served.
    pub(crate) fn served(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| node.get().served().len())
            .sum()
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // The nodes hold the network, which holds the nodes.
        self.hub.0.lock().unwrap().clear();
    }
}
