//! Active objects and services of a cluster, addressed by key.
//!
//! Each key has one object in the whole cluster, at the node that owns the slot of the key. Its callers use the proxy of
//! [`active`](mod@fom_patterns::active), from any node. The object is made when its first call comes, its methods run one at a time, and
//! its guards work as in one process.
//!
//! ```
//! use fom_cluster::{Cluster, MemoryEngine, Tcp};
//! use fom_objects::{ObjectCx, ObjectsBuilderExt as _, ObjectsExt as _};
//! use fom_patterns::prelude::*;
//!
//! /// The seats of one show.
//! struct Show {
//!     free: u32,
//! }
//!
//! #[active(remote)]
//! impl Show {
//!     /// Returns how many seats are left.
//!     pub fn take(&mut self, seats: u32) -> Result<u32, String> {
//!         self.free = self.free.checked_sub(seats).ok_or("sold out")?;
//!         Ok(self.free)
//!     }
//!
//!     /// Waits until there is a seat.
//!     #[when(self.free > 0)]
//!     pub fn wait_for_seat(&mut self) -> u32 {
//!         self.free -= 1;
//!         self.free
//!     }
//!
//!     pub fn give_back(&mut self, seats: u32) {
//!         self.free += seats;
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let engine = MemoryEngine::new();
//! let mut nodes = Vec::new();
//! for name in ["a", "b"] {
//!     let builder = Cluster::builder(engine.clone(), name).network(Tcp::bind("127.0.0.1:0")?);
//!     // Makes the object of a key: reads it from a database, for example.
//!     let builder = builder.objects(async |cx: ObjectCx| {
//!         println!("{} is here", cx.key);
//!         Ok::<_, BoxError>(Show { free: 2 }.activation())
//!     });
//!     nodes.push(builder.join().await?);
//! }
//! // Carries the calls of this process.
//! let runtime = Runtime::new()?;
//! let hamlet: ShowProxy = nodes[0].object::<Show>("hamlet").start(&runtime)?;
//! assert_eq!(hamlet.take(2).await?, Ok(0));
//! // From another node, the same object:
//! let same: ShowProxy = nodes[1].object::<Show>("hamlet").start(&runtime)?;
//! assert_eq!(same.take(1).await?, Err("sold out".to_owned()));
//! let waiting = same.wait_for_seat();
//! hamlet.give_back(1).await?;
//! assert_eq!(waiting.await?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//!
//! | what | promise |
//! | --- | --- |
//! | objects with one key | at most one of a type in the cluster: a method begins only under the lease of the node that owns the slot |
//! | a call | runs once on an object, also if its answer is lost and it is repeated |
//! | a call of a lost object | runs again on the next object of the key. Its effects outside of the object can happen twice. |
//! | calls through one proxy | have no order, unless the caller waits for each answer |
//! | a call that ends the process of its object | fails when its caller has seen three processes die |
//! | a call that is cancelled, or whose deadline passes | leaves the list of the object, wherever it is |
//!
//! An object is in memory. When its node dies or its slot moves, the next call makes it anew, as the closure of
//! [`objects`](ObjectsBuilderExt::objects) says. So is an object that had no call for 15 minutes. State that must survive belongs in a
//! database, or in an [operation](fom_cluster::Cluster::submit), which a method can submit.
//!
//! A [service](ObjectsExt::call_service) is called by key, too: its function runs at the owner of the key, with the same promises for a call.
//!
//! # Limits
//!
//! - Each node must serve each type of object, by the same name: the name of the Rust type.
//! - A slot answers at most 1,024 calls at once. Further calls fail with [`Full`](fom_patterns::active::ActiveCallError::Full) and return
//!   their arguments.
//! - A node answers 16,384 requests of another node at once, and further ones wait. Calls that wait for their guards count.
//! - A call and its answer have at most 64 MiB.
//! - As with the phases of an operation, a process that is paused while a method runs can go on with it when the next object exists.
//!
//! # Sources
//!
//! An active object with a distributed scheduler is a variant in POSA2 (Schmidt and others, 2000). Objects that exist by their keys, without being
//! created, are the virtual actors of Orleans (Bernstein and others, 2014).

mod carrier;
mod cx;
mod objects;
mod services;

use std::fmt;

use fom_cluster::{Cluster, ClusterBuilder};
use fom_patterns::{
    active::{Activation, Forwarding, RemoteActive},
    service::{Provider, Service},
};
use fom_runtime::Key;
use serde::{Serialize, de::DeserializeOwned};

use carrier::ToKey;
pub use cx::ObjectCx;
pub use services::{KeyedCallCause, KeyedCallFailure};

/// The methods of a [`ClusterBuilder`] for objects and services.
pub trait ObjectsBuilderExt {
    /// Serves the objects of type `A`, each by its key. Each node of the cluster must serve each type.
    ///
    /// `make` makes the object of a key when a call comes and there is none: after the first call, after its slot has moved, and after the
    /// object has ended. The key of the activation is ignored. If `make` fails, the call fails, and the next call tries again.
    fn objects<A, E, R>(self, make: impl Fn(ObjectCx) -> R + Send + Sync + 'static) -> Self
    where
        A: RemoteActive,
        E: fmt::Display + 'static,
        R: Future<Output = Result<Activation<A>, E>> + Send + 'static;

    /// Serves a service for each key, at the owner of the slot of the key. Each node of the cluster must serve it. `provider` is called
    /// once in each slot, when its first call comes, and the service is registered with the [services](fom_patterns::service) of the
    /// runtime of the slot.
    fn service<A, R>(
        self,
        service: &Service<A, R>,
        provider: impl Fn() -> Provider<A, R> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static;
}

impl ObjectsBuilderExt for ClusterBuilder {
    fn objects<A, E, R>(self, make: impl Fn(ObjectCx) -> R + Send + Sync + 'static) -> Self
    where
        A: RemoteActive,
        E: fmt::Display + 'static,
        R: Future<Output = Result<Activation<A>, E>> + Send + 'static,
    {
        self.runtime(objects::set_up::<A>)
            .answers(A::NAME, objects::answers(make))
    }

    fn service<A, R>(
        self,
        service: &Service<A, R>,
        provider: impl Fn() -> Provider<A, R> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
    {
        let answers = services::answers(service, provider);
        self.answers(services::name_of(service), answers)
    }
}

/// The methods of a [`Cluster`] for objects and services.
pub trait ObjectsExt {
    /// Returns what makes a proxy of the object that has this key. [`start`](Forwarding::start) starts the fom of this process that
    /// carries its calls. This calls nothing.
    ///
    /// A call fails with [`Elsewhere`](fom_patterns::active::ActiveCallError::Elsewhere) if no node owns the slot for a minute, and if
    /// the object cannot be made.
    fn object<A: RemoteActive>(&self, key: impl Into<Key>) -> Forwarding<A>;

    /// Calls a service at the owner of the slot of `key`. Returns its result.
    ///
    /// ```
    /// # use fom_cluster::{Cluster, MemoryEngine};
    /// use fom_objects::{ObjectsBuilderExt as _, ObjectsExt as _};
    /// use fom_patterns::service::{Provider, Service};
    ///
    /// static LENGTH: Service<String, usize> = Service::new("length");
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Cluster::builder(MemoryEngine::new(), "a");
    /// let builder = builder.service(&LENGTH, || Provider::function(|_, text: String| text.len()));
    /// let cluster = builder.join().await?;
    /// assert_eq!(cluster.call_service(&LENGTH, "customer 7", "four".to_owned()).await?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`KeyedCallFailure`], which has the argument if it is known that the function was not entered.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call is cancelled at the owner, as [`Calling::cancel`](fom_patterns::service::Calling::cancel)
    /// does. The function may have run by then.
    fn call_service<A, R>(
        &self,
        service: &Service<A, R>,
        key: impl Into<Key>,
        argument: A,
    ) -> impl Future<Output = Result<R, KeyedCallFailure<A>>> + Send
    where
        A: Serialize + Send + 'static,
        R: DeserializeOwned + Send + 'static;
}

impl ObjectsExt for Cluster {
    fn object<A: RemoteActive>(&self, key: impl Into<Key>) -> Forwarding<A> {
        let key = key.into();
        let name = format!("{} {key}", A::NAME);
        let cluster = self.clone();
        let object = A::NAME;
        Forwarding::new(
            name,
            ToKey {
                cluster,
                object,
                key,
            },
        )
    }

    fn call_service<A, R>(
        &self,
        service: &Service<A, R>,
        key: impl Into<Key>,
        argument: A,
    ) -> impl Future<Output = Result<R, KeyedCallFailure<A>>> + Send
    where
        A: Serialize + Send + 'static,
        R: DeserializeOwned + Send + 'static,
    {
        services::call_at(self.clone(), service.clone(), key.into(), argument)
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
