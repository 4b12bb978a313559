//! The outbox: what is sent exactly when the transition of the phase is committed.

use std::fmt;

use crate::{
    Cx, FomId, Key, Operation, Placement, Priority, Submission,
    error::SnapshotError,
    fom::{Header, Mailed},
    operation::{Persistent, Savable},
    runtime::{Prepared, post_event},
};

impl<E> Cx<'_, E> {
    /// What is given to the outbox is sent exactly when the transition out of this phase is committed (or what an event
    /// changed, in a phase that stays): it is in the journal with that transition, and is sent again after a crash until it is
    /// taken. When the phase function fails, nothing of it is ever sent.
    ///
    /// Without a journal, and from a machine that is not kept in it, it is sent when the transition is made.
    ///
    /// The idea is the transactional outbox of message systems.
    ///
    /// ```
    /// use fom_runtime::{journal::MemoryJournal, prelude::*};
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
    pub fn outbox(&self) -> Outbox<'_> {
        Outbox::of(self.fom)
    }
}

/// The outbox of a fom; see [`Cx::outbox`].
pub struct Outbox<'a> {
    fom: &'a Header,
}

impl fmt::Debug for Outbox<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbox({})", self.fom.id())
    }
}

impl<'a> Outbox<'a> {
    fn of<E>(fom: &'a Mailed<E>) -> Self {
        Self { fom }
    }

    /// An operation to be started. Nothing happens before it is posted.
    pub fn submit<O: Operation>(&self, operation: O) -> Posting<'a, O> {
        Posting {
            fom: self.fom,
            submission: Submission::new(self.fom.world(), operation),
        }
    }

    /// An event for the fom of type `O` that has this key when this transition is committed. It stays in the journal until that
    /// fom has committed a transition after it took the event. Events that one sender sends to one receiver in this way come in
    /// their order. When nobody has the key, or it ends without taking the event, the event is
    /// [set aside](crate::Runtime::set_aside), with [`RestoreError::NoReceiver`](crate::RestoreError): it can be tried again or
    /// discarded. Of more than 10,000 of those the newest are dropped, as are events of a sender that is not kept in the journal; that is
    /// reported in [`Operations::incidents`](crate::Operations).
    ///
    /// # Errors
    ///
    /// When the event cannot be saved, or could not be read again: a generic operation takes none through an outbox.
    pub fn send<O>(&self, to: impl Into<Key>, event: O::Event) -> Result<(), SnapshotError>
    where
        O: Persistent,
        O::Event: Savable,
    {
        let item = post_event::<O>(
            self.fom.world(),
            self.fom.kept().is_some(),
            to.into(),
            event,
        )?;
        self.fom.post(item);
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
    /// As [`Submission::key`]. A key that is in use when it would start sets it aside; see [`queue`](Self::queue).
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.submission = self.submission.key(key);
        self
    }

    /// As [`Submission::queue`]. The fom waits even if the number of waiting foms is at its limit. Its place in the
    /// order is that of the step that sends it. The runtime assigns the place when the function has returned. The place
    /// survives a restart, because the journal has it from the commit on. No other fom waits for this one before the
    /// commit.
    pub fn queue(mut self) -> Self {
        self.submission = self.submission.queue_regardless();
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

    /// Puts it into the outbox, and says which id it will have.
    ///
    /// # Errors
    ///
    /// When the operation cannot be saved. A transient one need not be: it starts after the commit, and not again after a crash.
    pub fn post(self) -> Result<FomId, SnapshotError> {
        let Prepared { id, item } = self.submission.prepare(self.fom.kept().is_some())?;
        self.fom.post(item);
        Ok(id)
    }
}
