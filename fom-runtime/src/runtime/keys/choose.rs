//! What a submission may ask for if its key is not free.

use std::{fmt, time::Duration};

use crate::{
    fom::{Full, Order},
    operation::Operation,
    runtime::{FomRef, Handle, Refused, Submission},
};

/// The result of a submission that [joins](crate::Submission::join).
pub enum Joined<O: Operation> {
    /// No fom had the key; the submitted one has started.
    Started(Handle<O>),
    /// Another fom has the key.
    Live {
        /// The fom that has the key, or is the next to have it.
        fom: FomRef<O>,
        /// The submitted operation, which was not started.
        operation: O,
    },
}

impl<O: Operation> fmt::Debug for Joined<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(handle) => f.debug_tuple("Started").field(handle).finish(),
            Self::Live { fom, .. } => f
                .debug_struct("Live")
                .field("fom", fom)
                .finish_non_exhaustive(),
        }
    }
}

impl<O: Operation> Submission<'_, O> {
    /// Makes the operation wait for its [key](Self::key), first in, first out, behind all foms that came before it.
    /// Other keys go on meanwhile. Without a key this setting has no effect.
    ///
    /// The fom is in flight from the start. The listing shows that it waits for its key. Callers can find it by its id,
    /// cancel it and await it, and a shutdown ends it. It holds no thread while it waits.
    ///
    /// The fom's turn comes when the fom before it has ended in any way. Then it goes to the tail of its home's run
    /// queue, so a busy key never delays the turns of others. Its first phase begins there, and with it the time of a
    /// deadline.
    ///
    /// The submission is [refused](crate::error::RefusedReason::KeyFull) if [as many as
    /// allowed](crate::Builder::key_queue) wait already.
    ///
    /// With a journal, the fom is on disk while it waits, and keeps its place over a crash. `committed` of its handle
    /// waits until it is there: see [`start`](Self::start).
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// struct Book { cents: i64 }
    ///
    /// #[fom(operation(Book), transient)]
    /// enum Booking {
    ///     #[phase(start, sync, to(Booked))]
    ///     Add,
    ///     #[phase(end)]
    ///     Booked,
    /// }
    /// # impl BookingTransitions for Book {
    /// #     fn add(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
    /// #         println!("{:?}: {}", cx.key(), self.cents);
    /// #         Ok(())
    /// #     }
    /// # }
    /// let runtime = Runtime::new()?;
    /// // One after the other, in this order; those of other accounts run meanwhile.
    /// let first = runtime.submit(Book { cents: 700 }).key("account 7").queue().start()?;
    /// let second = runtime.submit(Book { cents: -300 }).key("account 7").queue().start()?;
    /// second.wait()?;
    /// # first.wait()?;
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// With a journal, the place in the queue is not on disk yet when [`start`](Self::start) returns. `committed` of the
    /// handle, in `fom-durable`, waits until it is.
    pub fn queue(mut self) -> Self {
        if self.order == Order::Refuse {
            self.order = Order::Queue {
                shares: false,
                full: Full::Refuse,
            };
        }
        self
    }

    /// As [`queue`](Self::queue), for a fom that only reads: it may have the key together with others that share it.
    /// Foms that came earlier and do not share the key go first. Foms that come later and do not share it wait until
    /// all sharing foms have ended.
    pub fn shared(self) -> Self {
        self.queued(|shares, _| *shares = true)
    }

    /// As [`queue`](Self::queue), but if [as many as allowed](crate::Builder::key_queue) wait already, the fom that has
    /// waited longest makes room. That fom ends with [`Cause::Shed`](crate::Cause::Shed), and gives its operation back.
    pub fn shed_oldest(self) -> Self {
        self.queued(|_, full| *full = Full::Shed)
    }

    /// As [`queue`](Self::queue), without a limit on how many wait.
    pub(crate) fn queue_regardless(self) -> Self {
        self.queued(|_, full| *full = Full::Ignore)
    }

    fn queued(mut self, change: impl FnOnce(&mut bool, &mut Full)) -> Self {
        self = self.queue();
        if let Order::Queue { shares, full } = &mut self.order {
            change(shares, full);
        }
        self
    }

    /// Makes the fom a part of the turn of the fom that submits it, which must have a key. The new fom runs at once,
    /// and the key goes to the next fom when both have ended. Use it if a fom that has a key must wait for work under
    /// that key.
    ///
    /// The new fom may be of another type, may submit chained foms itself, and has no key of its own.
    ///
    /// In the journal the two foms are separate: when both come back after a restart, the key no longer waits for the
    /// chained one.
    ///
    /// The submission is [refused](crate::error::RefusedReason::NoTurn) unless a fom with a key submits it.
    pub fn chain(mut self) -> Self {
        self.key = None;
        if let Some(special) = &mut self.special {
            special.series = None;
        }
        self.order = Order::Chain;
        self
    }

    /// Delays the first phase by this time on the runtime's clock. Until then the fom is in flight, waits for a timer,
    /// and can be cancelled.
    ///
    /// A fom that [queues](Self::queue) takes its place in the order of its key after the delay. It fails with
    /// [`Cause::Refused`](crate::Cause::Refused) if the queue is full then. Any other fom has its key at once.
    ///
    /// With a journal, the fom is on disk while it waits, and its delay goes on over a crash. After a restart it begins
    /// at its time, or at once if that has passed. It is not on disk yet when [`start`](Self::start) returns: `committed`
    /// of the handle, in `fom-durable`, waits until it is.
    pub fn after(mut self, time: Duration) -> Self {
        self.special().after = Some(time);
        self
    }

    /// Starts the fom, or returns the fom that has its key or is the next to have it.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], as [`start`](Self::start) does, except when another fom has the key.
    ///
    /// ```
    /// # use fom_runtime::{prelude::*, submission::Joined};
    /// # struct Report;
    /// # #[fom(operation(Report), transient)]
    /// # enum Reporting {
    /// #     #[phase(start, sync, to(Sent))]
    /// #     Collect,
    /// #     #[phase(end)]
    /// #     Sent,
    /// # }
    /// # impl ReportingTransitions for Report {
    /// #     fn collect(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// let runtime = Runtime::new()?;
    /// match runtime.submit(Report).key("today").join()? {
    ///     Joined::Started(report) => drop(report.wait()?),
    ///     // Somebody else has asked for it: to wait for no phase is to wait for its end.
    ///     Joined::Live { fom, .. } => drop(fom.reached([]).wait()),
    /// }
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn join(mut self) -> Result<Joined<O>, Refused<O>> {
        if self.series().is_none() {
            self.order = Order::Refuse;
        }
        match self.start() {
            Ok(handle) => Ok(Joined::Started(handle)),
            Err(refused) => match refused.live().cloned() {
                Some(fom) => Ok(Joined::Live {
                    fom,
                    operation: refused.into_operation(),
                }),
                None => Err(refused),
            },
        }
    }
}
