//! Checks the promises of [`Engine`], for any implementation.

use std::time::Duration;

use crate::{
    engine::{Append, Assignment, Beat, Claim, Engine, NodeInfo, Settings, Versions, View},
    slot::Slot,
};

const SECOND: Duration = Duration::from_secs(1);

/// Checks that an engine keeps the promises of the trait, as far as a check without a crash can. `fresh` returns an engine
/// without a cluster. It is called several times.
///
/// ```
/// use fom_cluster::{MemoryEngine, conformance};
///
/// conformance::check(MemoryEngine::new);
/// ```
///
/// # Panics
///
/// If the engine breaks a promise. The message names the promise.
pub fn check<E: Engine>(mut fresh: impl FnMut() -> E) {
    the_first_settings_stay(&fresh());
    heartbeats_are_counted(&fresh());
    only_a_node_with_an_unchanged_heartbeat_is_evicted(&fresh());
    one_node_has_a_name(&fresh());
    a_claim_needs_a_free_slot(&fresh());
    a_former_owner_changes_nothing(&fresh());
    commits_are_answered_for_each_slot(&fresh());
    logs_keep_their_order(&fresh());
    the_ends_are_those_of_all_slots(&fresh());
    time_never_goes_back(&fresh());
    notes_go_to_the_next_owner(&fresh());
    an_assignment_follows_the_one_before(&fresh());
    a_slot_holds_what_its_owner_could_write(&fresh());
}

/// A node of a check.
struct Node<'a, E> {
    engine: &'a E,
    incarnation: &'static str,
    info: NodeInfo,
}

impl<'a, E: Engine> Node<'a, E> {
    /// Joins the cluster, which the first node creates with two slots.
    fn join(engine: &'a E, incarnation: &'static str) -> Self {
        engine
            .open(&Settings::new(2))
            .expect("the cluster is opened");
        let this = Self {
            engine,
            incarnation,
            info: NodeInfo::new(incarnation, "address"),
        };
        assert!(
            this.beats(true).is_member,
            "a first heartbeat adds the node"
        );
        this
    }

    fn beats(&self, is_first: bool) -> View {
        self.beats_at(is_first, Duration::ZERO)
    }

    fn beats_at(&self, is_first: bool, time: Duration) -> View {
        let beat = Beat::new(self.incarnation, is_first, time, &self.info);
        self.engine.beat(&beat).expect("a heartbeat is answered")
    }

    /// Claims a slot with this term. Returns its new term.
    fn claims(&self, slot: u16, seen: u64) -> Option<u64> {
        let claim = Claim::new(Slot(slot), seen, self.incarnation, SECOND);
        let claimed = self.engine.claim(&claim).expect("a claim is answered");
        claimed.map(|claimed| claimed.term)
    }

    fn appends(&self, slot: u16, term: u64, number: u64) -> bool {
        let append = append(slot, term, &[number]);
        self.engine.commit(&[append]).expect("a commit is answered")[0]
    }

    fn evicts(&self, other: &str) -> bool {
        let beat = self.beats(false).nodes[other].beat;
        self.engine
            .evict(other, beat)
            .expect("an eviction is answered")
    }

    fn log(&self, slot: u16) -> Vec<u64> {
        let loaded = self.engine.load(Slot(slot), 0, u64::MAX >> 1);
        let loaded = loaded.expect("a log is read").into_iter();
        loaded
            .map(|(number, body)| {
                assert_eq!(body, body_of(number), "a body is read as it was written");
                number
            })
            .collect()
    }
}

fn body_of(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 7]
}

fn append(slot: u16, term: u64, numbers: &[u64]) -> Append {
    let bodies = numbers.iter().map(|number| (*number, body_of(*number)));
    Append::new(Slot(slot), term, SECOND, bodies.collect())
}

fn the_first_settings_stay(engine: &impl Engine) {
    let first = engine.open(&Settings::new(2)).expect("it is created");
    assert_eq!(
        first,
        Settings::new(2),
        "a new cluster has the settings of its first node"
    );
    let other = engine.open(&Settings::new(3)).expect("it is opened");
    assert_eq!(
        other, first,
        "a later node learns the settings of the first one"
    );
    let view = Node::join(engine, "a").beats(false);
    assert_eq!(view.slots.len(), 2, "a view has all slots");
    assert!(
        view.slots
            .iter()
            .all(|slot| slot.term == 0 && slot.owner.is_none()),
        "a new slot has term 0 and no owner"
    );
}

fn heartbeats_are_counted(engine: &impl Engine) {
    let a = Node::join(engine, "a");
    let b = Node::join(engine, "b");
    let before = a.beats(false).nodes["b"].beat;
    b.beats(false);
    b.beats(false);
    let view = a.beats(false);
    assert_eq!(
        view.nodes["b"].beat,
        before + 2,
        "each heartbeat counts one up"
    );
    assert_eq!(
        view.nodes["b"].info, b.info,
        "a view has what a node tells of itself"
    );
    let mut leaves = b.info.clone();
    leaves.weight = 0;
    let beat = Beat::new("b", false, Duration::ZERO, &leaves);
    engine.beat(&beat).expect("a heartbeat is answered");
    assert_eq!(
        a.beats(false).nodes["b"].info.weight,
        0,
        "a heartbeat tells what has changed"
    );
}

fn only_a_node_with_an_unchanged_heartbeat_is_evicted(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let seen = a.beats(false).nodes["b"].beat;
    b.beats(false);
    let evicted = engine.evict("b", seen).expect("an eviction is answered");
    assert!(!evicted, "a node that has sent a heartbeat since lives");
    assert!(a.evicts("b"), "a node with this heartbeat is evicted");
    assert!(
        !a.beats(false).nodes.contains_key("b"),
        "an evicted node is gone"
    );
    assert!(
        !b.beats(false).is_member,
        "a heartbeat of an evicted node adds it no more"
    );
    assert!(
        !engine.evict("b", seen).expect("it is answered"),
        "it is evicted once"
    );
    engine.leave("a").expect("it leaves");
    assert!(!a.beats(false).is_member, "a node that has left is gone");
}

fn one_node_has_a_name(engine: &impl Engine) {
    let a = Node::join(engine, "a");
    let again = Node {
        engine,
        incarnation: "a again",
        info: a.info.clone(),
    };
    let view = again.beats(true);
    assert!(!view.is_member, "a name that a node has is refused");
    assert!(
        view.nodes.contains_key("a"),
        "a refused node learns which node has its name"
    );
    let beat = view.nodes["a"].beat;
    assert!(
        engine.evict("a", beat).expect("it is answered"),
        "a node that is no member can evict"
    );
    assert!(
        again.beats(true).is_member,
        "the name is free after the burial"
    );
    assert!(
        again.beats(true).is_member,
        "a first heartbeat can be repeated"
    );
}

fn a_claim_needs_a_free_slot(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let stranger = Node {
        engine,
        incarnation: "stranger",
        info: NodeInfo::new("stranger", ""),
    };
    assert_eq!(stranger.claims(0, 0), None, "only a member claims");
    assert_eq!(
        a.claims(0, 1),
        None,
        "a claim with another term than the slot's fails"
    );
    assert_eq!(
        a.claims(0, 0),
        Some(1),
        "a free slot is claimed, and its term grows by one"
    );
    assert_eq!(b.claims(0, 1), None, "a slot of a member is not claimed");
    assert_eq!(
        a.claims(0, 0),
        Some(2),
        "an owner claims its own slot again, whatever term it has seen"
    );
    let view = b.beats(false);
    assert_eq!(view.slots[0].term, 2, "a view has the term");
    assert_eq!(
        view.slots[0].owner.as_deref(),
        Some("a"),
        "a view has the owner"
    );
    assert_eq!(view.slots[1].owner, None, "another slot is free still");
    assert!(b.evicts("a"), "the owner is evicted");
    assert_eq!(a.claims(0, 2), None, "an evicted node claims nothing");
    assert_eq!(
        b.claims(0, 2),
        Some(3),
        "the slot of an evicted node is claimed"
    );
    engine.release(Slot(0), 2).expect("it is answered");
    assert!(
        b.beats(false).slots[0].owner.is_some(),
        "only the owner releases"
    );
    engine.release(Slot(0), 3).expect("it is answered");
    let row = b.beats(false).slots[0].clone();
    assert_eq!(
        (row.term, row.owner),
        (3, None),
        "a released slot is free, and keeps its term"
    );
}

fn a_former_owner_changes_nothing(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let old = a.claims(0, 0).expect("it is free");
    assert!(a.appends(0, old, 1), "an owner appends");
    b.evicts("a");
    let term = b.claims(0, old).expect("its owner is evicted");
    assert!(!a.appends(0, old, 2), "a former owner appends nothing");
    engine
        .delete_until(Slot(0), old, 1)
        .expect("it is answered");
    assert_eq!(b.log(0), [1], "a former owner deletes nothing");
    assert!(b.appends(0, term, 3), "the new owner appends");
    let again = b.claims(0, term).expect("it is its own");
    assert!(
        !b.appends(0, term, 4),
        "after a claim, no request with an earlier term is executed"
    );
    assert!(b.appends(0, again, 5), "the new term is valid");
    engine.release(Slot(0), again).expect("it is answered");
    assert!(
        !b.appends(0, again, 6),
        "a slot without an owner takes nothing"
    );
    assert_eq!(b.log(0), [1, 3, 5], "the log has what owners have appended");
    let claim = Claim::new(Slot(0), again, "b", SECOND);
    let claimed = engine.claim(&claim).expect("it is answered");
    let last = claimed.expect("it is free").last;
    assert_eq!(last, 5, "a claim says what was appended last");
}

fn commits_are_answered_for_each_slot(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let (lost, kept) = (a.claims(0, 0).expect("free"), a.claims(1, 0).expect("free"));
    engine.release(Slot(0), lost).expect("it is answered");
    b.claims(0, lost).expect("it is free");
    let appends = [append(0, lost, &[1, 2]), append(1, kept, &[1, 2])];
    let answers = engine.commit(&appends).expect("a commit is answered");
    assert_eq!(
        answers,
        [false, true],
        "a commit is answered for each slot, in order"
    );
    assert_eq!(
        (a.log(0), a.log(1)),
        (vec![], vec![1, 2]),
        "the bodies of a slot are kept all or none"
    );
    assert_eq!(
        engine.commit(&[]).expect("it is answered"),
        [],
        "a commit of nothing does nothing"
    );
}

fn logs_keep_their_order(engine: &impl Engine) {
    let a = Node::join(engine, "a");
    let term = a.claims(0, 0).expect("it is free");
    let numbers: Vec<u64> = (1..=40).map(|number| number * 3).collect();
    for number in &numbers {
        assert!(a.appends(0, term, *number), "an owner appends");
    }
    assert_eq!(a.log(0), numbers, "a log keeps its order");
    let part = engine.load(Slot(0), 7, 15).expect("it is read");
    let part: Vec<_> = part.into_iter().map(|(number, _)| number).collect();
    assert_eq!(part, [9, 12, 15], "a part of a log is read");
    assert!(
        engine
            .load(Slot(0), 121, 500)
            .expect("it is read")
            .is_empty(),
        "there is no more"
    );
    engine
        .delete_until(Slot(0), term, 60)
        .expect("it is deleted");
    assert_eq!(a.log(0), numbers[20..], "the first bodies are deleted");
    engine
        .delete_until(Slot(0), term, 60)
        .expect("it is deleted again");
}

fn the_ends_are_those_of_all_slots(engine: &impl Engine) {
    let a = Node::join(engine, "a");
    let ends = || engine.ends(2).expect("it is answered");
    assert_eq!(ends(), [0, 0], "a new cluster has no bodies");
    let (first, second) = (a.claims(0, 0).expect("free"), a.claims(1, 0).expect("free"));
    assert_eq!(ends(), [0, 0], "a claim appends no body");
    assert!(a.appends(1, second, 4), "an owner appends");
    assert_eq!(ends(), [0, 4], "each slot has an end of its own");
    let appends = [append(0, first, &[1, 2]), append(1, second, &[5])];
    engine.commit(&appends).expect("it is answered");
    let again = a.claims(0, 0).expect("it is its own");
    assert_eq!(ends(), [2, 5], "it is the last body of each slot");
    engine
        .delete_until(Slot(0), again, 1)
        .expect("it is answered");
    engine.release(Slot(0), again).expect("it is answered");
    assert_eq!(ends(), [2, 5], "a deletion and a release move no end");
}

fn time_never_goes_back(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let view = a.beats_at(false, SECOND * 100);
    assert!(
        view.time >= SECOND * 100,
        "a view has the greatest time that a node has sent"
    );
    assert!(
        view.time < SECOND * 110,
        "the clock of the engine does not count while nodes live"
    );
    let view = b.beats_at(false, SECOND * 40);
    assert!(view.time >= SECOND * 100, "the time never goes back");
    let term = a.claims(0, 0).expect("it is free");
    let mut append = append(0, term, &[1]);
    append.time = SECOND * 200;
    engine.commit(&[append]).expect("it is answered");
    engine.release(Slot(0), term).expect("it is answered");
    let claim = Claim::new(Slot(0), term, "b", SECOND * 50);
    let claimed = engine
        .claim(&claim)
        .expect("it is answered")
        .expect("it is free");
    assert_eq!(
        claimed.time,
        SECOND * 200,
        "a claim says the greatest time of the slot"
    );
    for node in ["a", "b"] {
        engine.leave(node).expect("it leaves");
    }
    let again = Node {
        engine,
        incarnation: "c",
        info: NodeInfo::new("c", ""),
    };
    let view = again.beats_at(true, Duration::ZERO);
    assert!(
        view.time >= SECOND * 100,
        "the time goes on after all nodes have left"
    );
}

fn notes_go_to_the_next_owner(engine: &impl Engine) {
    let (a, b) = (Node::join(engine, "a"), Node::join(engine, "b"));
    let claims = |node: &Node<'_, _>, seen| {
        let claim = Claim::new(Slot(0), seen, node.incarnation, SECOND);
        let claimed = engine.claim(&claim).expect("it is answered");
        claimed.expect("it is free")
    };
    let claimed = claims(&a, 0);
    assert_eq!(
        (claimed.dead.as_deref(), &*claimed.notes),
        (None, &[][..]),
        "a new slot has no notes"
    );
    let noted = |term, notes| engine.note(Slot(0), term, notes).expect("it is answered");
    assert!(noted(1, b"first"), "an owner notes");
    assert!(!noted(2, b"other"), "only the owner notes");
    assert!(noted(1, b"second"), "notes are replaced");
    b.evicts("a");
    let claimed = claims(&b, 1);
    assert_eq!(
        claimed.dead.as_deref(),
        Some("a"),
        "a claim says which owner was removed"
    );
    assert_eq!(claimed.notes, b"second", "a claim returns the notes");
    assert!(!noted(1, b"late"), "a former owner notes nothing");
    assert!(
        claims(&b, 2).dead.is_none(),
        "an owner that claims again is not dead"
    );
    engine.release(Slot(0), 3).expect("it is answered");
    assert!(!noted(3, b"late"), "a slot without an owner takes no notes");
    let claimed = claims(&b, 3);
    assert_eq!(
        (claimed.dead.as_deref(), &*claimed.notes),
        (None, &b"second"[..]),
        "a release keeps the notes"
    );
}

fn an_assignment_follows_the_one_before(engine: &impl Engine) {
    let node = Node::join(engine, "a");
    let none = Assignment::default();
    assert_eq!(
        node.beats(false).assignment,
        none,
        "a new cluster has the assignment with version 0"
    );
    let mut first = none.clone();
    first.version = 1;
    first.drained.extend(["b".to_owned(), "c d".to_owned()]);
    first.pinned.insert(Slot(1), "a".to_owned());
    first.pinned.insert(Slot(0), "b".to_owned());
    let assign = |assignment: &Assignment| engine.assign(assignment).expect("it is answered");
    assert_eq!(assign(&first), first, "the next version is kept");
    assert_eq!(node.beats(false).assignment, first, "a view has it");
    let mut other = first.clone();
    other.drained.clear();
    assert_eq!(assign(&other), first, "the same version is not replaced");
    other.version = 3;
    assert_eq!(assign(&other), first, "no version is left out");
    other.version = 2;
    assert_eq!(assign(&other), other, "the next version is kept");
    assert_eq!(assign(&first), other, "an earlier version comes too late");
    assert_eq!(node.beats(false).assignment, other, "a view has it");
}

fn a_slot_holds_what_its_owner_could_write(engine: &impl Engine) {
    let versions = |all: &[(&str, u32)]| -> Versions {
        let all = all.iter();
        all.map(|(name, version)| ((*name).to_owned(), *version))
            .collect()
    };
    let (mut node, other) = (Node::join(engine, "a"), Node::join(engine, "b"));
    node.info.reads = versions(&[("Selling Order", 1), ("Sending Parcel<u8, u8>", 3)]);
    let view = node.beats(false);
    assert_eq!(
        view.nodes["a"].info.reads, node.info.reads,
        "a view says what a node can read"
    );
    assert_eq!(view.slots[0].holds, Versions::new(), "a new slot is empty");
    for (owner, reads, holds) in [
        (
            &node,
            &[("Selling Order", 2)][..],
            &[("Selling Order", 2)][..],
        ),
        (&node, &[], &[("Selling Order", 2)]),
        (
            &other,
            &[("Selling Order", 1), ("B C", 1)],
            &[("Selling Order", 1), ("B C", 1)],
        ),
    ] {
        let row = &node.beats(false).slots[0];
        if row.owner.as_deref() != Some(owner.incarnation) {
            engine.release(Slot(0), row.term).expect("it is answered");
        }
        let reads = versions(reads);
        let mut claim = Claim::new(Slot(0), row.term, owner.incarnation, SECOND);
        claim.reads = &reads;
        let claimed = engine.claim(&claim).expect("it is answered");
        assert!(claimed.is_some(), "it is free, or its own");
        let view = node.beats(false);
        assert_eq!(
            view.slots[0].holds,
            versions(holds),
            "a slot holds what its owner could write at its first claim"
        );
        assert_eq!(view.slots[1].holds, Versions::new(), "and no other slot");
    }
}
