//! Leader and helpers: a fom that starts others and waits for their ends.

mod gathering;

use std::{
    any::Any,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Weak},
    task::Context,
};

use tokio::task::coop::unconstrained;

use fom_runtime::{Cx, FomId, Handle, Operation, Refused, Submission, extension::Attached};

use gathering::Gathering;

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
/// # use fom_patterns::prelude::*;
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
///             let SquareEnd::Squared { square } = part.await?.end;
///             sum += square;
///         }
///         Ok(SumAfterSplit::Summed { sum })
///     }
/// }
///
/// let runtime = Runtime::builder().localities(1).build()?;
/// let ended = runtime.submit(Whole(3)).start()?.wait()?;
/// assert!(matches!(ended.end, SumEnd::Summed { sum: 14 }));
/// # Ok::<(), BoxError>(())
/// ```
#[must_use = "a team is there to be waited for"]
pub struct Team {
    gathering: Arc<Gathering>,
    /// The waits for the ends of the helpers, by place; `None` after the end. Each wakes the gathering as long as it
    /// exists.
    ends: Vec<Option<Box<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("helpers", &self.gathering.len())
            .field("left", &self.left())
            .finish()
    }
}

/// Adds teams to a [`Cx`].
pub trait TeamExt {
    /// Returns a team without helpers. This fom is the leader.
    fn team(&self) -> Team;
}

impl<E> TeamExt for Cx<'_, E> {
    fn team(&self) -> Team {
        let leader = self.fom_address();
        let gathering = Gathering::new(leader.clone());
        let part: Weak<Gathering> = Arc::downgrade(&gathering);
        leader.attach(part as Weak<dyn Attached>);
        Team {
            gathering,
            ends: Vec::new(),
        }
    }
}

impl Team {
    /// Starts a helper, of any operation type. Its place is the number of helpers before it. A helper that waits for a
    /// key of the leader ends with [`Cause::Stuck`](fom_runtime::Cause::Stuck).
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back; then the helper is not in the team.
    pub fn start<O: Operation>(
        &mut self,
        helper: Submission<'_, O>,
    ) -> Result<Handle<O>, Refused<O>> {
        let handle = helper.start()?;
        handle.expect_end();
        let waker = self.gathering.join(handle.fom_address());
        // To wait for no phase is to wait for the end.
        // Outside of tokio's budget: a poll that the budget ends would wake the gathering too early.
        let mut end = unconstrained(handle.reached([]));
        let is_over = Pin::new(&mut end)
            .poll(&mut Context::from_waker(&waker))
            .is_ready();
        self.ends.push((!is_over).then(|| Box::new(end) as _));
        if is_over {
            waker.wake();
        }
        Ok(handle)
    }

    /// Waits until all helpers have ended. The last one wakes the leader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn all(&mut self) {
        let wait = Waiting(&self.gathering);
        poll_fn(|cx| wait.0.poll_all(cx.waker())).await;
        self.ends.fill_with(|| None);
    }

    /// Waits for the next helper to end, and returns its place. Returns `None` when all places have been returned. The
    /// first call waits for the first helper that ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<usize> {
        let next = {
            let wait = Waiting(&self.gathering);
            poll_fn(|cx| wait.0.poll_next(cx.waker())).await
        };
        if let Some(place) = next {
            self.ends[place] = None;
        }
        next
    }

    /// Returns the helpers that have not ended.
    pub fn left(&self) -> Vec<FomId> {
        let left = self.gathering.left();
        left.iter().map(|fom| fom.id()).collect()
    }
}

/// A wait of the leader. If the wait is dropped, listings no longer show it.
struct Waiting<'a>(&'a Gathering);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
