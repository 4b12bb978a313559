//! Letters: what a phase sends to another slot, exactly when its transition is committed.
//!
//! A letter is an operation of its sender's slot, which the outbox starts. The letters from one slot to another are a series, so
//! one is under way at a time, and they arrive in the order of the transitions. The target has an operation for each
//! source: its state is the watermark, and it takes a letter in the step that moves the watermark.

use fom_durable::{DurableBuilderExt as _, DurableCxExt as _, Outbox};
use fom_runtime::{
    Builder, Cx, Persistent, error::BoxError, fom, machine::Savable, snapshot::SnapshotError,
};
use serde::{Deserialize, Serialize};

use crate::{
    answering,
    call::{At, Blob, Content, Letter, Name, Reply, Request, Submit, What},
    inbox::{self, KEY},
    node::Here,
    registry::name_of,
    route::ask,
    slot::{Place, Slot},
};

/// Adds to a runtime what letters and calls need.
pub(crate) fn set_up(builder: Builder) -> Builder {
    answering::set_up(inbox::set_up(builder.operation::<Courier>()))
}

/// Returns the names of the operations that letters need. Each node reads them.
pub(crate) fn names() -> [Name; 3] {
    [
        name_of::<Courier>(),
        name_of::<inbox::Inbox>(),
        name_of::<inbox::UnreadLetter>(),
    ]
}

/// Brings one letter to its target.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Courier {
    to: u16,
    of: Name,
    content: Content,
}

#[fom(operation(Courier))]
pub(crate) enum Carrying {
    #[phase(start, to(Delivered))]
    Carry,
    #[phase(end)]
    Delivered,
}

impl CarryingTransitions for Courier {
    async fn carry(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        use std::sync::atomic::Ordering;
        let here = cx.resource::<Here>();
        let (source, term, id) = (here.slot.0, here.term(), cx.id().get());
        let node = here.node().ok_or("the node ends")?;
        loop {
            let letter = Letter {
                source,
                term,
                attempt: node.attempts.fetch_add(1, Ordering::Relaxed),
                id,
                content: self.content.clone(),
            };
            let request = Request {
                slot: self.to,
                of: self.of.clone(),
                what: What::Deliver(letter),
            };
            let asked = ask(&node, request).await;
            match asked {
                Ok(Reply::Done) => return Ok(()),
                // The target has no owner, or is busy. The letter stays, and those after it wait.
                _ => cx.sleep(std::time::Duration::from_secs(1)).await,
            }
        }
    }
}

/// Sends to other slots from a phase; see [`ClusterCxExt::letters`].
#[derive(Debug)]
#[must_use = "nothing is sent before `send` or `submit`"]
pub struct Letters<'a> {
    outbox: Outbox<'a>,
    slots: u16,
}

/// The method of a [`Cx`] for other slots.
pub trait ClusterCxExt {
    /// Returns what sends to any slot of the cluster. What is sent goes with the transition out of this phase: it is in the
    /// journal with it, and it is sent until the owner of its slot has it. The letters from one slot to another arrive once, and
    /// in the order of their transitions.
    ///
    /// The outbox of `fom-durable` sends only to operations of the own slot.
    ///
    /// ```no_run
    /// use fom_cluster::ClusterCxExt as _;
    /// use fom_durable::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Account;
    /// # #[derive(Serialize, Deserialize)]
    /// # enum Booking { Paid { cents: u64 } }
    /// # #[fom(operation(Account), event(Booking))]
    /// # enum Keeping {
    /// #     #[phase(start, sync, on(Paid), to(Closed))]
    /// #     Open,
    /// #     #[phase(end)]
    /// #     Closed,
    /// # }
    /// # impl KeepingTransitions for Account {
    /// #     fn open(&mut self, _: &mut Cx<'_, Booking>, _: Booking) -> Result<KeepingAfterOpen, BoxError> {
    /// #         Ok(KeepingAfterOpen::Closed)
    /// #     }
    /// # }
    /// # #[fom(operation(Order))]
    /// # enum Ordering {
    /// #     #[phase(start, sync, to(Done))]
    /// #     Pay,
    /// #     #[phase(end)]
    /// #     Done,
    /// # }
    /// impl OrderingTransitions for Order {
    ///     fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
    ///         cx.letters().send::<Account>("account 3", Booking::Paid { cents: 900 })?;
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics in a runtime that belongs to no cluster.
    fn letters(&self) -> Letters<'_>;
}

impl<E> ClusterCxExt for Cx<'_, E> {
    fn letters(&self) -> Letters<'_> {
        Letters {
            outbox: self.outbox(),
            slots: self.resource::<Here>().slots,
        }
    }
}

impl Letters<'_> {
    /// Sends an event to the operation of type `O` at this place, which has a key. If no operation is there, the event is
    /// quarantined at the target, as [`Outbox::send`] says.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be saved.
    pub fn send<O>(&self, to: impl Into<Place>, event: O::Event) -> Result<(), SnapshotError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        let to = to.into();
        let bytes = rmp_serde::to_vec_named(&event);
        let event = Blob(bytes.map_err(|error| SnapshotError::Operation(error.to_string()))?);
        let slot = to.slot(self.slots);
        let to = At {
            once: to.operation_id(),
            key: to.key,
        };
        self.post::<O>(slot, Content::Event { to, event })
    }

    /// Starts an operation at this place, which has a key or a series. It waits behind other operations with its key.
    ///
    /// # Errors
    ///
    /// Fails if the operation cannot be saved.
    pub fn submit<O>(&self, at: impl Into<Place>, operation: &O) -> Result<(), SnapshotError>
    where
        O: Persistent,
    {
        let at = at.into();
        let slot = at.slot(self.slots);
        let snapshot = operation.snapshot(&O::start())?;
        let submit = Submit {
            operation: Blob(snapshot.as_bytes().to_vec()),
            key: at.key,
            serial: at.serial,
            once: None,
            queues: true,
        };
        self.post::<O>(slot, Content::Submit(submit))
    }

    fn post<O: Persistent>(&self, to: Slot, content: Content) -> Result<(), SnapshotError> {
        let courier = Courier {
            to: to.0,
            of: name_of::<O>(),
            content,
        };
        let series = (KEY, (u64::from(to.0), "letters"));
        self.outbox.submit(courier).serial(series).post().map(drop)
    }
}
