//! How a request reaches the owner of its slot, wherever that is now. And how an owner serves it.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use fom_runtime::{Persistent, Runtime};

use crate::{
    answering,
    call::{Message, Reply, Request, What, decode, encode},
    clock::boot_time,
    commits::Owned,
    engine::View,
    entries,
    error::ClusterError,
    inbox::deliver,
    network::LONGEST,
    node::Node,
    registry::name_of,
    slot::{Place, Slot},
};

/// How long a caller waits for a slot that no node serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a caller repeats a request. Outcomes are remembered for longer, so what is repeated runs once.
const REPEATS: Duration = Duration::from_secs(30 * 60);

/// After the deaths of so many owners, a caller gives its call up. An operation goes into quarantine instead.
const DEATHS: usize = 3;

/// Asks the owner of a slot. If the slot moves meanwhile, or an answer is lost, asks again: what is asked has an id.
///
/// # Errors
///
/// Fails if no node answers for a minute, if the owner is busy, if a call has ended three owners, and if this node has left.
///
/// # Cancel safety
///
/// If the future is dropped, the request may be executed.
pub(crate) async fn ask(node: &Arc<Node>, request: Request) -> Result<Reply, ClusterError> {
    let slot = Slot(request.slot);
    let begun = boot_time();
    let mut since = begun;
    // The owners that had the request, and have not answered.
    let mut silent: BTreeSet<String> = BTreeSet::new();
    loop {
        if node.has_left() {
            return Err(ClusterError::Left);
        }
        let (view, mut version) = node.seen.get();
        let died = silent.iter().filter(|one| !view.nodes.contains_key(*one));
        let owners = died.count();
        if owners >= DEATHS && matches!(request.what, What::Call(_)) {
            return Err(ClusterError::OwnersDied { slot, owners });
        }
        let owner = owner_of(&view, slot);
        let asked = async {
            match (node.serving(slot), &owner) {
                (Some(serving), _) => Some(serve_owned(node, serving, request.clone()).await),
                (None, Some((_, address))) => {
                    let message = encode(&Message::Ask(request.clone()));
                    if message.len() > LONGEST {
                        let length = message.len();
                        return Some(Reply::Failed(format!(
                            "the request has {length} bytes; between nodes, the most are {LONGEST}"
                        )));
                    }
                    let answer = node.network.call(address, message).await.ok()?;
                    decode(&answer).ok()
                }
                (None, None) => None,
            }
        };
        let reply = {
            let mut asked = std::pin::pin!(asked);
            loop {
                tokio::select! {
                    biased;
                    reply = &mut asked => break reply,
                    () = node.seen.changed(version) => {
                        // A node that does not answer may have lost the slot.
                        let (now, changed) = node.seen.get();
                        version = changed;
                        if owner_of(&now, slot) != owner && node.serving(slot).is_none() {
                            break None;
                        }
                        if owner.is_some() {
                            // The owner lives.
                            since = boot_time();
                        }
                    }
                }
            }
        };
        match reply {
            None => silent.extend(owner.map(|(incarnation, _)| incarnation)),
            Some(Reply::Moved) => {}
            Some(Reply::Busy) => return Err(ClusterError::Busy),
            Some(reply) => return Ok(reply),
        }
        let now = boot_time();
        let waited = now.saturating_sub(since);
        let is_wait = matches!(request.what, What::Ended { .. });
        if waited >= PATIENCE || !is_wait && now.saturating_sub(begun) >= REPEATS {
            return Err(ClusterError::NoOwner { slot, waited });
        }
        // Each heartbeat of this node is a change.
        node.seen.changed(version).await;
    }
}

/// Returns a request about an operation at this place.
pub(crate) fn request<O: Persistent>(node: &Node, place: &Place, what: What) -> Request {
    Request {
        slot: place.slot(node.settings.slots).0,
        of: name_of::<O>(),
        what,
    }
}

/// Returns the error for a reply that is no success.
pub(crate) fn failed(reply: Reply, place: &dyn fmt::Display) -> ClusterError {
    match reply {
        Reply::Unknown => ClusterError::Unknown(place.to_string()),
        Reply::Quarantined => ClusterError::Quarantined,
        Reply::Refused(reason) => ClusterError::Refused(reason),
        Reply::Failed(why) => ClusterError::Failed(why),
        Reply::Busy => ClusterError::Busy,
        other => ClusterError::Failed(format!(
            "the owner gave an answer to another request: {other:?}"
        )),
    }
}

/// Returns the owner of a slot, if it lives: its incarnation and its address.
fn owner_of(view: &View, slot: Slot) -> Option<(String, String)> {
    let row = view.slots.get(usize::from(slot.0))?;
    let owner = row.owner.as_ref()?;
    let node = view.nodes.get(owner)?;
    Some((owner.clone(), node.info.address.clone()))
}

/// Serves a request, if this node owned the slot when the reply was known. Another node may have claimed the slot, and may know
/// what this one does not. A runtime that is given up forgets its operations, so it cannot tell that there is none.
pub(crate) async fn serve_owned(
    node: &Arc<Node>,
    (owned, runtime): (Arc<Owned>, Runtime),
    request: Request,
) -> Reply {
    let slot = Slot(request.slot);
    let reply = serve_here(node, runtime, request).await;
    let serves = || {
        let now = node.serving(slot);
        now.is_some_and(|(now, _)| Arc::ptr_eq(&now, &owned))
    };
    let is_known = match reply {
        Reply::Unknown | Reply::Quarantined => serves(),
        _ => true,
    };
    match is_known && owned.lease.holds() {
        true => reply,
        false => Reply::Moved,
    }
}

/// Serves a request to a slot that this node owns.
async fn serve_here(node: &Arc<Node>, runtime: Runtime, request: Request) -> Reply {
    let Request { of, what, slot } = request;
    let slot = Slot(slot);
    match (what, node.registry.get(&of)) {
        (What::Deliver(letter), _) => deliver(&runtime, of, letter).await,
        (What::InQuarantine, _) => entries::list(&runtime, slot),
        (What::Retry(id), _) => entries::retry(node, slot, &runtime, id).await,
        (What::Call(call), _) => answering::answer(node, &runtime, &of, call).await,
        (What::Done { caller, done }, _) => answering::done(&runtime, &caller, &done),
        (What::Discard(id), _) => entries::discard(node, slot, &runtime, id).await,
        (_, None) => Reply::Failed(format!(
            "the owner does not serve {of}; call `operation` for it on each node"
        )),
        // A wait does not count.
        (What::Ended { once: Some(once) }, Some(serves)) => serves.ended(runtime, once).await,
        (what, Some(serves)) => match (Serving::begin(node), what) {
            (None, _) => Reply::Busy,
            (Some(_serving), What::Submit(submit)) => match node.has_room() {
                true => serves.submit(runtime, submit).await,
                false => Reply::Busy,
            },
            (Some(_serving), What::Find(at)) => serves.find(&runtime, at),
            (Some(_serving), What::Cancel(at)) => serves.cancel(&runtime, at),
            (
                Some(_serving),
                What::Send {
                    to,
                    event,
                    once: Some(once),
                },
            ) => serves.send(runtime, to, event, once).await,
            (Some(_), _) => Reply::Failed("a request has no id".to_owned()),
        },
    }
}

/// A request that is served.
pub(crate) struct Serving(Arc<Node>);

impl Serving {
    /// Returns `None` if the node has too much to do.
    pub(crate) fn begin(node: &Arc<Node>) -> Option<Self> {
        let has_room = node.room.enter();
        let this = Self(Arc::clone(node));
        has_room.then_some(this)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.room.leave();
    }
}
