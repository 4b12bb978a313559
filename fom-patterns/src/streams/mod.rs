//! Streams of requests, in order for each key. A request runs in the locality that its key belongs to.
//!
//! | file | content |
//! | --- | --- |
//! | `options.rs` | the bounds of a stream, and how keys take turns |
//! | `error.rs` | why a request was not taken in |
//! | `inlet.rs` | how requests enter a locality |
//! | `keys.rs` | the state of the keys there |
//! | `home.rs` | how requests become foms, in the turns of the stream's part of a locality |
//! | `producer.rs` | the batches of one submitter |
//! | `barrier.rs` | barriers over all keys |
//! | `rules.rs` | what the requests of one key may do together |
//! | `listed.rs` | the stream among the parts of its runtime |
//! | `progress.rs` | which requests of a numbered source have ended |

mod barrier;
mod error;
mod home;
mod inlet;
mod keys;
mod listed;
mod options;
mod producer;
mod progress;
mod rules;

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, Hash},
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, Weak},
};

use barrier::Barriers;
pub use error::{PushError, PushReason};
use foldhash::fast::RandomState;
use fom_protocol::{panic_message, sync::Mutex};
use fom_runtime::{
    Operation, Runtime,
    context::Local,
    extension::{Listing, block_on},
    observe::IncidentKind,
};
use home::StreamPart;
use inlet::{Inlet, Item};
pub use options::StreamOptions;
pub use producer::Producer;
pub use progress::Progress;
pub use rules::StreamRules;

/// A type that can be a key of a stream: every type that can be compared, hashed, cloned and sent.
/// [`Key`](fom_runtime::Key) is one. A plain number or a custom type costs less.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of a stream",
    label = "this is no key",
    note = "a key can be compared, hashed, cloned and sent: `#[derive(Clone, PartialEq, Eq, Hash)]`"
)]
pub trait StreamKey: Hash + Eq + Clone + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> StreamKey for K {}

/// What all handles and localities of a stream share.
struct Common<O: Operation, K> {
    runtime: Runtime,
    options: StreamOptions,
    rules: StreamRules<O>,
    hasher: RandomState,
    /// The barriers that are not open.
    barriers: Mutex<Barriers>,
    inlets: Box<[Inlet<O, K>]>,
    /// Set when the stream is made.
    listing: OnceLock<Listing>,
}

/// A handle that may push. After the drop of the last handle, the stream ends as soon as it is empty.
struct Handle<O: Operation, K: StreamKey>(Arc<Last<O, K>>);

struct Last<O: Operation, K: StreamKey>(Arc<Common<O, K>>);

impl<O: Operation, K: StreamKey> Clone for Handle<O, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Operation, K: StreamKey> Deref for Handle<O, K> {
    type Target = Arc<Common<O, K>>;

    #[inline]
    fn deref(&self) -> &Arc<Common<O, K>> {
        &self.0.0
    }
}

impl<O: Operation, K: StreamKey> Drop for Last<O, K> {
    fn drop(&mut self) {
        for index in 0..self.0.inlets.len() {
            let common = Arc::clone(&self.0);
            // A locality that has ended has dropped its part.
            let _ = (self.0.runtime).post(index, move |local| common.retire(local));
        }
    }
}

/// A stream of requests into a runtime, in order for each key. A clone is another handle to the same stream.
///
/// The requests of a key run one after the other, in the order of the pushes, in the locality that
/// the key belongs to. Requests of different keys run independently. A request that waits holds up its own key and no
/// other. It may wait for an event, an answer, a timer, a retry, a blocking section, or anything else that its future
/// awaits. Keys are compared as a whole, so two keys with equal hashes share nothing. A key with nothing in
/// flight takes no memory.
///
/// A request becomes a fom when its turn comes, with everything that a fom has. It is listed while it waits, a panic
/// ends only that request, and its failure is counted ([`Operations`](fom_runtime::observe::Operations)). It has no
/// handle; if a caller waits for an answer, the operation itself sends it. Use
/// [`Submission::key`](fom_runtime::Submission::key) if you need handles, priorities, or foms that can be found by key.
/// The keys of a stream are separate, and find no fom.
///
/// Keys take turns: a key that has used its [quantum](StreamOptions::quantum) of requests waits while other keys are
/// ready. The stream takes turns with the other foms of the locality.
///
/// In a runtime with a journal, a request is committed when it becomes a fom. Requests that still queue at a crash are
/// lost, as if they had not been pushed.
///
/// A [`Shutdown::Drain`](fom_runtime::config::Shutdown::Drain) runs all requests that were taken in. After a
/// [`Shutdown::Now`](fom_runtime::config::Shutdown::Now), or once the drain's time is over, queued requests never run;
/// [`take_refused`](Self::take_refused) returns them.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use fom_patterns::{prelude::*, streams::{KeyedStream, StreamOptions}};
///
/// static BALANCE: AtomicU64 = AtomicU64::new(0);
///
/// struct Deposit { cents: u64 }
///
/// #[fom(operation(Deposit), transient)]
/// enum Depositing {
///     #[phase(start, sync, to(Done))]
///     Book,
///     #[phase(end)]
///     Done,
/// }
///
/// impl DepositingTransitions for Deposit {
///     fn book(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         BALANCE.fetch_add(self.cents, Ordering::Relaxed);
///         Ok(())
///     }
/// }
///
/// let runtime = Runtime::builder().localities(1).build()?;
/// let deposits = KeyedStream::new(&runtime, StreamOptions::default());
/// for account in 0..100_u64 {
///     deposits.push(account, Deposit { cents: 5 })?;
/// }
/// runtime.shutdown_blocking(Shutdown::Drain, std::time::Duration::from_secs(5));
/// assert_eq!(BALANCE.load(Ordering::Relaxed), 500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedStream<O: Operation, K: StreamKey>(Handle<O, K>);

impl<O: Operation, K: StreamKey> Clone for KeyedStream<O, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: Operation, K: StreamKey> fmt::Debug for KeyedStream<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedStream")
            .field("operation", &O::GRAPH.operation())
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl<O: Operation, K: StreamKey> KeyedStream<O, K> {
    /// Creates a stream of requests with keys. The stream ends when its last handle is dropped and all its requests
    /// have ended.
    pub fn new(runtime: &Runtime, options: StreamOptions) -> Self {
        Self::with_rules(runtime, options, StreamRules::default())
    }

    /// Creates a stream with [rules](StreamRules) for requests of one key, for example to run some of them together.
    pub fn with_rules(runtime: &Runtime, options: StreamOptions, rules: StreamRules<O>) -> Self {
        let common = Arc::new(Common {
            runtime: runtime.detached(),
            options,
            rules,
            barriers: Mutex::default(),
            hasher: RandomState::default(),
            inlets: (0..runtime.localities())
                .map(|index| Inlet::new(runtime, index))
                .collect(),
            listing: OnceLock::new(),
        });
        let part: Weak<Common<O, K>> = Arc::downgrade(&common);
        // It is set once.
        let _ = common.listing.set(runtime.extension().list(part));
        Self(Handle(Arc::new(Last(common))))
    }

    /// Takes in a request, which then runs without any further call.
    ///
    /// Any thread may push. If one push happens before another with the same key, its request runs first.
    ///
    /// # Errors
    ///
    /// Returns a [`PushError`] with the key and the operation if there is no room, or if the runtime shuts down.
    pub fn push(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.0.hash(&key);
        self.0.push_one(Item {
            hash,
            key,
            operation,
        })
    }

    /// Takes in a request as [`push`](Self::push) does, and waits while there is no room, without blocking a thread.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, the request is dropped with it.
    pub async fn push_waiting(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.0.hash(&key);
        let mut item = Item {
            hash,
            key,
            operation,
        };
        loop {
            match self.0.push_one(item) {
                Err(error) if error.reason() != PushReason::ShuttingDown => {
                    item = error.into_item()
                }
                done => return done,
            }
            self.0.room(&item).await;
        }
    }

    /// Takes in a request as [`push`](Self::push) does, and blocks the thread while there is no room. In a phase
    /// function, the call is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`](fom_runtime::Handle::wait).
    pub fn push_blocking(&self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        block_on(self.push_waiting(key, operation))
    }

    /// Creates a producer for one submitter that pushes many requests.
    pub fn producer(&self) -> Producer<O, K> {
        Producer::new(self.0.clone())
    }

    /// Returns the number of requests that were taken in and have not ended. An ended request counts until its locality
    /// gives the stream its next turn: await [`Runtime::quiet`] for an exact number.
    pub fn in_flight(&self) -> usize {
        let inlets = self.0.inlets.iter();
        inlets.map(|inlet| inlet.lock().in_flight()).sum()
    }

    /// Returns the requests that were taken in but never ran because the runtime shut down. Each is returned once. The
    /// requests of a key keep their order.
    pub fn take_refused(&self) -> Vec<(K, O)> {
        let inlets = self.0.inlets.iter();
        inlets
            .flat_map(|inlet| std::mem::take(&mut inlet.lock().refused))
            .collect()
    }
}

impl<O: Operation, K: StreamKey> Common<O, K> {
    #[inline]
    fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the locality that a key belongs to.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.inlets.len() as u128) >> 64) as usize
    }

    fn push_one(self: &Arc<Self>, item: Item<O, K>) -> Result<(), PushError<O, K>> {
        let index = self.home(item.hash);
        if self.inlets[index].is_choosy() && self.is_full(index, &item) {
            return Err(PushError::new(PushReason::KeyFull, item));
        }
        let mut item = Some(item);
        let put = |arrived: &mut VecDeque<_>| arrived.extend(item.take());
        self.hand_over(index, 1, false, put).map_err(|reason| {
            let item = item.take().expect("it was not taken in");
            PushError::new(reason, item)
        })
    }

    #[cold]
    fn is_full(&self, index: usize, item: &Item<O, K>) -> bool {
        let full = self.inlets[index].full_keys();
        full.iter()
            .any(|(hash, key)| *hash == item.hash && *key == item.key)
    }

    /// Puts all requests into an inlet, or none. With `anyway`, puts them in even if there is no room.
    #[inline]
    fn hand_over(
        self: &Arc<Self>,
        index: usize,
        requests: usize,
        anyway: bool,
        put: impl FnOnce(&mut VecDeque<Item<O, K>>),
    ) -> Result<(), PushReason> {
        let inlet = &self.inlets[index];
        let Some(pieces) = inlet.work.enter(requests) else {
            return Err(PushReason::ShuttingDown);
        };
        let mut state = inlet.lock();
        let reason = if state.closed {
            Some(PushReason::ShuttingDown)
        } else if !anyway && state.in_flight() >= self.options.bound {
            Some(PushReason::Full)
        } else {
            None
        };
        if let Some(reason) = reason {
            drop(state);
            inlet.work.leave(pieces);
            return Err(reason);
        }
        state.put(pieces, put);
        let signal = state.must_signal();
        if signal {
            inlet.set_resting(false);
        }
        drop(state);
        if signal {
            let common = Arc::clone(self);
            // A locality with counted work has not ended.
            let _ = self.runtime.post(index, move |local| common.signal(local));
        }
        Ok(())
    }

    /// Gives the part in this locality a turn, because the inlet is no longer empty.
    fn signal(self: Arc<Self>, local: &mut Local<'_>) {
        let index = local.index();
        let part = match self.inlets[index].part.get() {
            Some(part) => *part,
            None => {
                let part = local.add_part(StreamPart::new(Arc::clone(&self), index));
                *self.inlets[index].part.get_or_init(|| part)
            }
        };
        local.wake_part(part);
    }

    /// Tells the part in this locality that no handle pushes any more.
    fn retire(&self, local: &mut Local<'_>) {
        if let Some(id) = self.inlets[local.index()].part.get()
            && let Some(part) = local.part(*id)
        {
            part.retired = true;
            local.wake_part(*id);
        }
    }

    /// Notifies the callers that wait for room. Their wakers are user code, and may panic.
    fn tell_room(&self, index: usize) {
        self.fenced("a waiter for room of a stream in", index, || {
            self.inlets[index].room.notify_waiters();
        });
    }

    #[inline(always)]
    fn fenced(&self, what: &str, index: usize, f: impl FnOnce()) {
        fenced(&self.runtime, what, index, f);
    }

    /// Waits until this request may be taken in, or until the runtime shuts down.
    async fn room(&self, item: &Item<O, K>) {
        let index = self.home(item.hash);
        let inlet = &self.inlets[index];
        loop {
            let mut told = std::pin::pin!(inlet.room.notified());
            told.as_mut().enable();
            let full = {
                let mut state = inlet.lock();
                let full = !state.closed && state.in_flight() >= self.options.bound;
                state.awaited = true;
                full
            };
            // The locality notifies after it has changed what is checked here.
            if !self.runtime.extension().is_accepting() || !full && !self.is_full(index, item) {
                return;
            }
            told.await;
        }
    }
}

/// Calls user code in a locality that belongs to no fom. A panic in that code is reported, and the stream goes on.
#[inline(always)]
fn fenced(runtime: &Runtime, what: &str, index: usize, f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        report(runtime, what, index, panic);
    }
}

#[cold]
#[inline(never)]
fn report(runtime: &Runtime, what: &str, index: usize, panic: Box<dyn Any + Send>) {
    let message = panic_message(panic);
    runtime.report(
        IncidentKind::Panicked,
        format!("locality {index}"),
        format!("{what} locality {index} panicked: {message}"),
    );
}
