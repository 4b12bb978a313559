//! What a node does for an operator.

use std::{future::ready, sync::Arc, time::Duration};

use fom_durable::DurableExt as _;
use fom_protocol::sync::sleep;
use fom_runtime::Runtime;

use crate::{
    apart::apart,
    assignment::Change,
    call::{Message, Name, Operate, Reply, Request, What, decode, encode},
    clock::boot_time,
    commits::AGAIN,
    engine::EngineError,
    letters,
    network::{Answering, Lost},
    node::Node,
    report::{NodeLoad, NodeReport, Report},
    route::ask,
    slot::Slot,
    status::Status,
};

/// How long the other nodes may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the engine is asked to keep an assignment.
const TRIES: u32 = 20;

/// Does what an operator asks, for the whole cluster.
pub(crate) async fn operate(node: &Arc<Node>, what: Operate) -> Reply {
    match what {
        Operate::Load => match own_load(node).await {
            Ok(load) => Reply::Load(load),
            Err(why) => Reply::Failed(why),
        },
        Operate::Report => Reply::Report(report(node).await),
        Operate::Drain(name) => match known(node, &name) {
            Ok(()) => assign(node, Change::Drain(name)).await,
            Err(why) => Reply::Failed(why),
        },
        // It may have left.
        Operate::Undrain(name) => assign(node, Change::Undrain(name)).await,
        Operate::Pin(slot, name) => match there(node, slot).and_then(|()| known(node, &name)) {
            Ok(()) => assign(node, Change::Pin(slot, name)).await,
            Err(why) => Reply::Failed(why),
        },
        Operate::Unpin(slot) => match there(node, slot) {
            Ok(()) => assign(node, Change::Unpin(slot)).await,
            Err(why) => Reply::Failed(why),
        },
        Operate::Quarantine => quarantine(node).await,
        Operate::Retry(slot, id) => ask_owner(node, slot, What::Retry(id)).await,
        Operate::Discard(slot, id) => ask_owner(node, slot, What::Discard(id)).await,
    }
}

/// Fails with what is wrong with the name of a node.
fn known(node: &Node, name: &str) -> Result<(), String> {
    let status = node.status();
    let names = status.nodes.iter().map(|node| &*node.name);
    match names.clone().any(|known| known == name) {
        true => Ok(()),
        false => {
            let names = names.collect::<Vec<_>>().join(", ");
            Err(format!("no node `{name}` lives; there are {names}"))
        }
    }
}

/// Fails if there is no such slot.
fn there(node: &Node, slot: Slot) -> Result<(), String> {
    let slots = node.settings.slots;
    match slot.0 < slots {
        true => Ok(()),
        false => Err(format!(
            "there is no {slot}; there are slots 0 to {}",
            slots - 1
        )),
    }
}

/// Asks the owner of a slot for something that is about no type of operation.
async fn ask_owner(node: &Arc<Node>, slot: Slot, what: What) -> Reply {
    if let Err(why) = there(node, slot) {
        return Reply::Failed(why);
    }
    let of = Name {
        machine: String::new(),
        operation: String::new(),
    };
    let slot = slot.0;
    let asked = ask(node, Request { slot, of, what }).await;
    asked.unwrap_or_else(|error| Reply::Failed(error.to_string()))
}

/// Returns what all slots have in quarantine.
async fn quarantine(node: &Arc<Node>) -> Reply {
    let mut all = Vec::new();
    for slot in (0..node.settings.slots).map(Slot) {
        match ask_owner(node, slot, What::InQuarantine).await {
            Reply::InQuarantine(entries) => all.extend(entries),
            other => return other,
        }
    }
    Reply::InQuarantine(all)
}

/// Returns what this node tells of itself. It walks over all foms, so it must not hold up the thread of the calls.
async fn own_load(node: &Arc<Node>) -> Result<NodeLoad, String> {
    let node = Arc::clone(node);
    apart("fom-report", move || load(&node)).await
}

fn load(node: &Node) -> NodeLoad {
    let mut load = NodeLoad::default();
    for (slot, _) in node.served() {
        if let Some((_, runtime)) = node.serving(slot) {
            add(&mut load, &runtime);
        }
    }
    let troubles = node.troubles().into_iter();
    load.troubles = troubles.map(|trouble| trouble.to_string()).collect();
    load
}

fn add(to: &mut NodeLoad, runtime: &Runtime) {
    to.foms += runtime.in_flight();
    to.quarantined += runtime.quarantine().list().len();
    let letters = letters::waiting(runtime);
    to.letters += letters.len();
    let ages = letters.iter().map(|letter| letter.info().times.age);
    to.oldest_letter = ages.max().unwrap_or_default().max(to.oldest_letter);
}

/// Asks all nodes, at the same time.
pub(crate) async fn report(node: &Arc<Node>) -> Report {
    let Status {
        nodes,
        slots,
        drained,
        ..
    } = node.status();
    let own = node.name();
    let asked = nodes.into_iter().map(|other| {
        let message = encode(&Message::Operate(Operate::Load));
        let asked = (other.name != own).then(|| node.network.call(&other.address, message));
        (other, asked)
    });
    // All calls are made before the first answer is awaited.
    let asked: Vec<_> = asked.collect();
    let (mut nodes, until) = (Vec::new(), boot_time() + PATIENCE);
    for (other, asked) in asked {
        let load = match asked {
            None => own_load(node).await.ok(),
            Some(asked) => answer_of(node, asked, until).await,
        };
        nodes.push(NodeReport { node: other, load });
    }
    Report {
        nodes,
        slots,
        drained,
    }
}

/// Returns what another node tells of itself. `None` if it has not answered until this time.
async fn answer_of(
    node: &Node,
    mut asked: Answering<Result<Vec<u8>, Lost>>,
    until: Duration,
) -> Option<NodeLoad> {
    loop {
        let (_, version) = node.seen.get();
        let is_late = boot_time() >= until;
        tokio::select! {
            biased;
            answer = &mut asked => return match decode(&answer.ok()?) {
                Ok(Reply::Load(load)) => Some(load),
                _ => None,
            },
            () = ready(()), if is_late => return None,
            // Each heartbeat of this node is a change.
            () = node.seen.changed(version) => {}
        }
    }
}

/// Changes the assignment.
async fn assign(node: &Arc<Node>, change: Change) -> Reply {
    let asks = Arc::clone(node);
    match apart("fom-assign", move || assign_here(&asks, &change)).await {
        Ok(Ok(())) => {
            node.wake();
            Reply::Done
        }
        Ok(Err(error)) => Reply::Failed(format!(
            "{error}; the change may be kept: look, and ask again"
        )),
        Err(why) => Reply::Failed(why),
    }
}

/// Changes the assignment, after all changes of other operators.
fn assign_here(node: &Node, change: &Change) -> Result<(), EngineError> {
    let mut kept = node.view().assignment.clone();
    let mut failed = None;
    for _ in 0..TRIES {
        let wanted = kept.with(change);
        match node.engine.assign(&wanted) {
            Ok(now) if now == wanted => return Ok(()),
            Ok(now) => kept = now,
            Err(error @ EngineError::Refused(_)) => return Err(error),
            Err(error) => {
                failed = Some(error);
                sleep(AGAIN);
            }
        }
    }
    Err(failed.unwrap_or_else(|| EngineError::unknown("other operators change the assignment")))
}
