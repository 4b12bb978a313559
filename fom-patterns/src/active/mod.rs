//! Active objects: an object that runs in a locality, and proxies with methods that queue requests for the object.
//!
//! [`active`](macro@crate::active) on an `impl` block generates a proxy with the same methods. The object lives in one
//! locality. Its methods run only there, one at a time, so its data needs no lock. A call is a value in a bounded list
//! and costs no thread and no task. A request with a false guard waits in the list and holds nothing.
//!
//! ```
//! use fom_patterns::prelude::*;
//!
//! #[derive(Default)]
//! struct Account {
//!     cents: u64,
//! }
//!
//! #[active]
//! impl Account {
//!     /// Puts money in.
//!     pub fn deposit(&mut self, cents: u64) -> u64 {
//!         self.cents += cents;
//!         self.cents
//!     }
//!
//!     /// Waits its turn until there is enough.
//!     #[when(self.cents >= cents)]
//!     pub fn withdraw(&mut self, cents: u64) -> u64 {
//!         self.cents -= cents;
//!         self.cents
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::new()?;
//! let account = Account::default().activate(&runtime)?;
//! let withdrawn = account.withdraw(300);
//! assert_eq!(account.deposit(500).wait()?, 500);
//! assert_eq!(withdrawn.wait()?, 200);
//! # Ok(())
//! # }
//! ```
//!
//! The pattern is Lavender's and Schmidt's *Active Object* (1996): proxy, method request with a guard, activation list,
//! scheduler, servant, future.

mod activation;
mod call;
mod error;
mod forward;
mod list;
mod object_handle;
mod pool;
mod remote;
mod request;
mod servant;
mod set;
mod shared;
mod slot;
mod water_marks;

use std::{fmt, sync::Arc};

pub use activation::Activation;
pub use call::{Call, Canceller};
pub use error::{ActiveCallError, Arguments, NotActivated};
#[doc(no_inline)]
pub use fom_runtime::submission::Priority;
pub use forward::Forwarding;
pub use object_handle::is_cancelled;
pub use pool::Pool;
pub use remote::{Answering, Carrier, Carrying, NotCarried, RemoteActive, answer, failure};
pub use set::CallSet;
pub use water_marks::{Pressure, WhenFull};

#[doc(hidden)]
pub use remote::{Codec, Refusal, Remote, no_method};
#[doc(hidden)]
pub use request::{Always, Guard, Method, Running, When};

use fom_runtime::{FomId, Runtime};

use object_handle::ObjectHandle;
use request::{Async, Body, Sync as Plain, Task};
use shared::Shared;
use slot::{Answer, Slot};

/// A type that can be an active object. [`active`](macro@crate::active) implements this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an active object: it has no proxy",
    label = "no `#[active] impl {Self}`",
    note = "put `#[active]` on the `impl` block with the methods to call"
)]
pub trait Active: Sized + Send + 'static {
    /// The generated proxy, through which callers call the methods.
    type Proxy: From<Proxy<Self>> + Clone + Send + std::marker::Sync + 'static;

    /// The type name that listings show.
    #[doc(hidden)]
    const NAME: &'static str;

    /// Makes the object an active object of `runtime`, with a list of 1,024 requests.
    ///
    /// The object ends after its last proxy is dropped and the requests queued by then have run; see [`Proxy`].
    ///
    /// # Errors
    ///
    /// Fails with [`NotActivated`], which holds the object.
    fn activate(self, runtime: &Runtime) -> Result<Self::Proxy, NotActivated<Self>> {
        self.activation().start(runtime)
    }

    /// Returns an [`Activation`], which sets options before the object starts.
    ///
    /// ```
    /// use fom_patterns::prelude::*;
    ///
    /// struct Counter(u64);
    ///
    /// #[active]
    /// impl Counter {
    ///     pub fn next(&mut self) -> u64 {
    ///         self.0 += 1;
    ///         self.0
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().localities(2).build()?;
    /// let counter = Counter(6)
    ///     .activation()
    ///     .capacity(64)
    ///     .place(Placement::Locality(1))
    ///     .start(&runtime)?;
    /// assert_eq!(counter.next().wait()?, 7);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn activation(self) -> Activation<Self> {
        Activation::new(self)
    }
}

/// The part that every generated proxy wraps. Cheap to clone.
///
/// The object lives as long as any proxy of it. After the last proxy is dropped, the queued requests still run. The
/// requests that remain then, because their guards are false, fail with [`ActiveCallError::Ended`]: no caller is left
/// that could make the guards true. An object that keeps a proxy of itself therefore lives until the runtime ends.
pub struct Proxy<A: Active> {
    held: Arc<Held<A>>,
    object: ObjectRef,
}

/// Shared by all proxies of an object. Its drop marks the object as orphaned.
struct Held<A: Active>(Arc<Shared<A>>);

impl<A: Active> Drop for Held<A> {
    fn drop(&mut self) {
        self.0.orphan();
    }
}

impl<A: Active> Clone for Proxy<A> {
    fn clone(&self) -> Self {
        Self {
            held: Arc::clone(&self.held),
            object: self.object.clone(),
        }
    }
}

impl<A: Active> fmt::Debug for Proxy<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.object, f)
    }
}

impl<A: Active> std::ops::Deref for Proxy<A> {
    type Target = ObjectRef;

    fn deref(&self) -> &ObjectRef {
        &self.object
    }
}

/// A view of an active object. Every proxy derefs to an `ObjectRef`. An `ObjectRef` does not keep the object alive.
#[derive(Clone)]
pub struct ObjectRef(Arc<dyn ObjectHandle>);

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, id, queued) = (self.0.name(), self.id(), self.queued());
        write!(f, "{name} {id}, {queued} queued")
    }
}

impl ObjectRef {
    /// Returns the id of the object's fom, as listings show it.
    pub fn id(&self) -> FomId {
        self.0.id()
    }

    /// Returns the index of the object's locality.
    pub fn locality(&self) -> usize {
        self.0.locality()
    }

    /// Returns the number of requests that wait for their turn now.
    pub fn queued(&self) -> usize {
        self.0.queued()
    }

    /// Counts the waiting requests and the running request.
    fn load(&self) -> usize {
        self.0.load()
    }

    /// Returns whether a method or a guard runs now.
    pub fn is_busy(&self) -> bool {
        self.0.is_busy()
    }

    /// Returns how full the object's list is, by its [marks](Activation::marks). Without marks, returns
    /// [`Pressure::Low`].
    pub fn pressure(&self) -> Pressure {
        self.0.pressure()
    }

    /// Returns whether the object has ended. Calls to an ended object fail with [`ActiveCallError::Ended`].
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

impl<A: Active> Proxy<A> {
    fn new(shared: Arc<Shared<A>>) -> Self {
        Self {
            object: ObjectRef(Arc::clone(&shared) as _),
            held: Arc::new(Held(shared)),
        }
    }

    fn shared(&self) -> &Arc<Shared<A>> {
        &self.held.0
    }

    /// Queues a call of a plain method.
    #[doc(hidden)]
    pub fn call<Args, W, C, B, T>(&self, method: Method<W, C>, args: Args, body: B) -> Call<T>
    where
        Args: Send + 'static,
        W: Guard<A, Args>,
        C: Codec<Args, T>,
        B: FnOnce(&mut A, Args) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue(method, args, Plain(body))
    }

    /// Queues a call of an async method.
    #[doc(hidden)]
    pub fn call_async<Args, W, C, B, T>(&self, method: Method<W, C>, args: Args, body: B) -> Call<T>
    where
        Args: Send + 'static,
        W: Guard<A, Args>,
        C: Codec<Args, T>,
        B: for<'a> FnOnce(&'a mut A, Args) -> Running<'a, T> + Send + 'static,
        T: Send + 'static,
    {
        let handle: Arc<dyn ObjectHandle> = Arc::clone(self.shared()) as _;
        self.queue(method, args, Async { body, handle })
    }

    fn queue<Args, W, C, B, T>(&self, method: Method<W, C>, args: Args, body: B) -> Call<T>
    where
        Args: Send + 'static,
        W: Guard<A, Args>,
        C: Codec<Args, T>,
        B: Body<A, Args, T> + 'static,
        T: Send + 'static,
    {
        let slot = Arc::new(Slot::new(Arc::clone(self.shared()) as Arc<dyn ObjectHandle>));
        let priority = method.priority as u8;
        let request = Box::new(Task {
            method,
            args,
            body,
            answer: Answer::new(Arc::clone(&slot)),
        });
        let place = self.shared().push(priority, request);
        Call::new(slot, place)
    }
}
