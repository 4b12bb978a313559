//! A cluster, as a program uses it.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Weak},
};

use fom_durable::DurableBuilderExt as _;
use fom_protocol::sync::{Mutex, block_on};
use fom_runtime::{
    Builder, Key, Persistent, Runtime,
    extension::{Listed, Listing, Question},
    machine::Savable,
    observe::PartInfo,
};

use crate::{
    answers::Answers,
    backup,
    call::{At, Blob, Reply, What},
    caller::Caller,
    copying::Copying,
    engine::{Engine, NodeInfo, Settings},
    error::ClusterError,
    guarded::Guarded,
    import, letters, listed,
    network::{Alone, Network},
    node::{Node, Parts},
    operate::report,
    operator::Operator,
    registry::Registry,
    route::{ask, failed, request},
    serve::serves,
    slot::{Place, Slot},
    status::Status,
    submission::{Outcome, Submission, outcome, unique},
};

/// The number of slots of a cluster that says nothing else.
const SLOTS: u16 = 64;

/// The settings of a node.
#[must_use = "`join` joins the cluster"]
pub struct ClusterBuilder {
    engine: Arc<dyn Engine>,
    network: Arc<dyn Network>,
    name: String,
    slots: u16,
    weight: u32,
    capacity: usize,
    registry: Registry,
    set_up: Box<dyn Fn(Builder) -> Builder + Send + Sync>,
}

impl fmt::Debug for ClusterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder")
            .field("name", &self.name)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl ClusterBuilder {
    /// Sets how other nodes reach this one. Default: no node does.
    pub fn network(mut self, network: impl Network) -> Self {
        self.network = Arc::new(network);
        self
    }

    /// Serves the operations of this type, also by the names that it had in earlier releases. Each node of the cluster must serve
    /// each type.
    pub fn operation<O>(mut self) -> Self
    where
        O: Persistent,
        O::Event: Savable,
    {
        self.registry.add::<O>();
        self.runtime(|builder| builder.operation::<O>())
    }

    /// Answers the calls of this name, for the keys in slots of this node. Each node of the cluster must answer them.
    pub fn answers(mut self, name: impl Into<String>, answers: impl Answers) -> Self {
        self.registry.add_answers(name.into(), Arc::new(answers));
        self
    }

    /// Sets up the runtime of each slot: resources, capacity, listeners. The number of localities is one, unless the function
    /// sets it. It must not set a journal. A second function sets up what the first one returns.
    pub fn runtime(mut self, set_up: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        let first = self.set_up;
        self.set_up = Box::new(move |builder| set_up(first(builder)));
        self
    }

    /// Sets the number of slots. All nodes have the same number, and it never changes. Default: 64. It bounds the number of
    /// nodes that share the work.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    pub fn slots(mut self, slots: u16) -> Self {
        assert!(slots > 0, "a cluster has at least one slot");
        self.slots = slots;
        self
    }

    /// Sets how many slots this node gets, relative to others. Default: 1. 0 counts as 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight.max(1);
        self
    }

    /// Sets how many operations the slots of this node have in flight, all together. A submission beyond that fails with
    /// [`ClusterError::Busy`]. Default: no limit of the node, and in each slot that of its
    /// [runtime](fom_runtime::Builder::capacity).
    ///
    /// A [letter](crate::ClusterCxExt::letters) is in flight until its target has taken it. So a node whose letters cannot be
    /// delivered takes on less. An operation that is in flight already is held back by the [room](crate::Letters::room) for letters, if it
    /// asks for it.
    ///
    /// Submissions that come at once can exceed the limit, by 1,024 at the most. Letters, and slots that come from another node, always
    /// find room: refused, they would be stuck.
    pub fn capacity(mut self, operations: usize) -> Self {
        self.capacity = operations;
        self
    }

    /// Joins the cluster. Creates it if there is none. Returns when the node is a member; it gets its slots after that.
    ///
    /// A dead process with the name of this node is noticed after five to seven seconds. This waits until then. The first
    /// request to the engine blocks the calling thread.
    ///
    /// # Errors
    ///
    /// Fails if two types that the node serves have one name, if the engine fails at first, if the cluster has other settings, if a node with this name lives, and if the node
    /// cannot be reached at its address.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the node leaves.
    pub async fn join(self) -> Result<Cluster, ClusterError> {
        if let Some(name) = self.registry.added_twice() {
            return Err(ClusterError::AddedTwice(name.to_owned()));
        }
        let wanted = Settings::new(self.slots);
        let settings = self.engine.open(&wanted)?;
        if settings.hash != wanted.hash {
            let (found, known) = (settings.hash, wanted.hash);
            return Err(ClusterError::OtherHash { found, known });
        }
        if settings.slots != wanted.slots {
            let (found, wanted) = (settings.slots, wanted.slots);
            return Err(ClusterError::OtherSlots { found, wanted });
        }
        let mut info = NodeInfo::new(self.name.clone(), String::new());
        info.weight = self.weight;
        info.reads = self.registry.versions().clone();
        let set_up = self.set_up;
        let parts = Parts {
            engine: self.engine,
            network: Arc::clone(&self.network),
            registry: self.registry,
            settings,
            set_up: Box::new(move |builder| letters::set_up(set_up(builder))),
            capacity: self.capacity,
        };
        let node = Node::new(parts, info);
        let address = self.network.listen(serves(&node));
        node.set_address(address.map_err(|error| ClusterError::Listen(Arc::new(error)))?);
        node.start()?;
        let caller = Caller::new(&node, unique(&node).to_string());
        let cluster = Cluster(Arc::new(Member {
            node,
            caller,
            listings: Mutex::default(),
        }));
        cluster.until_member(&self.name).await?;
        Ok(cluster)
    }
}

/// A node of a cluster, and the way to all operations of the cluster. Clones are the same node. When the last one is dropped,
/// the node [leaves](Self::leave) in the background.
#[derive(Clone)]
pub struct Cluster(Arc<Member>);

/// Leaves when it is dropped.
struct Member {
    node: Arc<Node>,
    caller: Arc<Caller>,
    /// Where the cluster is listed.
    listings: Mutex<Vec<Listing>>,
}

impl Member {
    fn status(&self) -> Status {
        let mut status = self.node.status();
        status.troubles = self.node.troubles();
        status
    }
}

impl Listed for Member {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        vec![listed::of_status(&self.node.name(), &self.status())]
    }

    // Asks the other nodes.
    fn question(self: Arc<Self>) -> Option<Question> {
        Some(Box::new(move || {
            let report = block_on(report(&self.node));
            vec![listed::of_report(&self.node.name(), &report)]
        }))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.node.begin_leave();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.node.name()).finish()
    }
}

/// How many heartbeats a node with the same name may send before it counts as alive.
const ALIVE: u64 = 3;

impl Cluster {
    /// Returns the settings of the node with this name, in the cluster that this engine keeps.
    pub fn builder(engine: impl Engine, name: impl Into<String>) -> ClusterBuilder {
        ClusterBuilder {
            engine: Guarded::guard(engine),
            network: Arc::new(Alone),
            name: name.into(),
            slots: SLOTS,
            weight: 1,
            capacity: usize::MAX,
            registry: Registry::default(),
            set_up: Box::new(|builder| builder),
        }
    }

    #[cfg(test)]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0.node
    }

    /// Waits until the node is a member.
    async fn until_member(&self, name: &str) -> Result<(), ClusterError> {
        let node = &self.0.node;
        let mut first = None;
        loop {
            let (view, version) = node.seen.get();
            if view.is_member {
                return Ok(());
            }
            let named = |row: &&crate::engine::NodeRow| row.info.name == name;
            if let Some(other) = view.nodes.values().find(named) {
                let first = *first.get_or_insert(other.beat);
                if other.beat >= first + ALIVE {
                    return Err(ClusterError::NameInUse(name.to_owned()));
                }
            }
            node.seen.changed(version).await;
        }
    }

    /// Submits an operation. [`start`](Submission::start) starts it at the owner of its slot.
    pub fn submit<O: Persistent>(&self, operation: O) -> Submission<'_, O> {
        Submission::new(&self.0.node, operation)
    }

    /// Sends an event to the operation at this place. When this method returns, the event is in the journal of the operation,
    /// which takes it exactly once. `once` is the sender's id for the event: a repetition with the same id is not sent again.
    /// Returns whether the event was sent now.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Unknown`] if no operation is there, and with other errors as
    /// [`DurableExt::send_durably`](fom_durable::DurableExt::send_durably) does.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the event may be sent or not. Send it again with the same id.
    pub async fn send<O>(
        &self,
        to: impl Into<Place>,
        event: O::Event,
        once: impl Into<Key>,
    ) -> Result<bool, ClusterError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        let (to, once) = (to.into(), once.into());
        // The future must not hold the event, which may be no `Sync`.
        let encoded = rmp_serde::to_vec_named(&event);
        drop(event);
        let event = encoded.map_err(|error| ClusterError::Failed(error.to_string()))?;
        let what = What::Send {
            to: at(&to),
            event: Blob(event),
            once: Some(once),
        };
        match self.ask::<O>(&to, what).await? {
            Reply::Done => Ok(true),
            Reply::Before => Ok(false),
            other => Err(failed(other, &to)),
        }
    }

    /// Looks an operation up. This starts nothing.
    ///
    /// # Errors
    ///
    /// Fails if the owner of the slot does not answer.
    pub async fn find<O: Persistent>(&self, at: impl Into<Place>) -> Result<Found, ClusterError> {
        let place = at.into();
        match self.ask::<O>(&place, What::Find(self::at(&place))).await? {
            Reply::InFlight(phase) => Ok(Found::InFlight { phase }),
            Reply::Done => Ok(Found::Ended),
            Reply::Quarantined => Ok(Found::Quarantined),
            Reply::Unknown => Ok(Found::Unknown),
            other => Err(failed(other, &place)),
        }
    }

    /// Cancels the operation at this place, as [`FomRef::cancel`](fom_runtime::FomRef::cancel) does. Returns whether it was in flight:
    /// `false` means that it has ended before. How it ends then, its [outcome](Self::outcome) says.
    ///
    /// The journal does not keep a cancel. If the owner is lost before the operation has left its phase, the operation goes on as if
    /// there had been none: cancel it again.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Unknown`] if no operation is known at this place, with [`ClusterError::Quarantined`] if it cannot go
    /// on for now, and if the owner does not answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the operation may be cancelled or not.
    pub async fn cancel<O: Persistent>(&self, at: impl Into<Place>) -> Result<bool, ClusterError> {
        let place = at.into();
        let what = What::Cancel(self::at(&place));
        match self.ask::<O>(&place, what).await? {
            Reply::Done => Ok(true),
            Reply::Before => Ok(false),
            other => Err(failed(other, &place)),
        }
    }

    /// Waits until the operation that was submitted at this place, with its operation id, has ended. Returns how.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Unknown`] if there is no such operation, or its outcome is not remembered any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the wait.
    pub async fn outcome<O: Persistent>(
        &self,
        at: impl Into<Place>,
    ) -> Result<Outcome<O>, ClusterError> {
        outcome::<O>(&self.0.node, &at.into()).await
    }

    /// Calls what [answers](ClusterBuilder::answers) under this name, at the owner of the slot of `key`. Returns the answer.
    ///
    /// While one node owns the slot, a call runs once, also if its answer is lost and it is repeated. If the slot moves before the answer
    /// is there, the call runs again at the next owner.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Busy`] if the owner has too many calls, with [`ClusterError::Failed`] if the owner does not answer this
    /// name, if the call panics, and if the call or its answer is longer than 64 MiB. Fails if no node owns the slot for a minute, and with
    /// [`ClusterError::OwnersDied`] if three owners have died while they had the call.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the owner is told to drop the future of the answer. It may have ended by then.
    pub async fn call(
        &self,
        name: &str,
        key: impl Into<Key>,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, ClusterError> {
        self.0.caller.call(name, key.into(), body).await
    }

    /// Writes what the cluster keeps to a new directory, as of one moment: a journal in files for each slot. The nodes go on
    /// meanwhile. [`import`](Self::import) makes a cluster of it, also on another engine, and `fom journal` reads the journals.
    ///
    /// Phases that began before the moment and committed after it run again after an import, with the same step keys. So never
    /// let both clusters run.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Backup`] if the directory is there already or cannot be written, and if the owners compact
    /// the logs faster than they are read. Fails if the engine does not answer. What was written stays, and is no whole export.
    pub fn export(&self, directory: impl Into<PathBuf>) -> Copying {
        let (node, directory) = (Arc::clone(&self.0.node), directory.into());
        Copying::new("fom-export", move |told| {
            backup::export(&node.engine, node.settings, &node.time, &directory, told)
        })
    }

    /// Creates a cluster out of an [export](Self::export). Then its nodes can join. Operations go on in the phase that they had, ids
    /// and step keys are the same, and no time passes for deadlines in between.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Backup`] if the directory has no whole export, and if the engine has a cluster with this name
    /// already. After another error, import into a cluster with another name.
    pub fn import(engine: impl Engine, directory: impl Into<PathBuf>) -> Copying {
        let (engine, directory) = (Guarded::guard(engine), directory.into());
        Copying::new("fom-import", move |told| {
            import::import(&engine, &directory, told)
        })
    }

    /// Creates a cluster of so many [slots](ClusterBuilder::slots) out of the journal in a directory: that of a program that ran on a
    /// single machine, with [`DurableBuilderExt::journal`](fom_durable::DurableBuilderExt::journal). Then its nodes can join.
    ///
    /// Each operation goes to the slot of its [`Place`]: that of its series, its key or its operation id. So the cluster finds it
    /// with the names that it was submitted with. Its phase, its id, its step keys, its events and its outcome are the same, and no time
    /// passes for its deadlines in between. An operation without a name goes to any slot.
    ///
    /// Nodes run operations of several slots at once, also on several machines. What was one for the program is one for each slot:
    /// locks, gates, limits and the outbox. A phase that sends to operations with other keys must use
    /// [letters](crate::ClusterCxExt::letters).
    ///
    /// The journal stays as it is. Never start the program with it again: its operations would run twice.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Backup`] if there is no journal or no operation was ever in it, if a process has it open, if an
    /// entry is damaged, and if the engine has a cluster with this name already. After another error, import into a cluster with
    /// another name.
    ///
    /// # Panics
    ///
    /// Panics if the number of slots is 0.
    pub fn import_journal(
        engine: impl Engine,
        directory: impl Into<PathBuf>,
        slots: u16,
    ) -> Copying {
        assert!(slots > 0, "a cluster has at least one slot");
        let (engine, directory) = (Guarded::guard(engine), directory.into());
        Copying::new("fom-import", move |told| {
            import::import_journal(&engine, &directory, slots, told)
        })
    }

    /// Returns what looks into the cluster and changes what its nodes do, through this node.
    pub fn operator(&self) -> Operator {
        Operator::here(&self.0.node)
    }

    /// Returns what this node has seen of the cluster with its last answered heartbeat.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Lists the cluster among the [parts](fom_runtime::observe::Inspect::parts) of a runtime of this process. So its inspector shows the
    /// nodes and the slots: who owns each and since when, why one has no owner, and the letters under way. The listing ends with this
    /// node.
    pub fn list_in(&self, runtime: &Runtime) {
        let part: Weak<Member> = Arc::downgrade(&self.0);
        let listing = runtime.extension().list(part);
        self.0.listings.lock().push(listing);
    }

    /// Returns the slots that this node serves, with their terms.
    pub fn served(&self) -> Vec<(Slot, u64)> {
        self.0.node.served()
    }

    /// Leaves the cluster: gives each slot up, so that another node takes it over at once. Returns when the node has left.
    ///
    /// While the engine does not answer, this waits.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the node goes on to leave.
    pub async fn leave(&self) {
        let node = &self.0.node;
        node.begin_leave();
        loop {
            let (_, version) = node.seen.get();
            if node.has_left() {
                return;
            }
            node.seen.changed(version).await;
        }
    }

    async fn ask<O: Persistent>(&self, place: &Place, what: What) -> Result<Reply, ClusterError> {
        ask(&self.0.node, request::<O>(&self.0.node, place, what)).await
    }
}

/// What [`Cluster::find`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// The operation has not ended.
    InFlight {
        /// The phase that it is in. The journal may not have it yet, so the loss of the owner can take it back.
        phase: String,
    },
    /// The operation has ended.
    Ended,
    /// The operation is in the journal, and cannot go on for now.
    Quarantined,
    /// No operation is known at this place.
    Unknown,
}

fn at(place: &Place) -> At {
    At {
        key: place.key.clone(),
        once: place.operation_id(),
    }
}
