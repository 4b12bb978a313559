//! Letters that wait, and letters that cannot be read.

use fom_cluster::{Cluster, ClusterBuilder, ClusterCxExt as _, ClusterError, Place};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use fom_runtime::extension::Gate;
use fom_sim::{self as sim, Process, Sim};
use serde::{Deserialize, Serialize};

use crate::{
    errands::{Counted, Counter, Errand, Log, SECOND, counted, errands},
    kit::{SLOTS, Simulated},
};

/// Starts nodes, and a counter on one of them. Returns another one, when all have their slots.
fn apart_from_counter(
    sim: &mut Sim,
    cluster: &mut Simulated,
    log: &Log,
    expects: u32,
    settings: fn(ClusterBuilder) -> ClusterBuilder,
) -> Process<Cluster> {
    let processes = ["a", "b", "c"].map(|name| cluster.start(sim, name, log, settings));
    cluster.wait_for_owners();
    let nodes = processes.each_ref().map(|node| node.get());
    // Those that joined later have their slots by then, too.
    sim::sleep(SECOND * 60);
    assert!(nodes.iter().all(|node| !node.served().is_empty()));
    let counter = Counter {
        expects: expects as usize,
        numbers: Vec::new(),
    };
    let submission = nodes[0].submit(counter).key("counter").once("one");
    drop(block_on(submission.start()).unwrap());
    let mut others = processes.into_iter();
    let other = others.find(|node| !served_by(&node.get(), "counter"));
    other.expect("the counter has one owner")
}

fn served_by(node: &Cluster, key: &str) -> bool {
    let slot = Place::key(key).slot(SLOTS);
    node.served().iter().any(|(served, _)| *served == slot)
}

/// Letters that cannot be delivered count as operations in flight, so a node takes on less until they are.
#[test]
fn letters_that_wait_leave_less_room() {
    const ROOM: u32 = 6;
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let with_room = |builder| errands(builder).capacity(ROOM as usize);
        let node = apart_from_counter(sim, &mut cluster, &log, ROOM + 1, with_room).get();
        let mut own = (0..).filter(|number| served_by(&node, &format!("errand {number}")));
        let start = |number| {
            let errand = Errand { number, seconds: 0 };
            let submission = node.submit(errand).key(format!("errand {number}"));
            block_on(submission.start()).map_err(Box::new)
        };
        cluster.cut.set(true);
        for _ in 0..ROOM {
            let errand = start(own.next().unwrap()).expect("there is room");
            block_on(errand.into_future()).unwrap().unwrap();
        }
        let number = own.next().unwrap();
        let refused = start(number).unwrap_err();
        assert!(matches!(refused.reason, ClusterError::Busy), "{refused}");
        cluster.cut.set(false);
        // The letters are delivered, and the errand finds room.
        sim::sleep(SECOND * 5);
        let errand = start(number).expect("there is room again");
        block_on(errand.into_future()).unwrap().unwrap();
        assert_eq!(block_on(counted(&node)).len(), ROOM as usize + 1);
    });
}

/// Sends letters to a counter, and waits for room for each. The first attempt of each fails after it has written the letter.
#[derive(Serialize, Deserialize)]
struct Campaign {
    letters: u32,
    has_failed: bool,
}

#[fom(operation(Campaign))]
enum Sending {
    #[phase(start, sync, gate, retry = "1, 1ms..1ms", to(Send, Done))]
    Send,
    #[phase(end)]
    Done,
}

/// So many letters may wait when the next one is sent.
const FEW: usize = 3;

impl SendingTransitions for Campaign {
    fn send_gate(&self, cx: &Cx<'_>) -> impl Gate {
        cx.letters().room(FEW)
    }

    fn send(&mut self, cx: &mut Cx<'_>) -> Result<SendingAfterSend, BoxError> {
        let Some(left) = self.letters.checked_sub(1) else {
            return Ok(SendingAfterSend::Done);
        };
        let counted = Counted::Errand { number: left };
        cx.letters().send::<Counter>("counter", counted)?;
        self.has_failed = !self.has_failed;
        if self.has_failed {
            return Err("not this time".into());
        }
        self.letters = left;
        cx.resource::<Log>().push(format!("letter {left}"));
        Ok(SendingAfterSend::Send)
    }
}

/// An operation that goes on by itself sends no further letter while a few wait. So they stay few, also after its slot has a new
/// owner, and it goes on when they are delivered.
#[test]
fn an_operation_waits_for_room_for_its_letters() {
    const LETTERS: u32 = 10;
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let campaigns = |builder| errands(builder).operation::<Campaign>();
        let process = apart_from_counter(sim, &mut cluster, &log, LETTERS, campaigns);
        let node = process.get();
        cluster.cut.set(true);
        let mut keys = (0..).map(|number| format!("campaign {number}"));
        let key = keys.find(|key| served_by(&node, key)).expect("an own slot");
        let campaign = Campaign {
            letters: LETTERS,
            has_failed: false,
        };
        let submission = node.submit(campaign).key(key.as_str()).once("it");
        drop(block_on(submission.start()).unwrap());
        sim::sleep(SECOND * 60);
        assert_eq!(log.count("letter"), FEW + 1);
        // Its next owner, which is not that of the counter, counts the letters that came back.
        process.kill();
        sim::sleep(SECOND * 60);
        let others = &mut cluster.nodes.iter();
        let other = others.find(|other| other.name() != process.name());
        let node = other.expect("there are three nodes").get();
        let status = node.status();
        let owner = |key: &str| {
            let slot = Place::key(key).slot(SLOTS);
            let of = status.slots.iter().find(|of| of.slot == slot);
            of.and_then(|of| of.owner.clone()).expect("an owner")
        };
        assert_ne!(owner(&key), owner("counter"), "choose other names");
        assert_eq!(log.count("letter"), FEW + 1);
        cluster.cut.set(false);
        let numbers: Vec<_> = (0..LETTERS).collect();
        assert_eq!(block_on(counted(&node)), numbers);
        let ended = node.outcome::<Campaign>(Place::key(key.as_str()).with_once("it"));
        block_on(ended).unwrap().unwrap();
    });
}

/// A letter that its target cannot read counts as taken, and is in quarantine. Letters after it arrive.
#[test]
fn a_letter_that_cannot_be_read_holds_no_other_up() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        // No node serves `Counter`.
        let fails = log.clone();
        let settings = move |builder: ClusterBuilder| {
            let fails = fails.clone();
            builder.operation::<Errand>().runtime(move |builder| {
                let fails = fails.clone();
                builder.listen(move |transition| {
                    if transition.to().is_none() {
                        fails.push(format!("failed {}", transition.operation_type()));
                    }
                })
            })
        };
        let a = cluster.start(sim, "a", &log, settings).get();
        cluster.wait_for_owners();
        for number in 0..3 {
            let errand = Errand { number, seconds: 1 };
            drop(block_on(a.submit(errand).start()).unwrap());
        }
        sim::sleep(SECOND * 20);
        assert_eq!(log.count("errand"), 3);
        assert_eq!(log.count("failed UnreadLetter"), 3);
        assert_eq!(log.count("failed"), 3);
    });
}
