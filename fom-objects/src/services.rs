//! Services at the owner of a key.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use fom_cluster::{Answers, Asked, Cluster, ClusterError};
use fom_patterns::service::{Calling, Provider, Registration, Service, ServicesExt as _};
use fom_runtime::{Key, Runtime, extension::Attachment};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A call of a service at the owner of a key has no result.
#[non_exhaustive]
pub struct KeyedCallFailure<A> {
    /// Why there is no result.
    pub cause: KeyedCallCause,
    /// The name of the service.
    pub service: String,
    /// The argument, if it is known that the function was not entered.
    pub argument: Option<A>,
}

/// Why a call of a service at the owner of a key has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyedCallCause {
    /// No node has answered, or the nodes do not serve the service.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The call has failed at the owner, for this reason.
    #[error("{0}")]
    Service(String),
    /// The argument or the result cannot be sent.
    #[error("the argument or the result cannot be sent: {0}")]
    Unreadable(String),
}

impl<A> fmt::Debug for KeyedCallFailure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCallFailure")
            .field("cause", &self.cause)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl<A> fmt::Display for KeyedCallFailure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}` failed: {}", self.service, self.cause)
    }
}

impl<A> std::error::Error for KeyedCallFailure<A> {}

/// The answer of an owner.
#[derive(Serialize, Deserialize)]
enum Answer<R> {
    Result(R),
    /// The call has failed. The flag says whether the function was entered.
    Failed(String, bool),
}

/// Returns the name of the calls of a service. An object can have the name of a service.
pub(crate) fn name_of<A, R>(service: &Service<A, R>) -> String {
    format!("service {}", service.name())
}

/// The services that a slot has registered.
#[derive(Default)]
struct Registered(Mutex<HashMap<String, Registration>>);

impl Attachment for Registered {}

/// Registers the service in the runtime of a slot, if it is not there.
fn register<A, R>(runtime: &Runtime, service: &Service<A, R>, provider: &dyn Fn() -> Provider<A, R>)
where
    A: Send + 'static,
    R: Send + 'static,
{
    let registered: Arc<Registered> = runtime.extension().attachment();
    let locked = || registered.0.lock().unwrap_or_else(PoisonError::into_inner);
    if locked().contains_key(service.name()) {
        return;
    }
    // Outside of the lock, as it runs user code. If there is one already, the call reaches that one.
    if let Ok(registration) = runtime.services().register(service, provider()) {
        let before = locked().insert(service.name().to_owned(), registration);
        drop(before);
    }
}

/// Returns what answers the calls of a service.
pub(crate) fn answers<A, R>(
    service: &Service<A, R>,
    provider: impl Fn() -> Provider<A, R> + Send + Sync + 'static,
) -> impl Answers
where
    A: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
{
    let (service, provider) = (service.clone(), Arc::new(provider));
    move |asked: Asked| {
        let (service, provider) = (service.clone(), Arc::clone(&provider));
        async move {
            let answer = match rmp_serde::from_slice::<A>(&asked.body) {
                Ok(argument) => {
                    register(&asked.runtime, &service, &*provider);
                    call(&asked.runtime, &service, argument).await
                }
                Err(error) => Answer::Failed(format!("the argument is unreadable: {error}"), false),
            };
            rmp_serde::to_vec_named(&answer).unwrap_or_else(|error| {
                let failed: Answer<()> = Answer::Failed(error.to_string(), true);
                // Text can be encoded.
                rmp_serde::to_vec_named(&failed).unwrap_or_default()
            })
        }
    }
}

async fn call<A, R>(runtime: &Runtime, service: &Service<A, R>, argument: A) -> Answer<R>
where
    A: Send + 'static,
    R: Send + 'static,
{
    let called = match runtime.services().call(service, argument).start() {
        Ok(calling) => Called(calling).await,
        Err(failure) => Err(failure),
    };
    match called {
        Ok(result) => Answer::Result(result),
        Err(failure) => Answer::Failed(failure.cause.to_string(), failure.argument.is_none()),
    }
}

/// A call that is cancelled if it is dropped.
struct Called<A: Send + 'static, R: Send + 'static>(Calling<A, R>);

impl<A: Send + 'static, R: Send + 'static> Future for Called<A, R> {
    type Output = <Calling<A, R> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<A: Send + 'static, R: Send + 'static> Drop for Called<A, R> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Calls a service at the owner of a key.
pub(crate) async fn call_at<A, R>(
    cluster: Cluster,
    service: Service<A, R>,
    key: Key,
    argument: A,
) -> Result<R, KeyedCallFailure<A>>
where
    A: Serialize + Send + 'static,
    R: DeserializeOwned + Send + 'static,
{
    let failure = |cause, argument| KeyedCallFailure {
        cause,
        service: service.name().to_owned(),
        argument,
    };
    let unreadable = |why: &dyn fmt::Display| KeyedCallCause::Unreadable(why.to_string());
    let body = match rmp_serde::to_vec_named(&argument) {
        Ok(body) => body,
        Err(error) => return Err(failure(unreadable(&error), Some(argument))),
    };
    let answer = match cluster.call(&name_of(&service), key, body).await {
        Ok(answer) => answer,
        Err(error) => {
            let argument = Some(argument).filter(|_| matches!(error, ClusterError::Busy));
            return Err(failure(error.into(), argument));
        }
    };
    match rmp_serde::from_slice(&answer) {
        Ok(Answer::Result(result)) => Ok(result),
        Ok(Answer::Failed(why, entered)) => {
            let argument = Some(argument).filter(|_| !entered);
            Err(failure(KeyedCallCause::Service(why), argument))
        }
        Err(error) => Err(failure(unreadable(&error), None)),
    }
}
