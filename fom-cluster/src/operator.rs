//! An operator of a cluster: from a program of the cluster, or from outside.

use std::{fmt, sync::Arc};

use fom_runtime::FomId;

use crate::{
    call::{Message, Operate, Reply, decode, encode},
    error::ClusterError,
    node::Node,
    operate::operate,
    quarantine::InQuarantine,
    report::Report,
    route::failed,
    slot::Slot,
    tcp::{self, Identity},
};

/// Looks into a cluster, and changes what its nodes do. [`Cluster::operator`](crate::Cluster::operator) returns the one of a
/// program of the cluster. Other programs [connect](Self::connect), as the command `fom cluster` does.
///
/// The nodes keep to a change until it is taken back, also after all of them were restarted.
///
/// # Errors
///
/// Each method fails with [`ClusterError::Unreachable`] if the asked node cannot be called, or does not answer within 90 s. Where nothing
/// else is said, another failure is [`ClusterError::Failed`], and its text says what to do.
///
/// # Panics
///
/// Each method of an operator that [connects](Self::connect) panics outside of a runtime of tokio with I/O and time.
///
/// ```no_run
/// use fom_cluster::Operator;
///
/// # async fn maintain() -> Result<(), Box<dyn std::error::Error>> {
/// let operator = Operator::connect("10.0.0.5:7070", std::env::var("ORDERS_SECRET")?);
/// println!("{}", operator.report().await?);
/// // Its slots go to the others, one after the other.
/// operator.drain("eu-1b").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operator(Way);

#[derive(Clone)]
enum Way {
    Here(Arc<Node>),
    There { address: String, identity: Identity },
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match &self.0 {
            Way::Here(node) => node.name(),
            Way::There { address, .. } => address.clone(),
        };
        f.debug_tuple("Operator").field(&at).finish()
    }
}

impl Operator {
    pub(crate) fn here(node: &Arc<Node>) -> Self {
        Self(Way::Here(Arc::clone(node)))
    }

    /// Returns an operator that asks the node at this address, such as `10.0.0.5:7070`. `secret` is that of the
    /// [nodes](crate::Tcp::secret); empty if they have none. Nothing happens before the first call, and each call connects anew.
    pub fn connect(address: impl Into<String>, secret: impl AsRef<[u8]>) -> Self {
        Self(Way::There {
            address: address.into(),
            identity: Identity::new(secret.as_ref()),
        })
    }

    /// Encrypts the connections of an operator that [connects](Self::connect), as the nodes do. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: tcp::Tls) -> Self {
        if let Way::There { identity, .. } = &mut self.0 {
            identity.encrypt(tls);
        }
        self
    }

    /// Returns the nodes with what each tells of itself, and the slots. A node that does not answer within about three seconds is
    /// in the report without that.
    ///
    /// # Errors
    ///
    /// Fails only as each method does.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: this changes nothing.
    pub async fn report(&self) -> Result<Report, ClusterError> {
        match self.ask(Operate::Report).await? {
            Reply::Report(report) => Ok(report),
            other => Err(failed(other, &"the report")),
        }
    }

    /// Drains a node: it gives its slots up one after the other, and takes no other ones, as long as another node takes slots
    /// and can read what is in them. A slot that is [pinned](Self::pin) to it stays. The node stays a member: it makes calls, and
    /// can be asked. Wait until [`report`](Self::report) shows no slot of it. [`undrain`](Self::undrain) ends this.
    ///
    /// Before a stop, call [`leave`](crate::Cluster::leave) in the program instead; it is faster.
    ///
    /// # Errors
    ///
    /// Fails if no node with this name lives, and if the engine does not answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the node may be drained or not. So it is for the other changes.
    pub async fn drain(&self, node: impl Into<String>) -> Result<(), ClusterError> {
        self.change(Operate::Drain(node.into())).await
    }

    /// Lets a node take slots again. The node need not live.
    ///
    /// # Errors
    ///
    /// Fails if the engine does not answer.
    pub async fn undrain(&self, node: impl Into<String>) -> Result<(), ClusterError> {
        self.change(Operate::Undrain(node.into())).await
    }

    /// Moves a slot to a node, and keeps it there: it is the owner as long as it lives, does not leave, and can read the
    /// versions in the slot. When the node comes back after that, the slot does, too. To forbid moves of a slot, pin it to its
    /// owner. [`unpin`](Self::unpin) ends this.
    ///
    /// # Errors
    ///
    /// Fails if no node with this name lives, if there is no such slot, and if the engine does not answer.
    pub async fn pin(&self, slot: Slot, node: impl Into<String>) -> Result<(), ClusterError> {
        self.change(Operate::Pin(slot, node.into())).await
    }

    /// Lets a slot move to the node that should own it.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot, and if the engine does not answer.
    pub async fn unpin(&self, slot: Slot) -> Result<(), ClusterError> {
        self.change(Operate::Unpin(slot)).await
    }

    /// Returns what the owners of all slots have in [quarantine](fom_durable::Quarantine): operations that failed, that no node can
    /// read, or that ended the processes of three owners, and events without a receiver.
    ///
    /// # Errors
    ///
    /// Fails if the owner of a slot does not answer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: this changes nothing.
    ///
    /// ```
    /// # use fom_cluster::{Cluster, ClusterError};
    /// # async fn retry_all(cluster: Cluster) -> Result<(), ClusterError> {
    /// let operator = cluster.operator();
    /// for entry in operator.quarantine().await? {
    ///     // "slot 7, 31 Order order 7 in Charge: it failed: the card was declined; try it again, or discard it"
    ///     println!("{entry}");
    ///     operator.retry(entry.slot, entry.id).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn quarantine(&self) -> Result<Vec<InQuarantine>, ClusterError> {
        match self.ask(Operate::Quarantine).await? {
            Reply::InQuarantine(entries) => Ok(entries),
            other => Err(failed(other, &"the quarantine")),
        }
    }

    /// Tries an entry of the [quarantine](Self::quarantine) again, as [`retry`](fom_durable::Quarantine::retry) of its runtime does.
    /// An operation that ended the processes of its owners counts as any other from then on.
    ///
    /// # Errors
    ///
    /// Fails with [`ClusterError::Unknown`] if there is no such entry. It may have been tried before: this method asks again when an
    /// answer was lost. Fails with [`ClusterError::Failed`] if it still cannot run, and if the owner does not answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the entry may be tried again or not.
    pub async fn retry(&self, slot: Slot, id: FomId) -> Result<(), ClusterError> {
        self.of_entry(Operate::Retry(slot, id), slot, id).await
    }

    /// Removes an entry of the [quarantine](Self::quarantine), and all that is known of it.
    ///
    /// # Errors
    ///
    /// As [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the entry may be removed or not.
    pub async fn discard(&self, slot: Slot, id: FomId) -> Result<(), ClusterError> {
        self.of_entry(Operate::Discard(slot, id), slot, id).await
    }

    async fn of_entry(&self, what: Operate, slot: Slot, id: FomId) -> Result<(), ClusterError> {
        match self.ask(what).await? {
            Reply::Done => Ok(()),
            other => Err(failed(other, &format_args!("{slot}, {id}"))),
        }
    }

    async fn change(&self, what: Operate) -> Result<(), ClusterError> {
        match self.ask(what).await? {
            Reply::Done => Ok(()),
            other => Err(failed(other, &"the assignment")),
        }
    }

    async fn ask(&self, what: Operate) -> Result<Reply, ClusterError> {
        let (address, identity) = match &self.0 {
            Way::Here(node) => return Ok(operate(node, what).await),
            Way::There { address, identity } => (address, identity),
        };
        let request = encode(&Message::Operate(what));
        let answer = tcp::call_once(address, identity, &request).await;
        let unreachable = |why: String| ClusterError::Unreachable {
            node: "the node".to_owned(),
            address: address.clone(),
            why,
        };
        let answer = answer.map_err(|error| unreachable(error.to_string()))?;
        match decode(&answer).map_err(unreachable)? {
            Reply::Moved => Err(ClusterError::Left),
            reply => Ok(reply),
        }
    }
}
