//! The trait of policies.

use std::{
    fmt,
    sync::{Arc, Weak},
    task::Wake,
};

use fom_runtime::time::Instant;

use crate::admission::{
    Request, Tags,
    intake::{Event, Shared},
};

/// The answer of [`Policy::get`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// The next request.
    Request(Request),
    /// The policy has requests, but none may start before this time on the runtime's clock. The queue asks again then,
    /// so a policy needs no timer of its own.
    Throttled(Instant),
    /// The policy has no requests.
    Empty,
}

/// Chooses which request starts next. The built-in policies implement this trait, too.
///
/// The functions are called one at a time, under no lock. Any thread can call them (a submitter's, a handler's), so
/// they must not block. They may use the intake, which handles their events afterwards. A policy that panics is removed
/// and reported in [`Operations::incidents`](fom_runtime::observe::Operations). Its requests go to the
/// first-in-first-out queue.
///
/// ```
/// use std::collections::VecDeque;
/// use fom_patterns::admission::{Next, Policy, Request, Tags};
/// use fom_runtime::time::Instant;
///
/// /// The newest first: under overload, clients that have waited long have gone.
/// #[derive(Default)]
/// struct NewestFirst(VecDeque<Request>);
///
/// impl Policy for NewestFirst {
///     fn name(&self) -> &str {
///         "newest first"
///     }
///     fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
///         self.0.push_front(request);
///         Ok(())
///     }
///     fn get(&mut self, _: Instant, _: bool) -> Next {
///         self.0.pop_front().map_or(Next::Empty, Next::Request)
///     }
///     fn remove(&mut self, request: &Tags) -> Option<Request> {
///         let place = self.0.iter().position(|mine| mine.number() == request.number())?;
///         self.0.remove(place)
///     }
///     fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
///         self.0.iter().for_each(|request| visitor(request));
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no policy of admission",
    label = "this is no policy",
    note = "choose one of `fom_patterns::admission`, such as `Fifo`, or implement `Policy`"
)]
pub trait Policy: Send + 'static {
    /// Returns the policy's name and settings, for the status.
    fn name(&self) -> &str;

    /// Takes a request, or declines it. A declined request waits in the first-in-first-out queue.
    ///
    /// # Errors
    ///
    /// Returns the request if this policy has no rule for such requests.
    fn enqueue(&mut self, request: Request, now: Instant) -> Result<(), Request>;

    /// Returns the next request. If `force` is set, the runtime drains, and the policy must give every request now,
    /// whatever its rate.
    fn get(&mut self, now: Instant, force: bool) -> Next;

    /// Removes and returns the request with these tags, if the policy has it. The request is cancelled, or shed. No two
    /// requests have the same number.
    fn remove(&mut self, request: &Tags) -> Option<Request>;

    /// Calls `visitor` with every request that the policy has, in any order.
    fn visit(&self, visitor: &mut dyn FnMut(&Tags));

    /// Moves a request before those of lower priority, if the policy knows priorities and has the request. Returns
    /// whether the request moved.
    fn promote(&mut self, request: &Tags) -> bool {
        let _ = request;
        false
    }

    /// Removes and returns the request to shed when the queue is full. With `None`, the intake's other policies are
    /// asked. If none of them gives a request, the request that came last is shed.
    fn victim(&mut self) -> Option<Request> {
        None
    }

    /// Called when the fom of a request that the policy gave has ended, in whatever way.
    fn ended(&mut self, request: &Tags) {
        let _ = request;
    }

    /// Called when the policy comes into use. `nudge` makes the queue ask the policy again, before the time that the
    /// policy gave.
    fn attached(&mut self, nudge: Nudge) {
        drop(nudge);
    }
}

impl<P: Policy> From<P> for Box<dyn Policy> {
    fn from(policy: P) -> Self {
        Box::new(policy)
    }
}

/// Makes the queue ask its policies again at once. For policies with settings that change from outside.
#[derive(Clone)]
pub struct Nudge(pub(super) Weak<Shared>);

impl fmt::Debug for Nudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nudge")
    }
}

impl Nudge {
    /// Makes the queue ask again. Can be called from any thread. Does nothing after the intake has gone.
    pub fn nudge(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.deliver(Event::Look);
        }
    }
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.nudge();
    }
}
