//! What a policy is.

use std::{fmt, sync::Weak, time::Duration};

use crate::admission::{
    Request, Tags,
    gate::{Event, Shared},
};

/// What a policy says when it is asked for the next request.
#[derive(Debug)]
pub enum Next {
    /// This one.
    Request(Request),
    /// It has some, and none may start before this time on the runtime's clock. The queue asks again then; a policy needs no
    /// timer of its own.
    Throttled(Duration),
    /// It has none.
    Empty,
}

/// Says which request starts next. Those that are built in are implementations of this trait, too.
///
/// Its functions are called one at a time, under no lock, on whatever thread comes by (a submitter's, a handler's): they must
/// not block. They may use the intake, which hears of that afterwards. A policy that panics is taken out, reported in
/// [`Operations::incidents`](crate::Operations), and what it had goes to the first-in-first-out queue.
///
/// ```
/// use std::{collections::VecDeque, time::Duration};
/// use fom_runtime::admission::{Next, Policy, Request, Tags};
///
/// /// The newest first: under overload, those who have waited long have gone.
/// #[derive(Default)]
/// struct NewestFirst(VecDeque<Request>);
///
/// impl Policy for NewestFirst {
///     fn name(&self) -> &str {
///         "newest first"
///     }
///     fn enqueue(&mut self, request: Request, _: Duration) -> Result<(), Request> {
///         self.0.push_front(request);
///         Ok(())
///     }
///     fn get(&mut self, _: Duration, _: bool) -> Next {
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
pub trait Policy: Send + 'static {
    /// Its name and settings, for the status.
    fn name(&self) -> &str;

    /// Takes a request, or declines it: a declined one waits in the first-in-first-out queue.
    ///
    /// # Errors
    ///
    /// The request, when this policy has no rule for such.
    fn enqueue(&mut self, request: Request, now: Duration) -> Result<(), Request>;

    /// The next request. `force`: the runtime drains, and every request is to be given now, whatever its rate.
    fn get(&mut self, now: Duration, force: bool) -> Next;

    /// Gives back the request with these tags, if it has it: it was cancelled. No two have the same number.
    fn remove(&mut self, request: &Tags) -> Option<Request>;

    /// Shows every request that it has, in any order.
    fn visit(&self, visitor: &mut dyn FnMut(&Tags));

    /// Moves a request before those of lower priority, if it knows priorities and has it; says whether it moved.
    fn promote(&mut self, request: &Tags) -> bool {
        let _ = request;
        false
    }

    /// Gives up the request that is to be shed when the queue is full. None: the one that came last is shed.
    fn victim(&mut self) -> Option<Request> {
        None
    }

    /// The fom of a request that it gave has ended, in whatever way.
    fn ended(&mut self, request: &Tags) {
        let _ = request;
    }

    /// It is in use from now on; `nudge` makes the queue ask it again before the time that it gave.
    fn attached(&mut self, nudge: Nudge) {
        drop(nudge);
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn enqueue(&mut self, request: Request, now: Duration) -> Result<(), Request> {
        (**self).enqueue(request, now)
    }
    fn get(&mut self, now: Duration, force: bool) -> Next {
        (**self).get(now, force)
    }
    fn remove(&mut self, request: &Tags) -> Option<Request> {
        (**self).remove(request)
    }
    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        (**self).visit(visitor);
    }
    fn promote(&mut self, request: &Tags) -> bool {
        (**self).promote(request)
    }
    fn victim(&mut self) -> Option<Request> {
        (**self).victim()
    }
    fn ended(&mut self, request: &Tags) {
        (**self).ended(request);
    }
    fn attached(&mut self, nudge: Nudge) {
        (**self).attached(nudge);
    }
}

/// Makes the queue ask its policies again, at once. For a policy whose settings were changed from outside.
#[derive(Clone)]
pub struct Nudge(pub(super) Weak<Shared>);

impl fmt::Debug for Nudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nudge")
    }
}

impl Nudge {
    /// From any thread. After the intake has gone it is nothing.
    pub fn nudge(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.deliver(Event::Look);
        }
    }
}
