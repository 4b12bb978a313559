//! Leader and helpers: a fom that starts others and waits for their ends.

use std::{fmt, future::poll_fn, sync::Arc};

use crate::{
    cx::Cx,
    fom::{Gathering, WaitingFor, Watcher},
    id::FomId,
    operation::Operation,
    runtime::{Handle, Refused, Submission},
};

/// The helpers of a fom, their leader. A wait wakes the leader once: when all helpers have ended, or when the first
/// has. A helper ends in any way: at an end phase, or by an error, a panic, a deadline, a cancel or a shutdown.
///
/// The outcomes stay with the handles, which are ready then. Dropping a team cancels no helper.
///
/// After a restart, a leader that is kept in a journal runs its phase again and starts its helpers anew. Give each
/// helper an operation id that stays the same, such as `format!("{}", cx.step_key().part(n))`. Then the leader joins
/// the helpers that exist already.
///
/// ```
/// # use fom_runtime::prelude::*;
/// struct Part(u64);
///
/// #[fom(operation(Part), transient)]
/// enum Square {
///     #[phase(start, sync, to(Squared))]
///     Compute,
///     #[phase(end)]
///     Squared { square: u64 },
/// }
///
/// impl SquareTransitions for Part {
///     fn compute(&mut self, _: &mut Cx<'_>) -> Result<SquareAfterCompute, BoxError> {
///         Ok(SquareAfterCompute::Squared { square: self.0 * self.0 })
///     }
/// }
///
/// struct Whole(u64);
///
/// #[fom(operation(Whole), transient)]
/// enum Sum {
///     #[phase(start, to(Summed))]
///     Split,
///     #[phase(end)]
///     Summed { sum: u64 },
/// }
///
/// impl SumTransitions for Whole {
///     async fn split(&mut self, cx: &mut Cx<'_>) -> Result<SumAfterSplit, BoxError> {
///         let mut team = cx.team();
///         let mut parts = Vec::new();
///         for n in 1..=self.0 {
///             parts.push(team.start(cx.submit(Part(n)))?);
///         }
///         team.all().await;
///         let mut sum = 0;
///         for part in parts {
///             let Square::Squared { square } = part.await?.phase else { unreachable!() };
///             sum += square;
///         }
///         Ok(SumAfterSplit::Summed { sum })
///     }
/// }
///
/// let runtime = Runtime::builder().localities(1).build()?;
/// let ended = runtime.submit(Whole(3)).start()?.wait()?;
/// assert!(matches!(ended.phase, Sum::Summed { sum: 14 }));
/// # Ok::<(), BoxError>(())
/// ```
#[must_use = "a team is there to be waited for"]
pub struct Team {
    gathering: Arc<Gathering>,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("helpers", &self.gathering.len())
            .field("left", &self.left())
            .finish()
    }
}

impl<E> Cx<'_, E> {
    /// Returns a team without helpers.
    pub fn team(&self) -> Team {
        let gathering = Arc::<Gathering>::default();
        self.fom.set_team(&gathering);
        Team { gathering }
    }
}

impl Team {
    /// Starts a helper, of any operation type. Its place is the number of helpers before it.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back; then the helper is not in the team.
    pub fn start<O: Operation>(
        &mut self,
        helper: Submission<'_, O>,
    ) -> Result<Handle<O>, Refused<O>> {
        let handle = helper.start()?;
        handle.fom().bar_if_stuck();
        let place = self.gathering.join(handle.id());
        handle.fom().watch(Watcher::of_team(&self.gathering, place));
        Ok(handle)
    }

    /// Waits until all helpers have ended. The last one wakes the leader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn all(&mut self) {
        poll_fn(|cx| {
            let polled = self.gathering.poll_all(cx.waker());
            if polled.is_pending() {
                WaitingFor::Foms.say();
            }
            polled
        })
        .await;
    }

    /// Waits for the next helper to end, and returns its place. Returns `None` when all places have been returned. The
    /// first call waits for the first helper that ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<usize> {
        poll_fn(|cx| {
            let polled = self.gathering.poll_next(cx.waker());
            if polled.is_pending() {
                WaitingFor::Foms.say();
            }
            polled
        })
        .await
    }

    /// Returns the helpers that have not ended.
    pub fn left(&self) -> Vec<FomId> {
        self.gathering.left()
    }
}
