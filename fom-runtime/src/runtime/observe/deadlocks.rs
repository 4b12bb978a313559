//! Foms that wait for each other in a cycle. The search stops no fom. It reads each wait once more before it reports
//! the cycle.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::Serialize;

use crate::{
    fom::{
        AnyRef, Attached, Attachments, Blocker, FomAddress, FomIdentity, Hold, Holder, KeyWait,
        Wait, WaitKind, WaitingFor,
    },
    id::{FomId, Key},
    runtime::{
        Shared,
        observe::{WaitInfo, WaitsFor},
    },
    serial,
};
use fom_protocol::{
    FomState,
    sync::atomic::{Ordering, fence},
};

/// A cycle of foms, each of which waits for what the next has. `Display` prints it as one sentence.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Deadlock {
    /// The foms: each waits for the next, and the last for the first.
    pub waits: Vec<FomWait>,
}

/// A wait of a fom for another fom: an edge of the wait-for graph. `Display` names the fom that waits.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FomWait {
    /// The fom that waits.
    pub fom: FomId,
    /// Its operation type.
    pub operation: &'static str,
    /// The key that it was submitted with.
    #[serde(serialize_with = "serial::some_text")]
    pub key: Option<Key>,
    /// Its phase.
    pub phase: &'static str,
    /// What it waits for. The only [holder](WaitInfo::holders) is the other fom.
    pub wait: WaitInfo,
}

impl fmt::Display for FomWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.fom)?;
        if let Some(key) = &self.key {
            write!(f, " (key {key})")?;
        }
        write!(f, " in {}", self.phase)
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, wait) in self.waits.iter().enumerate() {
            match place {
                0 => write!(f, "{wait} waits for {}", wait.wait)?,
                _ => write!(f, ", which waits for {}", wait.wait)?,
            }
        }
        Ok(())
    }
}

/// A fom, and its waits for other foms.
struct Node {
    fom: AnyRef,
    waits: Vec<Edge>,
}

/// A wait of one fom for another.
struct Edge {
    /// The index of the other fom.
    on: usize,
    why: Why,
}

enum Why {
    /// A wait that another package tells.
    Told(Arc<dyn Attached>, Blocker),
    Key,
}

/// One wait of a cycle: the index of the fom, and which of its waits.
type Link = (usize, usize);

pub(crate) fn deadlocks(shared: &Shared) -> Vec<Deadlock> {
    let nodes = look(shared);
    let wait = |(node, wait): Link| (&nodes[node].fom, &nodes[node].waits[wait]);
    let mut found = cycles(&nodes);
    found.retain(|cycle| {
        let mut links = cycle.iter().copied().map(wait);
        links.all(|(fom, wait)| !runs(fom) && still(fom, &wait.why, &nodes[wait.on].fom))
    });
    let tell = |link| {
        let (fom, wait) = wait(link);
        tell(fom, wait, &nodes[wait.on].fom)
    };
    let tell_all = |cycle: Vec<Link>| Deadlock {
        waits: cycle.into_iter().map(tell).collect(),
    };
    found.into_iter().map(tell_all).collect()
}

/// Returns the wait-for graph.
pub(crate) fn waits_of_all(shared: &Shared) -> Vec<FomWait> {
    let nodes = look(shared);
    let told = |node: &Node| {
        let tell = |wait: &Edge| tell(&node.fom, wait, &nodes[wait.on].fom);
        node.waits.iter().map(tell).collect::<Vec<_>>()
    };
    let waiting = nodes.iter().filter(|node| !runs(&node.fom));
    waiting.flat_map(told).collect()
}

/// Reads which foms wait for which, each at its own moment.
fn look(shared: &Shared) -> Vec<Node> {
    let mut foms = foms(shared);
    foms.sort_by_key(|fom| fom.id());
    let places: HashMap<_, _> = foms
        .iter()
        .map(|fom| FomIdentity::of(fom))
        .zip(0..)
        .collect();
    let wait = |(on, why): (AnyRef, Why)| {
        // Not a fom of another runtime.
        let on = *places.get(&FomIdentity::of(&on))?;
        Some(Edge { on, why })
    };
    let node = |fom: &AnyRef| Node {
        fom: fom.clone(),
        waits: waits(fom).into_iter().filter_map(wait).collect(),
    };
    foms.iter().map(node).collect()
}

fn foms(shared: &Shared) -> Vec<AnyRef> {
    let homes = shared.localities.iter();
    homes.flat_map(|home| home.pools.foms()).collect()
}

/// Returns the foms that must act before this fom goes on.
fn waits(fom: &AnyRef) -> Vec<(AnyRef, Why)> {
    let mut waits = Vec::new();
    for part in Attachments::of(fom) {
        for blocker in part.blockers() {
            let on = AnyRef::of(blocker.fom.header());
            waits.push((on, Why::Told(Arc::clone(&part), blocker)));
        }
    }
    if let KeyWait::Waits(_) = fom.turn().key_wait() {
        let (holders, _) = Shared::of(fom).key_index.before(fom);
        waits.extend(holders.into_iter().map(|on| (on, Why::Key)));
    }
    waits
}

/// Returns whether this fom waits for the other one, directly or through other foms. Then the other fom must not wait
/// for this one: none of them would ever go on.
///
/// The search stops no fom, so an answer may be old when it is returned. The search looks at `limit` foms at most, and
/// returns `false` if it finds nothing among them. A wait with a time limit counts as well. The search calls
/// [`Attached::blockers`] of each fom, so the caller must hold no lock that these functions take.
pub fn waits_for(fom: &FomAddress, other: &FomAddress, limit: usize) -> bool {
    // The caller has made its own wait known. Of two callers at once, at least one sees the wait of the other. This needs
    // the fence, because the look for the parts of a fom takes no lock if there are none.
    fence(Ordering::SeqCst);
    let mut left = limit;
    loop {
        if let Some(waits) = search(fom, other, &mut left) {
            return waits;
        }
    }
}

/// Searches once, and looks at `left` foms at most. Returns `None` if a wait on the way to the other fom has ended
/// meanwhile. Other waits may lead to the foms behind that wait, and the search goes to each fom once.
fn search(fom: &FomAddress, other: &FomAddress, left: &mut usize) -> Option<bool> {
    let first = AnyRef::of(fom.header());
    let mut seen = HashSet::from([FomIdentity::of(&first)]);
    let mut way = vec![Step {
        fom: first,
        from: None,
    }];
    *left = left.saturating_sub(1);
    let (mut at, mut has_ended) = (0, false);
    while at < way.len() {
        for (on, why) in waits(&way[at].fom) {
            let identity = FomIdentity::of(&on);
            let is_other = identity == other.identity();
            if !is_other && (*left == 0 || !seen.insert(identity)) {
                continue;
            }
            way.push(Step {
                fom: on,
                from: Some((at, why)),
            });
            if !is_other {
                *left -= 1;
            } else if lasts(&way) {
                return Some(true);
            } else {
                way.pop();
                has_ended = true;
            }
        }
        at += 1;
    }
    (!has_ended || *left == 0).then_some(false)
}

/// A fom on the way of a search.
struct Step {
    fom: AnyRef,
    /// The place of the fom that waits for this one, and the reason of the wait.
    from: Option<(usize, Why)>,
}

/// Returns whether all waits on the way to the last fom are as they were when they were read.
fn lasts(way: &[Step]) -> bool {
    let mut step = way.last();
    while let Some(Step {
        fom,
        from: Some((before, why)),
    }) = step
    {
        if !still(&way[*before].fom, why, fom) {
            return false;
        }
        step = way.get(*before);
    }
    true
}

/// Finds cycles, by a depth-first search that visits each wait once. Of cycles that share foms, it may miss some.
fn cycles(nodes: &[Node]) -> Vec<Vec<Link>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        OnTheWay,
        Done,
    }
    let mut found = Vec::new();
    let mut seen = vec![Seen::Never; nodes.len()];
    let mut way: Vec<Link> = Vec::new();
    for root in 0..nodes.len() {
        if seen[root] == Seen::Never {
            seen[root] = Seen::OnTheWay;
            way.push((root, 0));
        }
        while let Some((node, next)) = way.last_mut() {
            let Some(wait) = nodes[*node].waits.get(*next) else {
                seen[*node] = Seen::Done;
                way.pop();
                continue;
            };
            *next += 1;
            match seen[wait.on] {
                Seen::Never => {
                    seen[wait.on] = Seen::OnTheWay;
                    way.push((wait.on, 0));
                }
                Seen::OnTheWay => {
                    let begins = way.iter().position(|(node, _)| *node == wait.on);
                    let cycle = &way[begins.unwrap_or_default()..];
                    for (node, _) in cycle {
                        seen[*node] = Seen::Done;
                    }
                    found.push(cycle.iter().map(|(node, next)| (*node, next - 1)).collect());
                }
                Seen::Done => {}
            }
        }
    }
    found
}

/// Returns whether a fom still waits for another one, for this reason. If so, the wait lasted all the time since it was
/// read.
fn still(fom: &AnyRef, why: &Why, other: &AnyRef) -> bool {
    match why {
        Why::Told(part, blocker) => part.still_blocks(blocker),
        Why::Key => {
            let (before, _) = Shared::of(fom).key_index.before(fom);
            before
                .iter()
                .any(|holder| holder.as_ptr() == other.as_ptr())
        }
    }
}

/// Returns whether the fom runs. It can have a wait that it has begun and does not await now.
fn runs(fom: &AnyRef) -> bool {
    fom.token.state() == FomState::Running && !fom.flags.is_blocked()
}

fn tell(fom: &AnyRef, wait: &Edge, other: &AnyRef) -> FomWait {
    let holder = |hold| Holder::fom(other, hold);
    let on = match &wait.why {
        Why::Told(_, blocker) => WaitsFor::Package {
            kind: match fom.waiting.get() {
                WaitingFor::Kind(number) => WaitKind::of_number(number).map(WaitKind::name),
                _ => None,
            }
            .unwrap_or(blocker.kind),
            wait: Wait {
                subject: blocker.subject.clone(),
                holders: vec![holder(blocker.hold)],
                ..Wait::of(blocker.kind)
            },
        },
        Why::Key => WaitsFor::Turn {
            series: fom.turn().serial().map(|of| of.key.clone()),
            holders: vec![holder(Hold::Has)],
            ahead: 0,
        },
    };
    FomWait {
        fom: fom.id(),
        operation: fom.type_name(),
        key: fom.key().cloned(),
        phase: fom.phase_name(),
        wait: WaitInfo::new(fom, on),
    }
}
