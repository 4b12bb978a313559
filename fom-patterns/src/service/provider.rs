//! The implementation of a service: its function, the place of its calls, and its start and stop.

use std::{any::type_name, fmt, future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;

use crate::service::DomainState;
use fom_runtime::{
    BlockingCx, Cx, Failure, FomRef, Key, Operation, Runtime, Submission,
    error::BoxError,
    submission::{Ended, Placement},
    time::Sleep,
};

pub(super) type Hook =
    Arc<dyn Fn(CallCx) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

type Plain<A, R> = Box<dyn Fn(&mut Cx<'_>, A) -> R + Send + Sync>;
type Blocking<A, R> = Box<dyn Fn(&BlockingCx<'_>, A) -> R + Send + Sync>;
type Async<A, R> = Box<dyn Fn(CallCx, A) -> BoxFuture<'static, R> + Send + Sync>;

/// The three kinds of functions.
pub(super) enum Function<A, R> {
    Plain(Plain<A, R>),
    Blocking(Blocking<A, R>),
    Async(Async<A, R>),
}

/// The place where calls run.
pub(super) enum Runs<A> {
    In(Placement),
    ByKey(Box<dyn Fn(&A) -> Key + Send + Sync>),
    InStrand,
}

type Accepts<A> = Box<dyn Fn(&A, DomainState) -> bool + Send + Sync>;

/// What the calls of a service share.
pub(super) struct Provided<A, R> {
    pub(super) function: Function<A, R>,
    pub(super) runs: Runs<A>,
    pub(super) accepts: Option<Accepts<A>>,
}

/// What runs when a service is started and stopped.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) start: Option<Hook>,
    pub(super) stop: Option<Hook>,
}

/// The implementation of a service: a function, and how it runs. Each call is a fom: it is listed, it can be cancelled,
/// and its panic ends only the call.
///
/// The functions of a provider must not hold a [`Runtime`] that keeps itself alive. Use the runtime of the context that
/// the function gets.
///
/// ```
/// use fom_patterns::{prelude::*, service::{Provider, Service}};
///
/// static LENGTH: Service<String, usize> = Service::new("length");
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::builder().localities(1).build()?;
/// let services = runtime.services();
/// let _length = services.register(
///     &LENGTH,
///     Provider::function(|_, text: String| text.len())
///         .owner("the readme")
///         .place(Placement::Locality(0)),
/// )?;
/// assert_eq!(services.call(&LENGTH, "four".into()).wait()?, 4);
/// # Ok(())
/// # }
/// ```
pub struct Provider<A, R> {
    pub(super) provided: Provided<A, R>,
    pub(super) hooks: Hooks,
    pub(super) owner: Option<String>,
    pub(super) level: u32,
    pub(super) bootstrap: bool,
}

impl<A, R> fmt::Debug for Provider<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("owner", &self.owner)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl<A: Send + 'static, R: Send + 'static> Provider<A, R> {
    fn new(function: Function<A, R>) -> Self {
        Self {
            provided: Provided {
                function,
                runs: Runs::In(Placement::Here),
                accepts: None,
            },
            hooks: Hooks::default(),
            owner: None,
            level: 0,
            bootstrap: false,
        }
    }

    /// Provides a plain function. It runs in a locality and uses the locality's data without a lock. It must not block.
    pub fn function(function: impl Fn(&mut Cx<'_>, A) -> R + Send + Sync + 'static) -> Self {
        Self::new(Function::Plain(Box::new(function)))
    }

    /// Provides a plain function that blocks. It runs between enter-block and leave-block, and the locality continues
    /// meanwhile.
    pub fn blocking(function: impl Fn(&BlockingCx<'_>, A) -> R + Send + Sync + 'static) -> Self {
        Self::new(Function::Blocking(Box::new(function)))
    }

    /// Provides an async function. A call that is told to end is dropped at its next wait.
    pub fn future<F>(function: impl Fn(CallCx, A) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
    {
        Self::new(Function::Async(Box::new(move |cx, argument| {
            Box::pin(function(cx, argument))
        })))
    }

    /// Provides an operation: `submit` makes the submission from the argument, and `answer` makes the result from the
    /// outcome.
    ///
    /// The operation is a separate fom beside the fom of the call, with its own phases and deadlines. Its home is the
    /// locality of the call, unless the submission says otherwise. A journal, if there is one, keeps it. A call that is
    /// told to end cancels the operation. After a restart the operation continues, but no caller waits for its result.
    ///
    /// ```
    /// use fom_patterns::{prelude::*, service::{Provider, Service}};
    ///
    /// struct Pay { cents: u64 }
    ///
    /// #[fom(operation(Pay), transient)]
    /// enum Payment {
    ///     #[phase(start, sync, to(Paid))]
    ///     Book,
    ///     #[phase(end)]
    ///     Paid { receipt: u64 },
    /// }
    /// # impl PaymentTransitions for Pay {
    /// #     fn book(&mut self, cx: &mut Cx<'_>) -> Result<PaymentAfterBook, BoxError> {
    /// #         Ok(PaymentAfterBook::Paid { receipt: self.cents + cx.id().get() })
    /// #     }
    /// # }
    ///
    /// static PAY: Service<u64, Result<u64, String>> = Service::new("pay");
    ///
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::builder().localities(1).build()?;
    /// let _pay = runtime.services().register(&PAY, Provider::operation(
    ///     |runtime, cents| runtime.submit(Pay { cents }),
    ///     |outcome| match outcome {
    ///         Ok(ended) => {
    ///             let PaymentEnd::Paid { receipt } = ended.end;
    ///             Ok(receipt)
    ///         }
    ///         Err(failure) => Err(failure.to_string()),
    ///     },
    /// ))?;
    /// assert!(runtime.services().call(&PAY, 250).wait()?.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation<O: Operation>(
        submit: impl for<'a> Fn(&'a Runtime, A) -> Submission<'a, O> + Send + Sync + 'static,
        answer: impl Fn(Result<Ended<O>, Failure<O>>) -> R + Send + Sync + 'static,
    ) -> Self {
        let answer = Arc::new(answer);
        Self::new(Function::Async(Box::new(move |cx, argument| {
            let started = submit(&cx.runtime(), argument).start();
            let answer = Arc::clone(&answer);
            Box::pin(async move {
                let outcome = match started {
                    Ok(handle) => {
                        let _cancel = CancelOnDrop(handle.fom().clone());
                        handle.await
                    }
                    Err(refused) => Err(refused.into()),
                };
                answer(outcome)
            })
        })))
    }
}

impl<A, R> Provider<A, R> {
    /// Sets the owner's name for errors and listings. Default: the place in the program that registers the
    /// service.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the locality in which calls run. By default, a call runs in the caller's locality, and calls from outside
    /// go to the localities in turn.
    pub fn place(mut self, placement: Placement) -> Self {
        self.provided.runs = Runs::In(placement);
        self
    }

    /// Runs each call in the locality of its key. Calls of the same key run one after the other, in the order in which
    /// they were made, and each to its end. Different keys never wait for each other.
    /// [`Builder::key_queue`](fom_runtime::Builder::key_queue) limits how many calls wait for one key.
    pub fn key<K: Into<Key>>(mut self, key: impl Fn(&A) -> K + Send + Sync + 'static) -> Self {
        self.provided.runs = Runs::ByKey(Box::new(move |argument| key(argument).into()));
        self
    }

    /// Runs each call in the [strand](crate::service::ServiceCall::strand) of its caller. Calls of one strand
    /// run one after the other, in the order in which they were made, and each to its end. This includes calls of other
    /// services with this setting. A call without a strand runs where it is made.
    pub fn in_strand(mut self) -> Self {
        self.provided.runs = Runs::InStrand;
        self
    }

    /// Sets the function that decides whether to take a call while this service or all services drain. These are the
    /// cells [`Ask`](crate::service::Admits::Ask) of the table at
    /// [`DomainState::admits`](crate::service::DomainState::admits). In other states the function is not called. Without
    /// a function, or if it panics, such a call is refused.
    pub fn accepts(
        mut self,
        accepts: impl Fn(&A, DomainState) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.provided.accepts = Some(Box::new(accepts));
        self
    }

    /// Sets the level. Services of lower levels start first and stop last. Default: 0. In one level, the order is
    /// that of registration.
    pub fn level(mut self, level: u32) -> Self {
        self.level = level;
        self
    }

    /// Takes calls even while the services are in [`DomainState::Init`], in any state of this service. Use it for a
    /// service that other services need to start.
    pub fn bootstrap(mut self) -> Self {
        self.bootstrap = true;
        self
    }

    /// Sets what runs before the service takes calls. The service then waits for
    /// [`Services::start_all`](crate::service::Services::start_all) or
    /// [`Registration::start`](crate::service::Registration::start). If `start` fails or panics, the service is
    /// [`Failed`](crate::service::ServiceState::Failed).
    pub fn on_start<F, E>(mut self, start: impl Fn(CallCx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.hooks.start = Some(hook(start));
        self
    }

    /// Sets what runs after the last call of a started service, when the service is stopped or unregistered. An error
    /// is reported as an [incident](fom_runtime::observe::Operations::incidents).
    pub fn on_stop<F, E>(mut self, stop: impl Fn(CallCx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.hooks.stop = Some(hook(stop));
        self
    }
}

fn hook<F, E>(run: impl Fn(CallCx) -> F + Send + Sync + 'static) -> Hook
where
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Arc::new(move |cx| {
        let ran = run(cx);
        Box::pin(async move { ran.await.map_err(Into::into) })
    })
}

/// Cancels an operation when no call waits for it. Does nothing to an operation that has ended.
struct CancelOnDrop<O: Operation>(FomRef<O>);

impl<O: Operation> Drop for CancelOnDrop<O> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The context of an async function of a service: access to the runtime, to resources and to time.
#[derive(Clone)]
pub struct CallCx {
    runtime: Runtime,
    locality: usize,
}

impl fmt::Debug for CallCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallCx(locality {})", self.locality)
    }
}

impl CallCx {
    pub(super) fn new(runtime: Runtime, locality: usize) -> Self {
        Self { runtime, locality }
    }

    /// Returns the runtime. This handle does not keep the runtime alive.
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Returns the locality in which the call began.
    pub fn locality(&self) -> usize {
        self.locality
    }

    /// Sleeps on the runtime's clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.runtime.sleep(time)
    }

    /// Returns the resource of this type.
    ///
    /// # Panics
    ///
    /// If the runtime was built without this resource. The call then fails with the panic's message.
    pub fn resource<T: Send + Sync + 'static>(&self) -> &T {
        match self.runtime.resource() {
            Some(resource) => resource,
            None => panic!(
                "there is no resource of type `{0}`; give one to `Builder::resource`",
                type_name::<T>()
            ),
        }
    }
}
