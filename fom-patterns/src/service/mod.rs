//! Named services: registration, calls and unregistration with checked types, and their life cycle.
//!
//! A [`Service`] is a name with the types of a function. Its owner [registers](Services::register) a [`Provider`] for
//! it and holds the [`Registration`]. Code that knows the name [calls](Services::call) the service: with `await`, by
//! blocking a plain thread, with a callback, or without an answer. Each call is a fom.
//!
//! ```
//! use fom_patterns::{prelude::*, service::{Provider, Running, Service}};
//!
//! static ECHO: Service<String, usize> = Service::new("echo");
//!
//! # fn main() -> Result<(), BoxError> {
//! # futures::executor::block_on(async {
//! let runtime = Runtime::builder().localities(2).build()?;
//! let services = runtime.services();
//! let echo = services.register(&ECHO, Provider::function(|_, text: String| text.len()))?;
//!
//! assert_eq!(services.call(&ECHO, "four".into()).await?, 4);
//! println!("{}", services.status());
//!
//! echo.unregister(Running::Finish).await;
//! let refused = services.call(&ECHO, "four".into()).await.unwrap_err();
//! assert_eq!(refused.argument.as_deref(), Some("four"));
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The model is the request handler of Motr (its states, and its [table](DomainState::admits) of admissions), and
//! schedulers of named services.

mod awaited;
mod call;
mod call_fom;
mod call_state;
mod callback;
mod entry;
mod error;
mod events;
mod key;
mod lifecycle;
mod provider;
mod registration;
mod registry;
mod state;
mod status;

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Weak},
};

pub use call::{Calling, ServiceCall};
pub use error::{
    CallCause, CallFailure, CancelledBy, LifeError, Refusal, RegisterError, RegisterReason,
};
pub use events::{Happened, ServiceEvent, Subscription, Watching};
pub use key::{Service, Signature};
pub use provider::{CallCx, Provider};
pub use registration::{Registration, Running};
use registry::Registry;
pub use state::{Admits, DomainState, ServiceState};
pub use status::{ServiceStatus, ServicesStatus};

use entry::{Entry, Functions, Lifecycle};
use fom_protocol::{
    caught,
    sync::{Mutex, atomic::Ordering},
};
use fom_runtime::{Runtime, extension::RuntimeState};
use provider::Provided;

/// The services of a runtime. A clone is another handle to the same services. No handle keeps the runtime alive.
#[derive(Clone)]
pub struct Services {
    runtime: Runtime,
    registry: Arc<Registry>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("domain", &self.domain())
            .finish_non_exhaustive()
    }
}

/// Adds services to a [`Runtime`].
pub trait ServicesExt {
    /// Returns the services of this runtime.
    fn services(&self) -> Services;
}

impl ServicesExt for Runtime {
    fn services(&self) -> Services {
        let registry: Arc<Registry> = self.extension().attachment();
        registry.listing.get_or_init(|| {
            let part: Weak<Registry> = Arc::downgrade(&registry);
            self.extension().list(part)
        });
        Services::of(self, registry)
    }
}

/// A service that was found for a call, with its functions.
type Found<A, R> = (Arc<Entry>, Arc<Provided<A, R>>);

impl Services {
    fn of(runtime: &Runtime, registry: Arc<Registry>) -> Self {
        Self {
            runtime: runtime.detached(),
            registry,
        }
    }

    /// Registers a service under its name. The service takes calls at once, unless it has an
    /// [`on_start`](Provider::on_start) or the services are stopped.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] with the provider, if the name is taken or the services are being stopped.
    #[track_caller]
    pub fn register<A: Send + 'static, R: Send + 'static>(
        &self,
        service: &Service<A, R>,
        provider: Provider<A, R>,
    ) -> Result<Registration, RegisterError<A, R>> {
        let owner = Location::caller();
        let refuse = |reason, provider| RegisterError {
            reason,
            provider: Box::new(provider),
        };
        let registered = self.with_names(|names| {
            let domain = self.domain();
            if matches!(domain, DomainState::Drain | DomainState::Stopping)
                || self.runtime.extension().state() != RuntimeState::Open
            {
                let service = service.name().to_owned();
                return Err(refuse(
                    RegisterReason::TooLate { service, domain },
                    provider,
                ));
            }
            if let Some(taken) = names.by_name.get(service.name()) {
                let reason = RegisterReason::Taken {
                    service: taken.name.clone(),
                    owner: taken.owner.clone(),
                    signature: taken.signature,
                };
                return Err(refuse(reason, provider));
            }
            let waits = provider.hooks.start.is_some() || domain == DomainState::Stopped;
            let state = match waits {
                true => ServiceState::Registered,
                false => ServiceState::Started,
            };
            let entry = Arc::new(Entry {
                number: self.registry.next(),
                name: service.name().to_owned(),
                owner: provider.owner.unwrap_or_else(|| owner.to_string()),
                signature: service.signature(),
                level: provider.level,
                bootstrap: provider.bootstrap,
                stops: provider.hooks.stop.is_some(),
                functions: Mutex::new(Some(Functions {
                    provided: Arc::new(provider.provided),
                    hooks: provider.hooks,
                })),
                turn: tokio::sync::Mutex::default(),
                lifecycle: Mutex::new(Lifecycle::new(state, self.runtime.now())),
            });
            names.by_name.insert(entry.name.clone(), Arc::clone(&entry));
            names.tell(&entry, Happened::Registered);
            if !waits {
                names.tell(&entry, Happened::Started);
            }
            Ok(entry)
        });
        registered.map(|entry| Registration::new(self.clone(), entry))
    }

    /// Prepares a call of a service. The call is made when it is awaited, started, or waited for.
    pub fn call<A: Send + 'static, R: Send + 'static>(
        &self,
        service: &Service<A, R>,
        argument: A,
    ) -> ServiceCall<A, R> {
        ServiceCall::new(self, service, argument)
    }

    /// Finds a service by a name that is known only at run time. Checks that the service is registered with these
    /// types.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotRegistered`], or [`Refusal::WrongSignature`] with both signatures.
    pub fn lookup<A: Send + 'static, R: Send + 'static>(
        &self,
        name: &str,
    ) -> Result<Service<A, R>, Refusal> {
        let service = Service::named(name);
        self.find(&service).map(|_| service)
    }

    /// Waits until this service takes calls.
    ///
    /// # Errors
    ///
    /// [`Refusal::WrongSignature`] if the service has other types, and [`Refusal::NotRegistered`] if the runtime has
    /// ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn wait_for<A: Send + 'static, R: Send + 'static>(
        &self,
        service: &Service<A, R>,
    ) -> Result<(), Refusal> {
        let mut subscription = self.subscribe(service.name());
        while let Some(event) = subscription.next().await {
            if event.signature != service.signature() && event.happened != Happened::Unregistered {
                return Err(Refusal::WrongSignature {
                    service: event.service,
                    asked: service.signature(),
                    has: event.signature,
                    owner: event.owner,
                });
            }
            if event.happened == Happened::Started {
                return Ok(());
            }
        }
        Err(Refusal::NotRegistered {
            service: service.name().to_owned(),
        })
    }

    fn find<A: Send + 'static, R: Send + 'static>(
        &self,
        service: &Service<A, R>,
    ) -> Result<Found<A, R>, Refusal> {
        let found = self
            .registry
            .names
            .lock()
            .by_name
            .get(service.name())
            .cloned();
        let unknown = |refusal| {
            self.registry.unknown.fetch_add(1, Ordering::Relaxed);
            Err(refusal)
        };
        let Some(entry) = found else {
            return unknown(Refusal::NotRegistered {
                service: service.name().to_owned(),
            });
        };
        if entry.signature != service.signature() {
            return unknown(Refusal::WrongSignature {
                service: entry.name.clone(),
                asked: service.signature(),
                has: entry.signature,
                owner: entry.owner.clone(),
            });
        }
        match entry.provided().map(Arc::downcast) {
            Some(Ok(provided)) => Ok((entry, provided)),
            // The functions are gone: the service was unregistered just now, or the runtime has ended.
            _ => Err(entry.refuse(self.domain())),
        }
    }
}

/// Runs user code, such as a waker or a destructor, and ignores its panic.
fn fenced(f: impl FnOnce()) {
    // The panic hook has already reported the panic.
    let _ = caught(f);
}
