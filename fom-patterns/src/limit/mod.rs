//! Limits: how many foms run a phase at once.
//!
//! A phase with the key `limit` waits for a place before its function runs, first come, first served. It keeps the place
//! until the fom leaves the phase, over errors, retries and waits. [`Limits::set`] sets the number of places by name, and
//! changes it while foms run.
//!
//! [Admission](crate::admission) limits how many operations run; a limit is for one phase of them.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll, Waker},
};

use fom_protocol::sync::Mutex;
use fom_runtime::{
    Cx, Runtime,
    extension::{Attachment, Gate, GateError, Listed, Listing, WaitKind},
    observe::PartInfo,
};
use serde::Serialize;

static PLACE: WaitKind = WaitKind::new("a place under a limit");

/// Adds limits to a [`Runtime`].
pub trait LimitsExt {
    /// Returns the limits of this runtime: its resource of this type, or limits of its own.
    fn limits(&self) -> Limits;
}

impl LimitsExt for Runtime {
    fn limits(&self) -> Limits {
        let used: Arc<Used> = self.extension().attachment();
        let (limits, _) = used.0.get_or_init(|| {
            let shared = self.resource::<Limits>();
            let limits = shared.cloned().unwrap_or_default();
            let part: Weak<Table> = Arc::downgrade(&limits.0);
            (limits, self.extension().list(part))
        });
        limits.clone()
    }
}

/// The limits of a runtime, by name. A clone is another handle to the same limits.
///
/// Several runtimes share limits that each of them has as a [resource](fom_runtime::Builder::resource). So a node of a cluster, with
/// a runtime for each slot, has one limit for all of them.
///
/// ```
/// use fom_patterns::prelude::*;
///
/// struct Order {
///     cents: u64,
/// }
///
/// #[fom(operation(Order), transient)]
/// enum Ordering {
///     #[phase(start, limit = "charges", to(Done))]
///     Charge,
///     #[phase(end)]
///     Done,
/// }
///
/// impl OrderingTransitions for Order {
///     async fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         // At most four foms are here at once.
///         println!("charging {}", self.cents);
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// runtime.limits().set("charges", 4);
/// runtime.submit(Order { cents: 100 }).start()?.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Limits(Arc<Table>);

/// The state of one limit, as [`Limits::status`] returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitStatus {
    /// The name of the limit.
    pub name: String,
    /// The number of places, or `None` if it was never set.
    pub places: Option<usize>,
    /// The number of foms that have a place. After a limit was lowered, this can be more than `places`.
    pub running: usize,
    /// The number of foms that wait for a place.
    pub waiting: usize,
}

/// The limits that a runtime uses, and where they are listed. Set with the first use.
#[derive(Default)]
struct Used(OnceLock<(Limits, Listing)>);

impl Attachment for Used {}

/// Limits by name.
#[derive(Default)]
struct Table {
    limits: Mutex<BTreeMap<String, Arc<Limit>>>,
}

impl Listed for Table {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        let part = |of: LimitStatus| {
            let info = PartInfo::new("limit", of.name).queued(of.waiting);
            let info = info.with("running", of.running);
            match of.places {
                Some(places) => info.with("places", places),
                None => info,
            }
        };
        Limits(self).status().into_iter().map(part).collect()
    }
}

impl Table {
    fn limit(&self, name: &str) -> Arc<Limit> {
        let mut limits = self.limits.lock();
        if let Some(limit) = limits.get(name) {
            return Arc::clone(limit);
        }
        let limit = Arc::<Limit>::default();
        limits.insert(name.to_owned(), Arc::clone(&limit));
        limit
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

impl Limits {
    /// Returns limits that no runtime has yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of foms that may be in the phases with this limit at once, from now on. With a lower number, the
    /// foms in the phases go on, and no further fom enters until enough have left. With 0, no fom enters.
    ///
    /// Foms wait in the phases of a limit that was never set.
    pub fn set(&self, name: &str, places: usize) {
        let limit = self.0.limit(name);
        limit.change(|state| state.places = Some(places));
    }

    /// Returns all limits, sorted by name: those that were set, and those that a fom met.
    pub fn status(&self) -> Vec<LimitStatus> {
        let limits = self.0.limits.lock();
        let status = |(name, limit): (&String, &Arc<Limit>)| {
            let state = limit.0.lock();
            LimitStatus {
                name: name.clone(),
                places: state.places,
                running: state.running.len(),
                waiting: state.waiting.len(),
            }
        };
        limits.iter().map(status).collect()
    }
}

/// One limit.
#[derive(Default)]
struct Limit(Mutex<State>);

#[derive(Default)]
struct State {
    places: Option<usize>,
    next_ticket: u64,
    /// The tickets of the foms that have a place.
    running: BTreeSet<u64>,
    /// The tickets of the foms that wait, the oldest first.
    waiting: BTreeMap<u64, Waker>,
}

impl Limit {
    /// Changes the state, and gives free places to the foms that wait. Wakers are called without the lock.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut wakers = Vec::new();
        let mut state = self.0.lock();
        let changed = change(&mut state);
        while state.running.len() < state.places.unwrap_or(0)
            && let Some((ticket, waker)) = state.waiting.pop_first()
        {
            state.running.insert(ticket);
            wakers.push(waker);
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        changed
    }
}

/// The [`Gate`] of a phase with the key `limit`: it opens when the fom has a place.
///
/// If the phase before had a gate of the same limit, the fom keeps its place.
pub struct LimitGate {
    limit: Arc<Limit>,
    ticket: Option<u64>,
}

impl LimitGate {
    /// Returns a gate for the limit with this name, in the runtime of the fom.
    pub fn new<E>(name: &str, cx: &Cx<'_, E>) -> Self {
        Self {
            limit: cx.runtime().limits().0.limit(name),
            ticket: None,
        }
    }

    fn release(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limit.change(|state| {
                state.running.remove(&ticket);
                state.waiting.remove(&ticket);
            });
        }
    }
}

impl fmt::Debug for LimitGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitGate")
            .field("ticket", &self.ticket)
            .finish_non_exhaustive()
    }
}

impl Gate for LimitGate {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        let mine = &mut self.ticket;
        let has_place = self.limit.change(|state| {
            let ticket = *mine.get_or_insert_with(|| {
                state.next_ticket += 1;
                state.next_ticket
            });
            if state.running.contains(&ticket) {
                return true;
            }
            let is_free = state.running.len() < state.places.unwrap_or(0);
            if is_free
                && state
                    .waiting
                    .keys()
                    .next()
                    .is_none_or(|first| *first >= ticket)
            {
                state.waiting.remove(&ticket);
                state.running.insert(ticket);
                return true;
            }
            state.waiting.insert(ticket, cx.waker().clone());
            false
        });
        if has_place {
            return Poll::Ready(Ok(()));
        }
        PLACE.record();
        Poll::Pending
    }

    fn follow(&mut self, before: Box<dyn Gate>) {
        let before: Box<dyn Any> = before;
        if let Ok(mut before) = before.downcast::<Self>()
            && Arc::ptr_eq(&before.limit, &self.limit)
        {
            self.ticket = before.ticket.take();
        }
    }

    fn stop(&mut self) {
        self.release();
    }
}

impl Drop for LimitGate {
    fn drop(&mut self) {
        self.release();
    }
}
