//! What a policy sees of a submission: a token for it, with what it is sorted by.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    admission::{
        gate::{Event, Shared},
        place::Entry,
    },
    error::RefusedReason,
    id::Key,
    runtime::Priority,
};

/// What a request is sorted by.
pub struct Tags {
    /// Given when it is let into the queue, under the lock of the gate, and read after that.
    pub(super) number: AtomicU64,
    pub(super) operation: &'static str,
    pub(super) client: Option<Key>,
    pub(super) class: Option<Key>,
    pub(super) object: Option<Key>,
    pub(super) sort_key: u64,
    pub(super) deadline: Option<Duration>,
    pub(super) priority: Priority,
    pub(super) since: Duration,
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
    /// Its number in the order of arrival at this intake; no two have the same.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The operation type.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Who submitted it, if that was said.
    pub fn client(&self) -> Option<&Key> {
        self.client.as_ref()
    }

    /// Its class of service, if it has one.
    pub fn class(&self) -> Option<&Key> {
        self.class.as_ref()
    }

    /// What it works on, if that was said.
    pub fn object(&self) -> Option<&Key> {
        self.object.as_ref()
    }

    /// Where in the object; zero if that was not said.
    pub fn sort_key(&self) -> u64 {
        self.sort_key
    }

    /// When it should have started, on the runtime's clock, if that was said.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Its priority.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// When it arrived, on the runtime's clock.
    pub fn since(&self) -> Duration {
        self.since
    }
}

/// A request in the queue. A policy keeps it until it gives it back, by [`Policy::get`](super::Policy::get) or one of the other
/// ways. It derefs to its [`Tags`]. It is never lost: one that a policy drops goes to the first-in-first-out queue behind all policies.
pub struct Request(Option<Arc<dyn Entry>>, Arc<Shared>);

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&**self).finish()
    }
}

impl Request {
    pub(super) fn new(entry: Arc<dyn Entry>, shared: Arc<Shared>) -> Self {
        Self(Some(entry), shared)
    }

    pub(super) fn entry(&self) -> &Arc<dyn Entry> {
        match &self.0 {
            Some(entry) => entry,
            None => unreachable!("taken out only when it goes"),
        }
    }

    /// It leaves the queue.
    pub(super) fn into_entry(mut self) -> Arc<dyn Entry> {
        match self.0.take() {
            Some(entry) => entry,
            None => unreachable!("taken out only when it goes"),
        }
    }
}

impl Deref for Request {
    type Target = Tags;

    fn deref(&self) -> &Tags {
        self.entry().tags()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            let again = Self::new(entry, Arc::clone(&self.1));
            self.1.deliver(Event::Fallen(again));
        }
    }
}

/// What an operation type says of where it works, for policies that sort by that. A submission takes it over with
/// [`sorted`](super::Tagged::sorted).
///
/// ```
/// use fom_runtime::{Key, admission::Sorted};
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
    /// What it works on: those on the same object are sorted. None: it is not sorted at all.
    fn object(&self) -> Option<Key>;

    /// Where in the object. Equal ones stay in the order of their arrival.
    fn sort_key(&self) -> u64;
}

/// Why a request was answered without having started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unstarted {
    Cancelled,
    Shutdown,
    Shed,
    /// Only who waited for room.
    Refused(RefusedReason),
}
