//! The errors of a cluster.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use fom_journal::JournalError;
use fom_runtime::error::{BuildError, RefusedReason};

use crate::{engine::EngineError, slot::Slot};

/// An export or an import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An export goes to a directory of its own.
    #[error("{} is there already; export to a new directory", .0.display())]
    Exists(PathBuf),
    /// The directory is not one that an export has finished.
    #[error("{} has no whole export: {what}", directory.display())]
    NoExport {
        /// The directory.
        directory: PathBuf,
        /// What is missing or wrong.
        what: String,
    },
    /// An import makes a new cluster.
    #[error(
        "the cluster is not new: {0}; import into a cluster with a name that was never used, before its first node starts"
    )]
    NotNew(String),
    /// A journal cannot be written or read.
    #[error("the journal of {slot}: {source}")]
    Journal {
        /// The slot.
        slot: Slot,
        /// The error of the journal.
        source: JournalError,
    },
    /// The journal of a single machine cannot be read.
    #[error("the journal in {}: {source}", directory.display())]
    Single {
        /// Its directory.
        directory: PathBuf,
        /// The error of the journal.
        source: JournalError,
    },
    /// The owners delete from the logs faster than they are read.
    #[error(
        "the logs of the slots were compacted during each of {0} attempts; export at a quieter time"
    )]
    Compacted(u32),
}

/// A cluster did not do what it was asked. Clones share the source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cluster has another number of slots.
    #[error(
        "the cluster has {found} slots, but this node wants {wanted}; the number is set when the cluster is created, so call \
         `slots({found})`"
    )]
    OtherSlots {
        /// The number of slots of the cluster.
        found: u16,
        /// The number that this node wants.
        wanted: u16,
    },
    /// The cluster was created with another hash, so each node would look for a key in another slot.
    #[error(
        "the cluster gives keys to slots by hash {found}, but this release knows hash {known}; use the release that created \
         the cluster"
    )]
    OtherHash {
        /// The number of the hash of the cluster.
        found: u32,
        /// The number that this release knows.
        known: u32,
    },
    /// Another process has the name of this node, and lives.
    #[error("another process is the node `{0}` and lives; give each node a name of its own")]
    NameInUse(String),
    /// The cluster has lost commits: a term went back.
    #[error(
        "{slot} has term {found}, but this node has seen term {seen}: the engine has lost commits; restore its latest state, \
         or restart all nodes to accept the loss"
    )]
    TermWentBack {
        /// The slot.
        slot: Slot,
        /// The term that the engine has.
        found: u64,
        /// The highest term that this node has seen.
        seen: u64,
    },
    /// Two operation types of the node, or two [`Answers`](crate::Answers), have one name. Two types may also have had one name in an
    /// earlier release.
    #[error("`{0}` is the name of two types that this node serves; give one of them another name")]
    AddedTwice(String),
    /// The node cannot serve other nodes.
    #[error("the node cannot serve other nodes: {0}")]
    Listen(#[source] Arc<io::Error>),
    /// Calls to another node fail.
    #[error("{node} at {address} cannot be called: {why}")]
    Unreachable {
        /// The name of the other node.
        node: String,
        /// Its address.
        address: String,
        /// What its network says.
        why: String,
    },
    /// The runtime of a slot could not be built.
    #[error("the runtime of {slot} could not be built: {source}")]
    Build {
        /// The slot.
        slot: Slot,
        /// Why.
        source: Arc<BuildError>,
    },
    /// A thread could not be created.
    #[error("a thread could not be created: {0}")]
    Thread(#[source] Arc<io::Error>),
    /// No node has served the slot for the whole time that the caller was ready to wait. A submission or a send may be
    /// executed later. Ask again with the same operation id.
    #[error(
        "no node has answered for {slot} within {waited:?}; `Cluster::status` says why. It may be executed later: ask again with \
         the same operation id"
    )]
    NoOwner {
        /// The slot.
        slot: Slot,
        /// How long the caller has waited.
        waited: Duration,
    },
    /// The owners of a slot have died one after the other, each while it had this call. It may end each process that runs it.
    #[error(
        "{owners} owners of {slot} have died while they had this call; it may end each process that runs it, so it is not repeated"
    )]
    OwnersDied {
        /// The slot.
        slot: Slot,
        /// The number of owners.
        owners: usize,
    },
    /// The owner has too many requests.
    #[error("the owner has too many requests; ask again later, or shed load")]
    Busy,
    /// The owner has refused the submission.
    #[error("{0}")]
    Refused(RefusedReason),
    /// No operation is known at this place.
    #[error(
        "no operation is known by {0}: it was never submitted, or its outcome is not remembered any more"
    )]
    Unknown(String),
    /// The operation is in quarantine.
    #[error("the operation is quarantined; see `Operator::quarantine`, and retry it or discard it")]
    Quarantined,
    /// The operation or the event cannot be saved, or the owner cannot read it.
    #[error("{0}")]
    Failed(String),
    /// An export or an import failed.
    #[error("{0}")]
    Backup(#[source] Arc<BackupError>),
    /// The node has left the cluster.
    #[error("this node has left the cluster")]
    Left,
}
