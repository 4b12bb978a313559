//! Admission: a queue in front of the localities, whose policy says what starts next and may be changed while it is full.
//!
//! What is queued is a value, not yet a fom: the operation with what policies sort by. At most so many foms of an intake run at
//! a time; that is what makes a queue. A request leaves the queue once: it starts, or it is answered, with its operation.
//!
//! | file | what |
//! | --- | --- |
//! | `mod.rs`, `builder.rs` | [`Admission`], and how one is made |
//! | `tagged.rs`, `place.rs`, `waiting.rs` | an operation on its way in, its place in the queue, and a wait for room |
//! | `request.rs`, `policy.rs` | what policies see, and what they are |
//! | `gate.rs`, `desk.rs`, `slots.rs` | the short lock, the work behind it, and the policies there |
//! | `policies/`, `buckets/` | those that are built in |
//! | `status.rs`, `text.rs` | what is seen of it, and policies from a line of text |
//!
//! The design, with two levels of scheduling and a policy that can be changed under load, is that of Lustre's network request
//! scheduler (NRS); the water marks with hysteresis are those of Asterisk's task processors.

mod buckets;
mod builder;
mod desk;
mod gate;
mod place;
mod policies;
mod policy;
mod request;
mod slots;
mod status;
mod tagged;
mod text;
mod waiting;

use std::{fmt, sync::Arc};

pub use self::{
    buckets::{ConfigError, Rate, Rule, Rules, Share, TokenBuckets},
    builder::{AdmissionBuilder, BuildAdmissionError, Level, WhenFull},
    place::{Queued, Starting},
    policies::{ClientRoundRobin, DeadlineFirst, Fifo, Line, Priorities, SortedBatches},
    policy::{Next, Nudge, Policy},
    request::{Request, Sorted, Tags},
    status::{AdmissionStatus, PolicyStatus, QueueStatus},
    tagged::Tagged,
    text::PolicyTextError,
    waiting::WaitForRoom,
};
use crate::{operation::Operation, runtime::Runtime};
use gate::{Event, Shared};

/// The intake of a server: what is submitted here waits in a queue until one of so many places is free, and the queue's
/// [`Policy`] says whose turn it is. A clone is another handle to the same intake.
///
/// A request whose client has gone can be [cancelled](Queued::cancel) in the queue; dropping its handle lets it run. What is
/// queued lives in memory: with a [journal](crate::Builder::journal), too, an operation is kept only from its start on.
///
/// When the runtime drains, what is queued is served to the end, past any rate; when it is shut down at once, everything queued
/// is answered with [`Cause::Shutdown`](crate::Cause::Shutdown) and its operation.
///
/// ```
/// use fom_runtime::{admission::{Admission, ClientRoundRobin, TokenBuckets, Rate}, prelude::*};
///
/// struct Read { block: u64 }
/// #[fom(operation(Read), transient)]
/// enum Reading {
///     #[phase(start, sync, to(Done))]
///     Fetch,
///     #[phase(end)]
///     Done,
/// }
/// # impl ReadingTransitions for Read {
/// #     fn fetch(&mut self, _: &mut Cx<'_>) -> Result<(), fom_runtime::BoxError> { Ok(()) }
/// # }
/// let runtime = Runtime::builder().localities(1).build()?;
/// let intake = Admission::builder(&runtime)
///     .in_flight(4)
///     .marks(750, 1000)
///     .policy(ClientRoundRobin::new(8)?)
///     .build()?;
/// let read = intake.submit(Read { block: 7 }).client("10.0.0.7").start()?;
/// read.wait()?;
///
/// // From now on each client gets a hundred a second, whatever the number of localities.
/// intake.set_policy(TokenBuckets::per_client(Rate::per_second(100)?.burst(10)?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Admission {
    shared: Arc<Shared>,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}

impl Admission {
    /// An intake of this runtime, to be configured.
    pub fn builder(runtime: &Runtime) -> AdmissionBuilder {
        AdmissionBuilder::new(runtime)
    }

    /// Submits an operation here. Nothing happens before it is started or awaited.
    pub fn submit<O: Operation>(&self, operation: O) -> Tagged<'_, O> {
        Tagged::new(&self.shared, operation)
    }

    /// Changes the policy. What is queued stays with the policy that took it, which serves it to the end, in turns with the new
    /// one. Nothing is moved, and nothing lost; no request of a client starts before those of the same client that were queued
    /// before the change.
    ///
    /// Takes effect for whatever is submitted after this returns. Each change looks once at all that is queued.
    pub fn set_policy(&self, policy: impl Policy) {
        self.shared.deliver(Event::Policy(Box::new(policy)));
    }

    /// How many requests wait for their turn now.
    pub fn queued(&self) -> usize {
        self.shared.queued()
    }

    /// Whether it was filled to its high mark, and has not been emptied to its low mark since.
    pub fn level(&self) -> Level {
        self.shared.level()
    }

    /// The whole picture: policies, queue lengths by client and class, counts. `Display` is a table.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn status(&self) -> AdmissionStatus {
        self.shared.status().await
    }
}
