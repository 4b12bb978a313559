//! What a program asks a runtime about its journal: what is in it and does not run, how operations ended, and how much it
//! keeps. And what it sends through the journal.

use fom_journal::JournalStats;

use crate::durable::{
    Address, Durable, End, Lookup, NotSent, Outcomes, Quarantine, Sent, ended::ended,
    send::send_durably,
};
use fom_runtime::{
    __durability as seam, Key, Operation, Persistent, Runtime, machine::Savable, observe::Inspect,
};

/// The methods of a [`Runtime`] for its journal. The prelude has it.
pub trait DurableExt {
    /// Returns what is in the journal and does not run: operations that failed, entries that this release cannot read,
    /// and events without a receiver. [`Operations`](fom_runtime::observe::Operations) lists it, too.
    ///
    /// A submission with the key of an entry that this release cannot read may start meanwhile, unless it
    /// [queues](fom_runtime::Submission::queue). A queueing submission waits behind that entry if its operation type is
    /// known. It does not wait if the reason is that the key was in use. A fom that waits for the journal alone keeps
    /// its key, and comes back by itself. A failed operation has no key any more. The operation id
    /// ([`once`](crate::DurableSubmissionExt::once)) of an entry stays taken.
    ///
    /// ```
    /// use fom_durable::{RetryError, prelude::*};
    /// use fom_runtime::snapshot::RestoreError;
    ///
    /// # async fn look(runtime: &Runtime) -> Result<(), BoxError> {
    /// let quarantine = runtime.quarantine();
    /// for entry in quarantine.list() {
    ///     // "31 Call ada in Ring (version 2): the snapshot is of version 2 of `Route`, and .."
    ///     eprintln!("{entry}");
    ///     match &entry.reason {
    ///         // It goes on by itself when there is room.
    ///         RestoreError::NotCommitted(_) => {}
    ///         RestoreError::KeyInUse(_) => match quarantine.retry(entry.id) {
    ///             Ok(()) | Err(RetryError::Still(_)) => {}
    ///             Err(error) => return Err(error.into()),
    ///         },
    ///         // No later release reads it: keep it elsewhere.
    ///         _ => {
    ///             let gone = quarantine.discard(entry.id).await?;
    ///             std::fs::write(format!("discarded-{}", gone.id), &gone.bytes)?;
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # let runtime = Runtime::builder().journal_with(fom_durable::journal::MemoryJournal::new()).build()?;
    /// # futures::executor::block_on(look(&runtime))?;
    /// # Ok::<(), BoxError>(())
    /// ```
    fn quarantine(&self) -> Quarantine<'_>;

    /// Looks an operation up by its id, its key or its operation id: whether it is in flight, or how it ended. This starts
    /// nothing, and brings no resting operation back. An outcome is found after a restart, too.
    ///
    /// The outcomes of operations with an [operation id](crate::DurableSubmissionExt::once) are
    /// [remembered](crate::DurableBuilderExt::remember), and those of each operation of a type that the builder
    /// [names](crate::DurableBuilderExt::remember_all). A failed operation is found in quarantine. Beyond the limits, and
    /// for other operations, the answer is [`Lookup::Unknown`]. A runtime that has ended does not know: it answers
    /// [`Lookup::Interrupted`].
    ///
    /// A key names the operation that has the key now. If no operation has it, the key names the last operation that had
    /// it and ended.
    ///
    /// With the id of a fom, the call looks at each fom in flight.
    ///
    /// ```
    /// use fom_durable::{Address, Lookup, journal::MemoryJournal, prelude::*};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[fom(operation(Order))]
    /// # enum Delivery {
    /// #     #[phase(start, to(Sent))]
    /// #     Pack,
    /// #     #[phase(end)]
    /// #     Sent,
    /// # }
    /// # impl DeliveryTransitions for Order {
    /// #     async fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// # fn main() -> Result<(), BoxError> {
    /// let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// runtime.submit(Order).once("order 7").start()?.wait()?;
    ///
    /// match runtime.outcome::<Order>(Address::once("order 7")) {
    ///     Lookup::Ended { outcome: Ok(ended), .. } => assert!(matches!(ended.end, DeliveryEnd::Sent)),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(matches!(runtime.outcome::<Order>("order 8"), Lookup::Unknown));
    /// # Ok(())
    /// # }
    /// ```
    fn outcome<O: Persistent>(&self, address: impl Into<Address>) -> Lookup<O>;

    /// Waits until the operation with this [operation id](crate::DurableSubmissionExt::once) has ended, and returns how. This
    /// starts nothing. It is for a caller in another process: the answer converts to bytes. A resting operation is brought
    /// back.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the wait.
    ///
    /// ```
    /// use fom_durable::{End, SavedEnd, journal::MemoryJournal, prelude::*};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[fom(operation(Order))]
    /// # enum Delivery {
    /// #     #[phase(start, to(Sent))]
    /// #     Pack,
    /// #     #[phase(end)]
    /// #     Sent,
    /// # }
    /// # impl DeliveryTransitions for Order {
    /// #     async fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// # async fn serve() -> Result<(), BoxError> {
    /// let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// runtime.submit(Order).once("order 7").detach()?;
    ///
    /// let End::Saved(end) = runtime.ended::<Order>("order 7").await else { panic!() };
    /// let bytes = end.to_bytes();
    /// // In the process of the caller:
    /// let ended = SavedEnd::from_bytes(&bytes)?.outcome::<Order>()?;
    /// assert!(matches!(ended.end, DeliveryEnd::Sent));
    /// assert_eq!(runtime.ended::<Order>("order 8").await, End::Unknown);
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(serve()).unwrap();
    /// ```
    fn ended<O: Persistent>(&self, id: impl Into<Key>) -> impl Future<Output = End> + Send;

    /// Lists the remembered outcomes, in pages.
    ///
    /// ```
    /// use fom_durable::{OutcomeInfo, prelude::*};
    ///
    /// fn all(runtime: &Runtime) -> Vec<OutcomeInfo> {
    ///     let (mut all, mut last) = (Vec::new(), None);
    ///     loop {
    ///         let page = runtime.outcomes().page(last, 100);
    ///         let Some(end) = page.last() else { return all };
    ///         last = Some(end.id);
    ///         all.extend(page);
    ///     }
    /// }
    /// # let runtime = Runtime::builder().journal_with(fom_durable::journal::MemoryJournal::new()).build()?;
    /// # assert!(all(&runtime).is_empty());
    /// # Ok::<(), BoxError>(())
    /// ```
    fn outcomes(&self) -> Outcomes<'_>;

    /// Sends an event to an operation, for a caller outside that may repeat the send, such as a webhook. When this
    /// method returns, the event is in the journal. The operation takes the event exactly once, also after a crash.
    /// `once` is the sender's id for the event. A second event of this type for this receiver with the same id is not
    /// sent: the answer is [`Sent::Before`].
    ///
    /// The operation need not be in memory: it may rest in the journal, or be in quarantine. The event waits for it. If
    /// the operation ends without taking the event, the event goes into [quarantine](Self::quarantine).
    ///
    /// The limits of [outcomes](crate::DurableBuilderExt::remember), in number and in time, also apply to these ids, which
    /// have a count of their own. Set the time for which senders repeat.
    ///
    /// Two events of one caller arrive in order if the caller awaits the first send before the second. A send to the id
    /// of a fom looks at each fom in flight.
    ///
    /// # Errors
    ///
    /// Fails with [`NotSent`], which has the event and the reason. After a failed commit the event may still arrive. A
    /// repeated send with the same id does not make it arrive twice. An operation with generic parameters takes no such
    /// event.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the event may be sent or not. Send it again with the same id.
    ///
    /// ```
    /// use fom_durable::{Sent, journal::MemoryJournal, prelude::*};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Order;
    /// #[derive(Serialize, Deserialize)]
    /// enum News {
    ///     Paid { cents: u32 },
    /// }
    ///
    /// #[fom(operation(Order), event(News))]
    /// enum Sale {
    ///     #[phase(start, sync, to(Done), on(Paid))]
    ///     Wait,
    ///     #[phase(end)]
    ///     Done,
    /// }
    /// # impl SaleTransitions for Order {
    /// #     fn wait(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<SaleAfterWait, BoxError> {
    /// #         Ok(SaleAfterWait::Done)
    /// #     }
    /// # }
    /// # async fn webhook() -> Result<(), BoxError> {
    /// # let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// let order = runtime.submit(Order).key("order 7").start()?;
    /// order.committed().await?;
    ///
    /// let paid = News::Paid { cents: 900 };
    /// let sent = runtime.send_durably::<Order>("order 7", paid, "webhook 31").await?;
    /// assert_eq!(sent, Sent::Now);
    /// // "200 OK": the provider does not send it again.
    /// # order.await?;
    /// # Ok(())
    /// # }
    /// # futures::executor::block_on(webhook()).unwrap();
    /// ```
    fn send_durably<O>(
        &self,
        to: impl Into<Address>,
        event: O::Event,
        once: impl Into<Key>,
    ) -> impl Future<Output = Result<Sent, NotSent<O::Event>>> + Send
    where
        O: Persistent,
        O::Event: Savable;

    /// Waits until another process has taken over the journal of this runtime. The operations go on in that process. This
    /// runtime enters no phase function any more, and each fom ends at its next wait, with
    /// [`Cause::Moved`](fom_runtime::Cause::Moved).
    ///
    /// Never returns for a journal that no other process can take over, and without a journal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    fn moved(&self) -> impl Future<Output = ()> + Send;

    /// Sends an event to the fom with this key, if there is one, as [`FomRef::send`](fom_runtime::FomRef::send) does.
    /// Otherwise drops the event, and [counts](crate::Quarantine::dead_letters) it. Returns whether the fom is there.
    ///
    /// The event is not on disk: a crash loses it, unless a committed step has taken it.
    ///
    /// ```
    /// # use fom_durable::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # enum News { Late }
    /// # #[fom(operation(Order), event(News))]
    /// # enum Sale {
    /// #     #[phase(start, sync, to(Done), on(Late))]
    /// #     Wait,
    /// #     #[phase(end)]
    /// #     Done,
    /// # }
    /// # impl SaleTransitions for Order {
    /// #     fn wait(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<SaleAfterWait, BoxError> {
    /// #         Ok(SaleAfterWait::Done)
    /// #     }
    /// # }
    /// # let runtime = Runtime::builder().build()?;
    /// let is_there = runtime.send_if_there::<Order>("order 7", News::Late);
    /// assert!(!is_there);
    /// assert_eq!(runtime.quarantine().dead_letters().not_there, 1);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn send_if_there<O: Operation>(&self, key: impl Into<Key>, event: O::Event) -> bool;
}

/// Adds the journal to the view [`Inspect`] of a runtime. The prelude has it.
pub trait DurableInspectExt {
    /// Returns how much the journal keeps, as of the last commit. Returns `None` without a journal.
    fn journal_stats(&self) -> Option<JournalStats>;
}

impl DurableExt for Runtime {
    fn moved(&self) -> impl Future<Output = ()> + Send {
        let shared = seam::shared_by(self);
        let committer = seam::is_journaled(shared).then(|| Durable::of(shared).committer());
        let moved = committer.flatten().map(|committer| committer.moved());
        async move {
            match moved {
                Some(moved) => moved.await,
                None => std::future::pending().await,
            }
        }
    }

    fn quarantine(&self) -> Quarantine<'_> {
        Quarantine::of(seam::shared_by(self))
    }

    fn outcome<O: Persistent>(&self, address: impl Into<Address>) -> Lookup<O> {
        let shared = seam::shared_by(self);
        Durable::of(shared).lookup(shared, address.into())
    }

    fn ended<O: Persistent>(&self, id: impl Into<Key>) -> impl Future<Output = End> + Send {
        ended::<O>(seam::shared_by(self), id.into())
    }

    fn outcomes(&self) -> Outcomes<'_> {
        Outcomes::of(seam::shared_by(self))
    }

    fn send_durably<O>(
        &self,
        to: impl Into<Address>,
        event: O::Event,
        once: impl Into<Key>,
    ) -> impl Future<Output = Result<Sent, NotSent<O::Event>>> + Send
    where
        O: Persistent,
        O::Event: Savable,
    {
        send_durably::<O>(seam::shared_by(self), to.into(), event, once.into())
    }

    fn send_if_there<O: Operation>(&self, key: impl Into<Key>, event: O::Event) -> bool {
        let shared = seam::shared_by(self);
        let found = seam::find::<O>(shared, &key.into());
        let is_there = found.is_some_and(|fom| fom.send(event).is_ok());
        if !is_there {
            Durable::of(shared).count_not_there();
        }
        is_there
    }
}

impl DurableInspectExt for Inspect<'_> {
    fn journal_stats(&self) -> Option<JournalStats> {
        let committer = Durable::of(seam::shared_by(self.runtime())).committer();
        committer.map(|committer| committer.stats())
    }
}
