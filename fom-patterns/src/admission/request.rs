//! A request as a policy sees it: a token, with the tags that policies sort by.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fom_runtime::{Key, submission::Priority, time::Instant};

use crate::admission::{
    intake::Event,
    waiting_request::{Unstarted, WaitingRequest},
};

/// The tags that policies sort a request by.
pub struct Tags {
    /// Set under the lock of the intake when the request is let into the queue, and read after that.
    pub(super) number: AtomicU64,
    pub(super) operation: &'static str,
    pub(super) client: Option<Key>,
    pub(super) class: Option<Key>,
    pub(super) object: Option<Key>,
    pub(super) series: Option<Key>,
    pub(super) sort_key: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) priority: Priority,
    pub(super) since: Instant,
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tags")
            .field("number", &self.number())
            .field("operation", &self.operation)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl Tags {
    /// Returns the request's number in the order of arrival at this intake. No two requests have the same number.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns tags for the same request.
    pub(super) fn copied(&self) -> Self {
        Self {
            number: AtomicU64::new(self.number()),
            operation: self.operation,
            client: self.client.clone(),
            class: self.class.clone(),
            object: self.object.clone(),
            series: self.series.clone(),
            sort_key: self.sort_key,
            deadline: self.deadline,
            priority: self.priority,
            since: self.since,
        }
    }

    /// Returns the name of the operation type.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the client that submitted the request, if one was given.
    pub fn client(&self) -> Option<&Key> {
        self.client.as_ref()
    }

    /// Returns the class of service, if one was given.
    pub fn class(&self) -> Option<&Key> {
        self.class.as_ref()
    }

    /// Returns the object that the request works on, if one was given.
    pub fn object(&self) -> Option<&Key> {
        self.object.as_ref()
    }

    /// Returns the series in which the operation has its turn, if one was given.
    pub fn series(&self) -> Option<&Key> {
        self.series.as_ref()
    }

    /// Returns the position in the object; zero if none was given.
    pub fn sort_key(&self) -> u64 {
        self.sort_key
    }

    /// Returns the time by which the request should start, on the runtime's clock, if one was given.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the request's priority.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the time of the request's arrival, on the runtime's clock.
    pub fn since(&self) -> Instant {
        self.since
    }
}

/// A request in the queue. A policy keeps the request until it returns the request from
/// [`Policy::get`](super::Policy::get) or another function. A `Request` derefs to its [`Tags`]. A request is never
/// lost: if a policy drops it, it goes to the first-in-first-out queue behind all policies.
pub struct Request {
    /// `None` only in the drop.
    waiting: Option<Arc<WaitingRequest>>,
    /// The request has left the queue, and its fom keeps it. The drop tells that the fom has ended or was not made.
    is_running: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&**self).finish()
    }
}

impl Request {
    pub(super) fn new(waiting: Arc<WaitingRequest>) -> Self {
        Self {
            waiting: Some(waiting),
            is_running: false,
        }
    }

    pub(super) fn waiting(&self) -> &Arc<WaitingRequest> {
        match &self.waiting {
            Some(waiting) => waiting,
            None => unreachable!("only the drop takes it"),
        }
    }

    /// Notes the policy that has the request, or gave it last.
    pub(super) fn set_policy(&self, number: u64) {
        self.waiting().policy.store(number, Ordering::Relaxed);
    }

    /// Starts the operation: its turn has come.
    pub(super) fn start(mut self) {
        self.is_running = true;
        let waiting = Arc::clone(self.waiting());
        waiting.progress.start(self);
    }

    /// Answers a request that leaves the queue without having started.
    pub(super) fn answer(mut self, why: Unstarted) {
        if let Some(waiting) = self.waiting.take() {
            waiting.progress.answer(why);
        }
    }
}

impl Deref for Request {
    type Target = Tags;

    fn deref(&self) -> &Tags {
        &self.waiting().tags
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            let shared = Arc::clone(&waiting.shared);
            shared.deliver(match self.is_running {
                true => Event::Ended(waiting),
                false => Event::Fallen(Self::new(waiting)),
            });
        }
    }
}

/// Says where an operation works, for policies that sort by that. A submission applies it with
/// [`sorted`](super::AdmissionRequest::sorted).
///
/// ```
/// use fom_patterns::admission::Sorted;
/// use fom_runtime::Key;
///
/// struct Write { file: u64, offset: u64 }
///
/// impl Sorted for Write {
///     fn object(&self) -> Option<Key> {
///         Some(self.file.into())
///     }
///     fn sort_key(&self) -> u64 {
///         self.offset
///     }
/// }
/// ```
pub trait Sorted {
    /// Returns the object that the operation works on. Operations on the same object are sorted. With `None` the
    /// operation is not sorted.
    fn object(&self) -> Option<Key>;

    /// Returns the position in the object. Operations with equal positions stay in the order of their arrival.
    fn sort_key(&self) -> u64;
}
