//! What a cluster is kept in: a database, or a replicated log, that all nodes reach.

use std::{any::TypeId, collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use fom_journal::Statement;
use serde::{Deserialize, Serialize};

pub use crate::assignment::Assignment;
use crate::slot::Slot;

/// Keeps a cluster: which nodes live, which node owns each slot, and a log of bodies for each slot.
///
/// The functions block, and several threads call them at once. They return within a few seconds, also if the server does not
/// answer. Only [`open`](Self::open) may wait for half a minute. The tests in `conformance`, with the feature `testing`, check that
/// an engine keeps the promises of this trait.
pub trait Engine: Send + Sync + 'static {
    /// Creates the cluster, if there is none with its name. Returns its settings.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer, or does not keep what it acknowledges.
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError>;

    /// Sends a heartbeat. Returns all nodes and slots, as of after the heartbeat.
    ///
    /// The first heartbeat of an incarnation adds the node, unless there is a node with the same name. A later one counts the
    /// heartbeat of the node up, unless the node was [evicted](Self::evict). If neither happened, [`View::is_member`] is false.
    ///
    /// # Errors
    ///
    /// After an error, the heartbeat may be counted or not.
    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError>;

    /// Removes a node that is dead, if it has still sent this heartbeat and no later one. Returns whether it was removed by
    /// this call.
    ///
    /// # Errors
    ///
    /// After an error, the node may be removed or not.
    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError>;

    /// Claims a slot: adds one to its term and makes this node its owner. Returns `None` if this node is no member, if the slot
    /// has an owner that is another member, and if the slot is not this node's and has no longer the term `claim.seen`. The claim
    /// is durable when it is acknowledged, and so is all that the slot had before.
    ///
    /// # Errors
    ///
    /// After an error, the slot may be claimed or not.
    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError>;

    /// Appends bodies to the logs of slots. Returns, in their order, whether the bodies of each slot were appended. Those of a
    /// slot with another term are not. The bodies of one slot are appended all or none. The statements of a slot are executed in
    /// the same transaction if its bodies are appended, and not otherwise.
    ///
    /// # Errors
    ///
    /// With [`EngineError::Refused`] and [`EngineError::Statement`], nothing was appended, for no slot. After any other error,
    /// the bodies of each slot may be appended or not, also later, until this node has claimed the slot again.
    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError>;

    /// Returns the type of the statements that the engine executes. Default: none. Then no node gives it bodies with statements.
    fn executes(&self) -> Option<TypeId> {
        None
    }

    /// Returns the first bodies of a slot with the numbers from `from` to `to`, in their order. No body means that there is
    /// none.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer.
    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError>;

    /// Returns the number of the last body of each slot, in the order of the slots, all at one moment. No commit that is
    /// acknowledged before the call is missing, and what one commit appended to a slot is there in whole or not at all.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer.
    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError>;

    /// Deletes the bodies of a slot up to this number, if the slot has this term.
    ///
    /// # Errors
    ///
    /// After an error, the bodies may be there or not.
    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError>;

    /// Replaces the notes of a slot, if it has this term. Returns whether it has. A claim returns them.
    ///
    /// # Errors
    ///
    /// After an error, the notes may be replaced or not.
    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError>;

    /// Replaces the assignment, if the version of the kept one is one less. Returns the one that is kept after that.
    ///
    /// # Errors
    ///
    /// After an error, the assignment may be replaced or not, also later.
    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError>;

    /// Gives a slot up, if it has this term. Another node can claim it at once.
    ///
    /// # Errors
    ///
    /// After an error, the slot may be given up or not.
    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError>;

    /// Removes this node, which has given its slots up.
    ///
    /// # Errors
    ///
    /// After an error, the node may be removed or not.
    fn leave(&self, incarnation: &str) -> Result<(), EngineError>;
}

/// The settings of a cluster, which are the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// The number of slots.
    pub slots: u16,
    /// The number of the hash that gives a key its slot.
    pub hash: u32,
}

impl Settings {
    /// Returns the settings of a cluster with so many slots.
    pub fn new(slots: u16) -> Self {
        Self {
            slots,
            hash: crate::slot::HASH,
        }
    }
}

/// What a node tells with its heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beat<'a> {
    /// The name of the process: no other process, and no earlier run of this one, has it.
    pub incarnation: &'a str,
    /// Whether no heartbeat of the incarnation was answered yet.
    pub is_first: bool,
    /// The time of the cluster, as this node has measured it.
    pub time: Duration,
    /// What others know of the node.
    pub node: &'a NodeInfo,
}

/// Operation types with their versions. A name is that of the machine and that of the operation, such as `Selling Order`. A node can
/// read these versions and earlier ones; a slot may contain them.
pub type Versions = BTreeMap<String, u32>;

/// No operation types.
static NONE: Versions = Versions::new();

/// What others know of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The name, which one live node has.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The share of slots that it takes, relative to others. 0 while it leaves.
    pub weight: u32,
    /// What it can read.
    pub reads: Versions,
    /// Incarnations whose processes lived on after they were removed, such as during a partition of the network: those of this
    /// process, and those of which it has heard.
    pub survived: Vec<String>,
}

/// A node, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeRow {
    /// What it tells of itself.
    pub info: NodeInfo,
    /// The number of its heartbeats.
    pub beat: u64,
}

/// A slot, as nodes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SlotRow {
    /// The fencing token. It only grows.
    pub term: u64,
    /// The incarnation of the owner. It may have been removed.
    pub owner: Option<String>,
    /// The time of the cluster at the first claim of this owner.
    pub since: Duration,
    /// What the owner could write when it claimed the slot first.
    pub holds: Versions,
}

/// The cluster, as one heartbeat saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// Whether this node is a member.
    pub is_member: bool,
    /// The nodes by their incarnations.
    pub nodes: BTreeMap<String, NodeRow>,
    /// The slots, in their order.
    pub slots: Vec<SlotRow>,
    /// The time of the cluster: the greatest that a node has sent. For a first heartbeat in a cluster without nodes, this is
    /// more by the time since the last heartbeat of any node, by the clock of the engine. That clock counts nowhere else: the
    /// clocks of two servers may differ.
    pub time: Duration,
    /// What operators have said.
    pub assignment: Assignment,
}

/// What a node claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim<'a> {
    /// The slot.
    pub slot: Slot,
    /// The term that the slot had when this node saw it.
    pub seen: u64,
    /// The node that claims it.
    pub incarnation: &'a str,
    /// The time of the cluster, as this node has measured it.
    pub time: Duration,
    /// What this node can write. If it does not own the slot already, the slot [holds](SlotRow::holds) that from the claim on.
    pub reads: &'a Versions,
}

/// A slot that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The term from now on.
    pub term: u64,
    /// The number of the last body that was appended; 0 if there was none.
    pub last: u64,
    /// The greatest time that a claim or a commit of the slot had.
    pub time: Duration,
    /// The incarnation of the last owner, if it was removed while it had the slot.
    pub dead: Option<String>,
    /// The notes of the slot; empty if it never had some.
    pub notes: Vec<u8>,
}

/// Bodies for one slot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Append {
    /// The slot.
    pub slot: Slot,
    /// The term that the slot must have.
    pub term: u64,
    /// The time of the cluster, as the owner has measured it.
    pub time: Duration,
    /// The bodies with their numbers, in order. All numbers are greater than those before.
    pub bodies: Arc<Vec<(u64, Vec<u8>)>>,
    /// What to execute with them, in order, with the number of its group.
    pub statements: Arc<Vec<(usize, Statement)>>,
}

impl NodeInfo {
    /// Returns what others know of a node with this name and address.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            weight: 1,
            reads: Versions::new(),
            survived: Vec::new(),
        }
    }
}

impl<'a> Beat<'a> {
    /// Returns a heartbeat.
    pub fn new(incarnation: &'a str, is_first: bool, time: Duration, node: &'a NodeInfo) -> Self {
        Self {
            incarnation,
            is_first,
            time,
            node,
        }
    }
}

impl NodeRow {
    /// Returns a node that has sent so many heartbeats.
    pub fn new(info: NodeInfo, beat: u64) -> Self {
        Self { info, beat }
    }
}

impl SlotRow {
    /// Returns a slot with this term and owner.
    pub fn new(term: u64, owner: Option<String>) -> Self {
        Self {
            term,
            owner,
            since: Duration::ZERO,
            holds: Versions::new(),
        }
    }
}

impl View {
    /// Returns what a heartbeat saw.
    pub fn new(
        is_member: bool,
        nodes: BTreeMap<String, NodeRow>,
        slots: Vec<SlotRow>,
        time: Duration,
    ) -> Self {
        Self {
            is_member,
            nodes,
            slots,
            time,
            assignment: Assignment::default(),
        }
    }
}

impl<'a> Claim<'a> {
    /// Returns a claim of a slot with the term `seen`, by a node that can read nothing.
    pub fn new(slot: Slot, seen: u64, incarnation: &'a str, time: Duration) -> Self {
        Self {
            slot,
            seen,
            incarnation,
            time,
            reads: &NONE,
        }
    }
}

impl Claimed {
    /// Returns the answer to a claim.
    pub fn new(term: u64, last: u64, time: Duration, dead: Option<String>, notes: Vec<u8>) -> Self {
        Self {
            term,
            last,
            time,
            dead,
            notes,
        }
    }
}

impl Append {
    /// Returns bodies for a slot.
    pub fn new(slot: Slot, term: u64, time: Duration, bodies: Vec<(u64, Vec<u8>)>) -> Self {
        Self {
            slot,
            term,
            time,
            bodies: Arc::new(bodies),
            statements: Arc::default(),
        }
    }
}

/// An engine did not do what it was asked. Clones share the source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine has refused the request, and has done nothing.
    #[error("the engine refuses: {0}")]
    Refused(#[source] Arc<dyn Error + Send + Sync>),
    /// A statement failed, and the engine has done nothing.
    #[error("a statement that is committed with {slot} failed: {source}")]
    Statement {
        /// The slot with the statement.
        slot: Slot,
        /// The number of the statement among those of the slot. The first has number 0.
        statement: usize,
        /// The error of the statement.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// It is not known what the engine has done.
    #[error("the engine does not answer: {0}")]
    Unknown(#[source] Arc<dyn Error + Send + Sync>),
}

impl EngineError {
    /// The engine has refused the request, and has done nothing.
    pub fn refused(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(Arc::from(why.into()))
    }

    /// It is not known what the engine has done.
    pub fn unknown(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unknown(Arc::from(why.into()))
    }
}
