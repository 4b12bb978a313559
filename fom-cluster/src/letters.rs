//! Letters: what a phase sends to another slot, exactly when its transition is committed.
//!
//! A letter is an operation of its sender's slot, which the outbox starts. The letters from one slot to another are a series, so
//! one is under way at a time, and they arrive in the order of the transitions. The target has an operation for each
//! source: its state is the watermark, and it takes a letter in the step that moves the watermark.

use fom_durable::{DurableBuilderExt as _, DurableCxExt as _, Outbox};
use fom_runtime::{
    Builder, Cx, Operation as _, Persistent, Runtime,
    error::BoxError,
    fom,
    machine::Savable,
    observe::{Filter, MatchingFom},
    snapshot::SnapshotError,
};
use serde::{Deserialize, Serialize};

use crate::{
    answering,
    call::{At, Blob, Content, Letter, Name, Reply, Request, Submit, What},
    inbox::{self, KEY},
    letter_room::{LetterRoom, Undelivered},
    node::Here,
    registry::name_of,
    route::ask,
    slot::{Place, Slot},
};

/// Adds to a runtime what letters and calls need.
pub(crate) fn set_up(builder: Builder) -> Builder {
    let builder = builder.resource(Undelivered::new(
        |runtime| waiting(runtime).len(),
        |runtime, undelivered| {
            let saw = runtime.listen_to::<Courier>(move |transition| undelivered.saw(transition));
            saw.forever();
        },
    ));
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

/// Returns the letters among the foms of a slot.
pub(crate) fn waiting(runtime: &Runtime) -> Vec<MatchingFom> {
    // A type of the user may have the same name.
    let couriers = Filter::default().operation(Courier::GRAPH.operation());
    runtime.inspect().matching(&couriers, |fom| {
        runtime.find_id::<Courier>(fom.id()).is_some()
    })
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
    runtime: Runtime,
    here: &'a Here,
    undelivered: &'a Undelivered,
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
            runtime: self.runtime(),
            here: self.resource(),
            undelivered: self.resource(),
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
        let slot = to.slot(self.here.slots);
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
        let slot = at.slot(self.here.slots);
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

    /// Returns a gate for a phase that sends letters again and again. The phase waits while more than `most` letters of its slot are
    /// not delivered. So an operation that goes on by itself does not send faster than others take.
    ///
    /// ```no_run
    /// use fom_cluster::ClusterCxExt as _;
    /// use fom_durable::prelude::*;
    /// use fom_runtime::extension::Gate;
    /// # use serde::{Deserialize, Serialize};
    ///
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Greeting { to: u64 }
    /// # #[fom(operation(Greeting))]
    /// # enum Greets {
    /// #     #[phase(start, sync, to(Done))]
    /// #     Greet,
    /// #     #[phase(end)]
    /// #     Done,
    /// # }
    /// # impl GreetsTransitions for Greeting {
    /// #     fn greet(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// #[derive(Serialize, Deserialize)]
    /// struct Campaign {
    ///     next: u64,
    /// }
    ///
    /// #[fom(operation(Campaign))]
    /// enum Sending {
    ///     #[phase(start, sync, gate, to(Send, Done))]
    ///     Send,
    ///     #[phase(end)]
    ///     Done,
    /// }
    ///
    /// impl SendingTransitions for Campaign {
    ///     fn send_gate(&self, cx: &Cx<'_>) -> impl Gate {
    ///         cx.letters().room(1_000)
    ///     }
    ///
    ///     fn send(&mut self, cx: &mut Cx<'_>) -> Result<SendingAfterSend, BoxError> {
    ///         if self.next == 1_000_000 {
    ///             return Ok(SendingAfterSend::Done);
    ///         }
    ///         let greeting = Greeting { to: self.next };
    ///         cx.letters().submit(("customer", self.next), &greeting)?;
    ///         self.next += 1;
    ///         Ok(SendingAfterSend::Send)
    ///     }
    /// }
    /// ```
    ///
    /// Operations that pass the gate at once can exceed `most`, by one transition of each. Before the gate holds a phase back, it may look
    /// at all operations of the slot, to leave out letters of attempts that failed.
    ///
    /// # Panics
    ///
    /// Panics if `most` is 0.
    pub fn room(&self, most: usize) -> LetterRoom {
        assert!(most > 0, "the room for letters is at least 1");
        self.undelivered.room(most, self.here, &self.runtime)
    }

    fn post<O: Persistent>(&self, to: Slot, content: Content) -> Result<(), SnapshotError> {
        let courier = Courier {
            to: to.0,
            of: name_of::<O>(),
            content,
        };
        self.undelivered.writes();
        let series = (KEY, (u64::from(to.0), "letters"));
        self.outbox.submit(courier).serial(series).post().map(drop)
    }
}
