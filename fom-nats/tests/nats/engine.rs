//! The promises of an engine.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{
    Slot, conformance,
    engine::{
        Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, NodeInfo, Settings, View,
    },
};
use fom_nats::NatsEngine;

use crate::{SAFE, server::Servers};

/// Returns the engine of one process.
fn engine(servers: &Servers, cluster: &str) -> NatsEngine {
    let builder = NatsEngine::builder(servers.urls(), servers.monitors(), cluster);
    match servers.urls().len() {
        1 => builder.allow_one_copy().build().unwrap(),
        _ => builder.build().unwrap(),
    }
}

/// Each check has a cluster of its own.
fn check<E: Engine>(make: impl Fn(&str) -> E) {
    let count = Cell::new(0);
    conformance::check(|| {
        count.set(count.get() + 1);
        make(&format!("check-{}", count.get()))
    });
}

#[test]
fn the_engine_keeps_the_promises_on_one_server() {
    if let Some(servers) = Servers::start(1, SAFE) {
        check(|cluster| engine(&servers, cluster));
    }
}

/// Each node has an engine of its own, as it has in a process of its own.
#[test]
fn the_engines_of_nodes_keep_the_promises_together_on_three_servers() {
    if let Some(servers) = Servers::start(3, SAFE) {
        let servers = Arc::new(servers);
        check(|cluster| {
            let (servers, cluster) = (Arc::clone(&servers), cluster.to_owned());
            EachNode::new(move || engine(&servers, &cluster))
        });
    }
}

/// The engines of several nodes.
struct EachNode {
    make: Box<dyn Fn() -> NatsEngine + Send + Sync>,
    /// Of the nodes, by their incarnations. The one without is that of no node.
    engines: Mutex<BTreeMap<String, Arc<NatsEngine>>>,
    claimed: Mutex<BTreeMap<(Slot, u64), String>>,
}

impl EachNode {
    fn new(make: impl Fn() -> NatsEngine + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            engines: Mutex::default(),
            claimed: Mutex::default(),
        }
    }

    fn of(&self, incarnation: &str) -> Arc<NatsEngine> {
        let mut engines = self.engines.lock().unwrap();
        let engine = engines.entry(incarnation.to_owned());
        Arc::clone(engine.or_insert_with(|| Arc::new((self.make)())))
    }

    /// Returns the engine of the node that has claimed this term.
    fn owner(&self, slot: Slot, term: u64) -> Arc<NatsEngine> {
        let claimed = self.claimed.lock().unwrap().get(&(slot, term)).cloned();
        self.of(&claimed.unwrap_or_default())
    }
}

impl Engine for EachNode {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        self.of("").open(wanted)
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        self.of(me.incarnation).beat(me)
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        self.of("").evict(incarnation, beat)
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let claimed = self.of(claim.incarnation).claim(claim)?;
        if let Some(claimed) = &claimed {
            let owner = claim.incarnation.to_owned();
            let mut all = self.claimed.lock().unwrap();
            all.insert((claim.slot, claimed.term), owner);
        }
        Ok(claimed)
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        let owner = appends
            .first()
            .map(|append| self.owner(append.slot, append.term));
        let Some(owner) = owner else {
            return self.of("").commit(appends);
        };
        owner.commit(appends)
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.of("").load(slot, from, to)
    }

    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError> {
        self.of("").ends(slots)
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        self.owner(slot, term).delete_until(slot, term, last)
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        self.of("").note(slot, term, notes)
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        self.of("").assign(assignment)
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.owner(slot, term).release(slot, term)
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        self.of(incarnation).leave(incarnation)
    }
}

/// A node whose incarnation is its name.
fn beats(engine: &NatsEngine, name: &str, is_first: bool) -> View {
    let info = NodeInfo::new(name, "address");
    let beat = Beat::new(name, is_first, Duration::ZERO, &info);
    engine.beat(&beat).unwrap()
}

/// A node that comes late reads a snapshot, and not each request.
#[test]
fn requests_are_replaced_by_a_snapshot() {
    let Some(servers) = Servers::start(1, SAFE) else {
        return;
    };
    let (first, slow) = (engine(&servers, "busy"), engine(&servers, "busy"));
    first.open(&Settings::new(2)).unwrap();
    assert!(beats(&first, "first", true).is_member);
    assert!(beats(&slow, "slow", true).is_member);
    const BEATS: u64 = 3_500;
    for _ in 1..BEATS {
        beats(&first, "first", false);
    }
    let kept = servers.messages("fom-busy");
    assert!((1..2_100).contains(&kept), "{kept} of {BEATS} are kept");
    // This node has seen none of them.
    assert_eq!(beats(&slow, "slow", false).nodes["first"].beat, BEATS);
    let late = engine(&servers, "busy");
    let view = beats(&late, "late", true);
    let nodes = view.nodes.iter();
    let nodes: Vec<_> = nodes.map(|(name, row)| (name.as_str(), row.beat)).collect();
    assert_eq!(nodes, [("first", BEATS), ("late", 1), ("slow", 2)]);
}

/// The server takes messages of 1 MB.
#[test]
fn a_commit_can_be_longer_than_a_message() {
    let Some(servers) = Servers::start(1, SAFE) else {
        return;
    };
    let (a, b) = (engine(&servers, "long"), engine(&servers, "long"));
    a.open(&Settings::new(1)).unwrap();
    beats(&a, "a", true);
    let slot = Slot(0);
    let claim = Claim::new(slot, 0, "a", Duration::ZERO);
    let term = a.claim(&claim).unwrap().unwrap().term;
    let body = |number: u64| vec![number as u8; number as usize * 400_000];
    let bodies: Vec<_> = (1..=9).map(|number| (number, body(number))).collect();
    for part in bodies.chunks(5) {
        let append = Append::new(slot, term, Duration::ZERO, part.to_vec());
        assert_eq!(a.commit(&[append]).unwrap(), [true]);
    }
    let read = |engine: &NatsEngine| {
        let (mut from, mut all) = (0, Vec::new());
        loop {
            let page = engine.load(slot, from, 1_000).unwrap();
            let Some((last, _)) = page.last() else {
                return all;
            };
            from = last + 1;
            all.extend(page);
        }
    };
    assert!(read(&a) == bodies && read(&b) == bodies);
    a.leave("a").unwrap();
    beats(&b, "b", true);
    let claim = Claim::new(slot, term, "b", Duration::ZERO);
    let claimed = b.claim(&claim).unwrap().unwrap();
    assert_eq!(claimed.last, 9);
    let late = Append::new(slot, term, Duration::ZERO, vec![(10, body(10))]);
    assert_eq!(
        a.commit(&[late]).unwrap(),
        [false],
        "a batch is refused as a whole"
    );
    assert!(read(&b) == bodies);
    // The new owner knows from its reads where the bodies are.
    b.delete_until(slot, claimed.term, 5).unwrap();
    assert!(read(&b) == bodies[5..]);
    assert!(read(&a) == bodies[5..]);
}
