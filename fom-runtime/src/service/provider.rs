//! What stands behind a service: its function, where its calls run, and what it does when it is started and stopped.

use std::{any::type_name, fmt, future::Future, pin::Pin, time::Duration};

use crate::{
    BlockingCx, Cx, Sleep,
    error::{BoxError, Cause, Failure},
    id::Key,
    locality::Home,
    operation::Operation,
    runtime::{Ended, FomRef, Placement, Runtime, Submission},
    service::DomainState,
};

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(super) type Hook = Box<dyn Fn(CallCx) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

type Plain<A, R> = Box<dyn Fn(&mut Cx<'_>, A) -> R + Send + Sync>;
type Blocking<A, R> = Box<dyn Fn(&BlockingCx<'_>, A) -> R + Send + Sync>;
type Async<A, R> = Box<dyn Fn(CallCx, A) -> BoxFuture<R> + Send + Sync>;

/// The three kinds of functions.
pub(super) enum Function<A, R> {
    Plain(Plain<A, R>),
    Blocking(Blocking<A, R>),
    Async(Async<A, R>),
}

/// Where calls run.
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

/// What a service does when it is started and stopped.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) start: Option<Hook>,
    pub(super) stop: Option<Hook>,
}

/// What stands behind a service: a function, and how it is run. Each call is a fom, which is listed, can be cancelled, and whose
/// panic ends nothing but the call.
///
/// What is registered must not hold a [`Runtime`] that keeps itself alive: take the one of the context that the function is
/// given.
///
/// ```
/// use fom_runtime::{prelude::*, service::{Provider, Service}};
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

    /// A plain function. It runs in a locality, whose data it reaches without a lock, and must not block.
    pub fn function(function: impl Fn(&mut Cx<'_>, A) -> R + Send + Sync + 'static) -> Self {
        Self::new(Function::Plain(Box::new(function)))
    }

    /// A plain function that blocks: it runs between enter-block and leave-block, and the locality goes on meanwhile.
    pub fn blocking(function: impl Fn(&BlockingCx<'_>, A) -> R + Send + Sync + 'static) -> Self {
        Self::new(Function::Blocking(Box::new(function)))
    }

    /// An async function. A call that is told to end is dropped at its next wait.
    pub fn future<F>(function: impl Fn(CallCx, A) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
    {
        Self::new(Function::Async(Box::new(move |cx, argument| {
            Box::pin(function(cx, argument))
        })))
    }

    /// An operation: `submit` makes its submission of the argument, and `answer` the result of its outcome. It is a fom beside
    /// that of the call, at home in the same locality unless its submission says otherwise, with its phases and deadlines, and is
    /// kept if there is a journal; a call that is told to end cancels it. After a restart it goes on, but nobody waits for its
    /// result any more.
    ///
    /// ```
    /// use fom_runtime::{prelude::*, service::{Provider, Service}};
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
    ///         Ok(Ended { phase: Payment::Paid { receipt }, .. }) => Ok(receipt),
    ///         Ok(_) => unreachable!("it has one end"),
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
        let answer = std::sync::Arc::new(answer);
        Self::new(Function::Async(Box::new(move |cx, argument| {
            let started = submit(&cx.runtime(), argument).start();
            let answer = std::sync::Arc::clone(&answer);
            Box::pin(async move {
                let outcome = match started {
                    Ok(handle) => {
                        let _cancel = CancelOnDrop(handle.fom().clone());
                        handle.await
                    }
                    Err(refused) => {
                        let cause = Cause::Refused(refused.reason());
                        let start = O::GRAPH.phases()[O::index(O::kind(&O::start()))].name();
                        Err(Failure::new(cause, start, Some(refused.into_operation())))
                    }
                };
                answer(outcome)
            })
        })))
    }
}

impl<A, R> Provider<A, R> {
    /// Who provides it, as errors and listings name it. By default the place in the program that registers it.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// In which locality its calls run. By default where they are made, and in one after the other if that is outside.
    pub fn place(mut self, placement: Placement) -> Self {
        self.provided.runs = Runs::In(placement);
        self
    }

    /// In one locality for each key: calls of the same key run one after the other, in the order in which they were made, and each to
    /// its end; different keys never wait for each other. As many wait for one key as [may](crate::Builder::key_queue).
    pub fn key<K: Into<Key>>(mut self, key: impl Fn(&A) -> K + Send + Sync + 'static) -> Self {
        self.provided.runs = Runs::ByKey(Box::new(move |argument| key(argument).into()));
        self
    }

    /// In the [strand](crate::service::Call::strand) of the caller: calls that are made in one strand, of this service and of others
    /// that say so, run one after the other, in the order in which they were made, and each to its end. A call without a strand runs
    /// where it is made.
    pub fn in_strand(mut self) -> Self {
        self.provided.runs = Runs::InStrand;
        self
    }

    /// Whether to take a call while this service, or all of them, are draining (the cells [`Ask`](crate::service::Admission::Ask) of
    /// the table). It is asked in no other state. Without it, and when it panics, such a call is refused.
    pub fn accepts(
        mut self,
        accepts: impl Fn(&A, DomainState) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.provided.accepts = Some(Box::new(accepts));
        self
    }

    /// When it is started and stopped: services of lower levels are started first and stopped last. 0 by default. In one level,
    /// it goes by the order of registration.
    pub fn level(mut self, level: u32) -> Self {
        self.level = level;
        self
    }

    /// Takes calls already while the services are in [`DomainState::Init`], in whatever state it is itself: for what others need
    /// for their start.
    pub fn bootstrap(mut self) -> Self {
        self.bootstrap = true;
        self
    }

    /// What has to be done before it can be called. Such a service waits for
    /// [`Services::start_all`](crate::service::Services::start_all) or
    /// [`Registration::start`](crate::service::Registration::start); when this fails or panics it is
    /// [`Failed`](crate::service::ServiceState::Failed).
    pub fn on_start<F, E>(mut self, start: impl Fn(CallCx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.hooks.start = Some(Box::new(move |cx| {
            let started = start(cx);
            Box::pin(async move { started.await.map_err(Into::into) })
        }));
        self
    }

    /// What has to be done after its last call, when it was started: when it is stopped or unregistered. An error of it is told as
    /// an [incident](crate::Operations::incidents).
    pub fn on_stop<F, E>(mut self, stop: impl Fn(CallCx) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.hooks.stop = Some(Box::new(move |cx| {
            let stopped = stop(cx);
            Box::pin(async move { stopped.await.map_err(Into::into) })
        }));
        self
    }
}

/// Tells an operation to end when nobody waits for it any more. Nothing to one that has ended.
struct CancelOnDrop<O: Operation>(FomRef<O>);

impl<O: Operation> Drop for CancelOnDrop<O> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What an async function of a service is given: its way to the runtime, to resources and to time.
#[derive(Clone)]
pub struct CallCx {
    home: Home,
}

impl fmt::Debug for CallCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallCx(locality {})", self.home.index)
    }
}

impl CallCx {
    pub(super) fn new(home: Home) -> Self {
        Self { home }
    }

    /// The runtime. This handle does not keep it alive.
    pub fn runtime(&self) -> Runtime {
        Runtime::of(self.home.world())
    }

    /// The locality that the call began in.
    pub fn locality(&self) -> usize {
        self.home.index
    }

    /// Sleeps on the runtime's clock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(self.home.clone(), time)
    }

    /// The resource of this type.
    ///
    /// # Panics
    ///
    /// When the runtime was built without it; the call then fails with that message.
    pub fn resource<T: Send + Sync + 'static>(&self) -> &T {
        match self.home.world().resources.get() {
            Some((resource, _)) => resource,
            None => panic!(
                "there is no resource of type `{0}`; give one to `Builder::resource`",
                type_name::<T>()
            ),
        }
    }
}
