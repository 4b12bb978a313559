//! Admission: a queue in front of the localities. The queue with its limits and its policy is an *intake*. The policy
//! chooses which request starts next. A program can change the policy while requests are queued.
//!
//! A queued request is a value, not yet a fom: the operation and the tags that policies sort by. An intake limits how
//! many of its foms run at a time, so further requests wait in the queue. A request leaves the queue once: it starts, or
//! its caller gets a failure with the operation.
//!
//! | file | what |
//! | --- | --- |
//! | `mod.rs`, `builder.rs` | [`Admission`] and its builder |
//! | `admission_request.rs`, `waiting_request.rs`, `wait_for_room.rs` | an operation on its way in, in the queue, and in a wait for room |
//! | `request.rs`, `policy.rs` | a request as policies see it, and the trait of policies |
//! | `intake.rs`, `dispatcher.rs`, `policy_set.rs` | the short lock, the work behind the lock, and the policies there |
//! | `series_lines.rs` | the requests that wait for an earlier one of their series |
//! | `policies/`, `buckets/` | the built-in policies |
//! | `status.rs`, `listed.rs`, `text.rs` | the status of an intake, its place in listings, and policies from a line of text |
//!
//! The design has two levels of scheduling and a policy that can be changed under load, as Lustre's network request
//! scheduler (NRS) has. The high and the low mark of the queue come from Asterisk's task processors.

mod admission_request;
mod buckets;
mod builder;
mod dispatcher;
mod intake;
mod listed;
mod policies;
mod policy;
mod policy_set;
mod request;
mod series_lines;
mod status;
mod text;
mod wait_for_room;
mod waiting_request;

use std::{fmt, sync::Arc};

pub use self::{
    admission_request::AdmissionRequest,
    buckets::{ConfigError, Rate, Rule, Rules, Share, TokenBuckets},
    builder::{AdmissionBuilder, BuildAdmissionError, Level, WhenFull},
    policies::{ClientRoundRobin, DeadlineFirst, Delay, Fifo, Line, Priorities, SortedBatches},
    policy::{Next, Nudge, Policy},
    request::{Request, Sorted, Tags},
    status::{AdmissionStatus, PolicyStatus, QueueStatus},
    text::PolicyTextError,
    wait_for_room::WaitForRoom,
    waiting_request::{Queued, Starting},
};
use fom_runtime::{Operation, Runtime};

use intake::{Event, Shared};

/// The intake of a server. A submitted operation waits in a queue until one of a limited number of places is free. The
/// queue's [`Policy`] chooses which request is next. A clone is another handle to the same intake.
///
/// A request can be [cancelled](Queued::cancel) in the queue, for example after its client has gone. Dropping its
/// handle lets the request run. Queued operations live in memory. Even with the journal of the package `fom-durable`,
/// an operation is kept only from its start on.
///
/// When the runtime drains, it serves all queued requests, without regard to rates. When the runtime shuts down at once,
/// each queued request fails with [`Cause::Shutdown`](fom_runtime::Cause::Shutdown), and the failure has its operation.
///
/// ```
/// use fom_patterns::{admission::{Admission, ClientRoundRobin, TokenBuckets, Rate}, prelude::*};
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
/// #     fn fetch(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
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
    /// Returns a builder for an intake of this runtime.
    pub fn builder(runtime: &Runtime) -> AdmissionBuilder {
        AdmissionBuilder::new(runtime)
    }

    /// Submits an operation to this intake. Nothing happens until the returned [`AdmissionRequest`] is started or
    /// awaited.
    pub fn submit<O: Operation>(&self, operation: O) -> AdmissionRequest<'_, O> {
        AdmissionRequest::new(&self.shared, operation)
    }

    /// Changes the policy, which may be boxed already. Queued requests stay with the policy that took them. That policy
    /// serves them to the end, in turns with the new policy. No request is moved or lost. No request of a client starts
    /// before the same client's requests that were queued before the change.
    ///
    /// The new policy takes every submission after this method returns. Each change passes over all queued requests once.
    pub fn set_policy(&self, policy: impl Into<Box<dyn Policy>>) {
        self.shared.deliver(Event::Policy(policy.into()));
    }

    /// Returns the number of requests that wait for their turn now.
    pub fn queued(&self) -> usize {
        self.shared.queued()
    }

    /// Returns [`Level::Full`] if the queue was filled to its high mark, and was not emptied to its low mark since.
    pub fn level(&self) -> Level {
        self.shared.level()
    }

    /// Returns the full status: policies, queue lengths by client and class, and counts. `Display` prints a table.
    ///
    /// The status asks the policies, on a thread of its own. If a policy does not return within 100 ms, the status is
    /// [`busy`](AdmissionStatus::busy), and has only what the intake knows without the policies.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn status(&self) -> AdmissionStatus {
        listed::status(&self.shared).await
    }
}
