//! What a submission may ask for where its key is not free.

use std::time::Duration;

use crate::{
    error::Refused,
    operation::Operation,
    runtime::{
        Submission,
        keys::{Full, Joined, Order},
    },
};

impl<O: Operation> Submission<'_, O> {
    /// Has it wait for its [key](Self::key): first in, first out, behind all that were there before it, while other keys go on. It is
    /// in flight from the start: it is listed as waiting for its key, can be found by its id, cancelled and awaited, and is answered
    /// at a shutdown. It holds no thread. Without a key there is nothing that it would wait for.
    ///
    /// Its turn comes when the one before it has ended, in whatever way: then it goes to the tail of its home's run queue, so that
    /// a key with much to do never keeps others from their turn. Its first phase begins there, and with it the time of a deadline.
    ///
    /// It is [refused](crate::RefusedReason::KeyFull) when as many wait as [may](crate::Builder::key_queue).
    ///
    /// With a journal: one that waits is not on disk before its turn has come. Nobody was told that it is: see
    /// [`start`](Self::start).
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
    pub fn queue(mut self) -> Self {
        if self.order == Order::Refuse {
            self.order = Order::Queue {
                shared: false,
                full: Full::Refuse,
            };
        }
        self
    }

    /// As [`queue`](Self::queue), for one that only reads: it may have the key together with others that share it. Those that came
    /// before it and do not share it go first, and those that came after it wait until all that share it have ended.
    pub fn shared(self) -> Self {
        self.queued(|shared, _| *shared = true)
    }

    /// As [`queue`](Self::queue), but when as many wait as [may](crate::Builder::key_queue), the one that has waited longest makes
    /// room for it: that one ends with [`Cause::Shed`](crate::Cause::Shed), and gives its operation back.
    pub fn shed_oldest(self) -> Self {
        self.queued(|_, full| *full = Full::Shed)
    }

    /// As [`queue`](Self::queue), also when as many wait as may.
    pub(crate) fn queue_regardless(self) -> Self {
        self.queued(|_, full| *full = Full::Ignore)
    }

    fn queued(mut self, change: impl FnOnce(&mut bool, &mut Full)) -> Self {
        self = self.queue();
        if let Order::Queue { shared, full } = &mut self.order {
            change(shared, full);
        }
        self
    }

    /// Makes it a part of the turn of the fom that submits it, which has a key: it runs at once, and the key goes on to the next
    /// when both have ended. It may be of another type, may submit some itself that are chained to it, and has no key of its own.
    /// Whoever has a key and must wait for something to be done under it does it so.
    ///
    /// In the journal it is for itself: when both come back after a restart, the key no longer waits for it.
    ///
    /// It is [refused](crate::RefusedReason::NoTurn) where no fom with a key submits it.
    pub fn chain(mut self) -> Self {
        self.key = None;
        self.order = Order::Chain;
        self
    }

    /// Has it begin when so much time has passed on the runtime's clock. Until then it is in flight, waits for a timer, and can be
    /// cancelled. One that [queues](Self::queue) takes its place in the order of its key then, and fails with
    /// [`Cause::Refused`](crate::Cause::Refused) when the queue is full; any other has its key at once.
    ///
    /// With a journal: it is not on disk before it has begun. What must survive waits in a phase of its own.
    pub fn after(mut self, time: Duration) -> Self {
        self.special().after = Some(time);
        self
    }

    /// Starts it, or says which fom has its key, or is the next to have it.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for [`start`](Self::start), but not because another one has its key.
    ///
    /// ```
    /// # use fom_runtime::{Joined, prelude::*};
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
        self.order = Order::Refuse;
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
