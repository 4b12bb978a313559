//! The outbox: what is sent exactly when the transition of the phase is committed.

use std::fmt;

use fom_journal::Statement;

use crate::durable::{
    Durable, NotExecuted,
    outbox::{execute, post},
    prepare::{Prepared, post_event, prepare},
};
use fom_runtime::{
    __durability::{self as seam, Header},
    Cx, FomId, Key, Operation, Persistent, Submission,
    machine::Savable,
    snapshot::SnapshotError,
    submission::{Placement, Priority},
};

/// The methods of a [`Cx`] for durability. The prelude has it.
pub trait DurableCxExt {
    /// Returns the outbox. What is given to it is sent exactly when the transition out of this phase is committed. In a
    /// phase that stays, it is sent when the effect of an event is committed. It is in the journal with that
    /// transition, and is sent again after a crash until it is taken. If the phase function fails, none of it is ever
    /// sent.
    ///
    /// Without a journal, or from a machine that is not kept in it, it is sent when the transition is made.
    ///
    /// The idea is the transactional outbox of message systems.
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Parcel { number: u32 }
    /// # #[fom(operation(Parcel))]
    /// # enum Carrying {
    /// #     #[phase(start, sync, to(There))]
    /// #     Carry,
    /// #     #[phase(end)]
    /// #     There,
    /// # }
    /// # impl CarryingTransitions for Parcel {
    /// #     fn carry(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Order { parcels: u32 }
    ///
    /// #[fom(operation(Order))]
    /// enum Ordering {
    ///     #[phase(start, sync, to(Sent), retry = "2, 1ms..1ms")]
    ///     Pack,
    ///     #[phase(end)]
    ///     Sent,
    /// }
    ///
    /// impl OrderingTransitions for Order {
    ///     fn pack(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
    ///         for number in 0..self.parcels {
    ///             cx.outbox().submit(Parcel { number }).post()?;
    ///         }
    ///         if cx.attempt() < 2 {
    ///             return Err("no string left".into()); // and no parcel was sent
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// runtime.submit(Order { parcels: 3 }).start()?.wait()?;
    /// let types = runtime.operations().types;
    /// let parcels = types.iter().find(|of| of.operation == "Parcel").unwrap();
    /// assert_eq!(parcels.started, 3);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn outbox(&self) -> Outbox<'_>;

    /// Lets the store of the journal execute a statement in the transaction that commits the transition out of this phase, such
    /// as SQL for other tables of the database. In a phase that stays, it is the commit of an event's effect. If the phase
    /// function fails, the statement is dropped.
    ///
    /// If the statement fails, so does the whole transition, and nothing of the outbox is sent. The phase then fails with
    /// [`Cause::Statement`](fom_runtime::Cause), as if its function had returned an error: its retries apply. A machine with
    /// `durability = "lazy"` waits for the commit of such a transition.
    ///
    /// # Errors
    ///
    /// Fails if the fom is not kept in a journal, and if its journal executes no statements of this type. `FileJournal` and
    /// `MemoryJournal` execute none. `fom_postgres::Sql` is a statement for the journal and the engine of that package.
    fn commit_with(&self, statement: impl Into<Statement>) -> Result<(), NotExecuted>;

    /// Returns the term of this process: the fencing token of a journal that another process can take over. Returns
    /// `None` for any other journal, and without a journal.
    ///
    /// A process that was paused between the check of its lease and an effect may carry the effect out after another
    /// process has taken over. Pass the term to the service that the phase calls. A service that keeps the highest term
    /// it has seen can refuse a lower one. The [step key](Cx::step_key) is the same in both processes.
    fn term(&self) -> Option<u64>;
}

impl<E> DurableCxExt for Cx<'_, E> {
    fn outbox(&self) -> Outbox<'_> {
        Outbox {
            fom: seam::header_of(self),
        }
    }

    fn commit_with(&self, statement: impl Into<Statement>) -> Result<(), NotExecuted> {
        let (fom, statement) = (seam::header_of(self), statement.into());
        // A fom that is kept has a committer.
        let kept = fom.kept();
        match kept.and_then(|_| Durable::of_fom(fom).committer()) {
            None => Err(NotExecuted::NotKept(statement)),
            Some(committer) if !committer.executes(&statement) => {
                Err(NotExecuted::OtherStore(statement))
            }
            Some(_) => {
                execute(fom, statement);
                Ok(())
            }
        }
    }

    fn term(&self) -> Option<u64> {
        let shared = seam::shared_of(seam::header_of(self));
        if !seam::is_journaled(shared) {
            return None;
        }
        Some(Durable::of(shared).lease.get()?.term())
    }
}

/// The outbox of a fom; see [`DurableCxExt::outbox`].
pub struct Outbox<'a> {
    fom: &'a Header,
}

impl fmt::Debug for Outbox<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbox({})", self.fom.id())
    }
}

impl<'a> Outbox<'a> {
    /// Prepares an operation to start. Nothing happens until it is posted.
    pub fn submit<O: Operation>(&self, operation: O) -> Posting<'a, O> {
        Posting {
            fom: self.fom,
            submission: seam::submission(self.fom, operation),
        }
    }

    /// Sends an event to the fom of type `O` that has this key when this transition is committed. The event stays in
    /// the journal until that fom has committed a transition after it took the event. Events that one sender sends to
    /// one receiver in this way arrive in order.
    ///
    /// If no fom has the key, or the fom ends without taking the event, the event is [set
    /// quarantined](crate::DurableExt::quarantine) with [`RestoreError::NoReceiver`](fom_runtime::snapshot::RestoreError). It
    /// can be tried again or discarded. [`keep_events`](crate::DurableBuilderExt::keep_events) sets how many are kept;
    /// further ones are dropped. Undelivered events of a sender that is not kept in the journal are dropped, too.
    /// [`Operations::incidents`](fom_runtime::observe::Operations) reports both. To a fom that may have ended, use
    /// [`send_if_there`](Self::send_if_there).
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be saved, or could not be read again: a generic operation takes no events through an
    /// outbox.
    pub fn send<O>(&self, to: impl Into<Key>, event: O::Event) -> Result<(), SnapshotError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        self.send_as::<O>(to.into(), event, false)
    }

    /// As [`send`](Self::send), for a fom that may have ended. If no fom has the key, or the fom ends without taking the
    /// event, the event is dropped and not quarantined. [`Quarantine::dead_letters`](crate::Quarantine::dead_letters)
    /// counts it. A fom that is quarantined, or rests, is there.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// ```
    /// # use fom_durable::{journal::MemoryJournal, prelude::*};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Watch;
    /// # #[derive(Serialize, Deserialize)]
    /// # enum News { Paid }
    /// # #[fom(operation(Watch), event(News))]
    /// # enum Watching {
    /// #     #[phase(start, sync, to(Over), on(Paid))]
    /// #     Look,
    /// #     #[phase(end)]
    /// #     Over,
    /// # }
    /// # impl WatchingTransitions for Watch {
    /// #     fn look(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<WatchingAfterLook, BoxError> {
    /// #         Ok(WatchingAfterLook::Over)
    /// #     }
    /// # }
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[fom(operation(Order))]
    /// # enum Ordering {
    /// #     #[phase(start, sync, to(Done))]
    /// #     Pay,
    /// #     #[phase(end)]
    /// #     Done,
    /// # }
    /// # impl OrderingTransitions for Order {
    /// fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
    ///     // The page that watches the order may be closed by now.
    ///     cx.outbox().send_if_there::<Watch>("order 7", News::Paid)?;
    ///     Ok(())
    /// }
    /// # }
    /// # let runtime = Runtime::builder().journal_with(MemoryJournal::new()).build()?;
    /// # runtime.submit(Order).start()?.wait()?;
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn send_if_there<O>(&self, to: impl Into<Key>, event: O::Event) -> Result<(), SnapshotError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        self.send_as::<O>(to.into(), event, true)
    }

    fn send_as<O>(&self, to: Key, event: O::Event, if_there: bool) -> Result<(), SnapshotError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        let shared = seam::shared_of(self.fom);
        let is_kept = self.fom.kept().is_some();
        post(
            self.fom,
            post_event::<O>(shared, is_kept, to, event, if_there)?,
        );
        Ok(())
    }
}

/// An operation on its way into the outbox.
#[must_use = "it is not in the outbox before it is posted"]
pub struct Posting<'a, O: Operation> {
    fom: &'a Header,
    submission: Submission<'a, O>,
}

impl<O: Operation> fmt::Debug for Posting<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Posting").field(&self.submission).finish()
    }
}

impl<O: Operation> Posting<'_, O> {
    /// As [`Submission::key`]. If the key is in use when the operation would start, the operation is quarantined; see
    /// [`queue`](Self::queue).
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.submission = self.submission.key(key);
        self
    }

    /// As [`Submission::carrying`]. Otherwise the operation inherits what this fom carries.
    ///
    /// # Panics
    ///
    /// Panics like [`Submission::carrying`].
    pub fn carrying<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.submission = self.submission.carrying(value);
        self
    }

    /// As [`Submission::queue`]. The fom waits even if the number of waiting foms is at its limit. Its place in the
    /// order is that of the step that sends it. The runtime assigns the place when the function has returned. The place
    /// survives a restart, because the journal has it from the commit on. No other fom waits for this one before the
    /// commit.
    pub fn queue(mut self) -> Self {
        self.submission = seam::queue_regardless(self.submission);
        self
    }

    /// As [`Submission::serial`], and as [`queue`](Self::queue) says for its place in the order.
    pub fn serial(mut self, name: impl Into<Key>) -> Self {
        self.submission = seam::queue_regardless(self.submission.serial(name));
        self
    }

    /// As [`Submission::place`].
    pub fn place(mut self, placement: Placement) -> Self {
        self.submission = self.submission.place(placement);
        self
    }

    /// As [`Submission::priority`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.submission = self.submission.priority(priority);
        self
    }

    /// Puts the operation into the outbox, and returns the id that its fom will have.
    ///
    /// # Errors
    ///
    /// Fails if the operation cannot be saved. A transient operation is not saved: it starts after the commit, and not
    /// again after a crash.
    pub fn post(self) -> Result<FomId, SnapshotError> {
        let Prepared { id, item } = prepare(self.submission, self.fom.kept().is_some())?;
        post(self.fom, item);
        Ok(id)
    }
}
