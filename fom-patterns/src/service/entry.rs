//! One registered service: its state, its calls, and the waiters for its idleness.

use std::{any::Any, collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::service::{
    Admits, CallCause, DomainState, Refusal, ServiceState, Signature, fenced, provider::Hooks,
};
use fom_protocol::sync::Mutex;
use fom_runtime::{Cx, FomId, extension::UnfinishedStop, time::Instant};

/// A call, whatever its types are.
pub(super) trait AnyCall: Send + Sync {
    /// Enters the function. Returns what is left to do, if that is more than the call itself.
    fn begin(self: Arc<Self>, cx: &mut Cx<'_>) -> Option<BoxFuture<'static, ()>>;
    /// Ends the call when its fom is dropped. Does nothing if the call has ended.
    fn fom_dropped(&self);
    /// Answers the call if its function was not entered yet, and prevents a later entry. Returns whether it answered.
    fn cancel_waiting(&self, cause: CallCause) -> bool;
    /// Tells the function to end. `cause` is the answer if it does.
    fn stop(&self, cause: CallCause);
    /// Answers the call now, whatever its stage: the runtime has ended.
    fn shut_down(&self);
    /// Returns whether a caller waits for the answer, or a callback takes it.
    fn is_awaited(&self) -> bool;
    /// Returns the fom of the call, if the function was entered.
    fn fom(&self) -> Option<FomId>;
}

/// The counts of one service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) waiting: usize,
    pub(super) running: usize,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) refused: u64,
}

pub(super) struct Lifecycle {
    pub(super) state: ServiceState,
    /// Why the service failed.
    pub(super) reason: Option<String>,
    /// When the state began, on the runtime's clock.
    pub(super) since: Instant,
    /// What is left to do of the stop.
    pub(super) stop: Stop,
    /// The runtime has ended, so the service is stopped and stays stopped.
    pub(super) ended: bool,
    /// The service was unregistered.
    pub(super) gone: bool,
    pub(super) totals: Totals,
    /// Admitted calls of which something may be left, in the order of admission.
    live: BTreeMap<u64, Arc<dyn AnyCall>>,
    idle: Vec<Idle>,
}

/// What is left to do of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing: the start was not run or failed, or the stop has finished.
    Nothing,
    /// The start has finished, so the stop must run.
    Due,
    /// The stop has begun, and has not finished.
    Begun,
}

/// A waiter for the end of all calls, other than the call that runs in fom `but`.
struct Idle {
    but: Option<FomId>,
    tell: oneshot::Sender<()>,
}

impl Lifecycle {
    pub(super) fn new(state: ServiceState, since: Instant) -> Self {
        Self {
            state,
            reason: None,
            since,
            stop: match state {
                ServiceState::Started => Stop::Due,
                _ => Stop::Nothing,
            },
            ended: false,
            gone: false,
            totals: Totals::default(),
            live: BTreeMap::new(),
            idle: Vec::new(),
        }
    }

    /// Returns whether there is no call.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    fn is_idle(&self, but: Option<FomId>) -> bool {
        match (self.live.len(), but) {
            _ if self.ended => true,
            (0, _) => true,
            (1, Some(but)) => self.live.values().all(|call| call.fom() == Some(but)),
            _ => false,
        }
    }

    /// Takes the waiters that have waited long enough.
    fn take_idle(&mut self) -> Vec<Idle> {
        let (told, wait) = std::mem::take(&mut self.idle)
            .into_iter()
            .partition(|waiter| self.is_idle(waiter.but));
        self.idle = wait;
        told
    }
}

/// The user's functions of a service.
pub(super) struct Functions {
    /// The `Provided` of the service's types.
    pub(super) provided: Arc<dyn Any + Send + Sync>,
    pub(super) hooks: Hooks,
}

/// One registered service.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) signature: Signature,
    pub(super) level: u32,
    pub(super) bootstrap: bool,
    /// Whether the service has a stop to run.
    pub(super) stops: bool,
    /// The user's functions, until nothing of the service can run.
    pub(super) functions: Mutex<Option<Functions>>,
    /// Held while the service is started or stopped.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) lifecycle: Mutex<Lifecycle>,
}

impl Entry {
    /// Reads or changes the lifecycle of the service. `f` must be short and must not run user code.
    pub(super) fn lifecycle<T>(&self, f: impl FnOnce(&mut Lifecycle) -> T) -> T {
        f(&mut self.lifecycle.lock())
    }

    /// As [`lifecycle`](Self::lifecycle). Then tells the waiters for which the service is idle. A waiter needs one idle
    /// moment, so a later look of its own does not serve.
    fn tell_idle<T>(&self, f: impl FnOnce(&mut Lifecycle) -> T) -> T {
        let (changed, told) = self.lifecycle(|lifecycle| (f(lifecycle), lifecycle.take_idle()));
        for waiter in told {
            // The waiter may be gone.
            let _ = waiter.tell.send(());
        }
        changed
    }

    pub(super) fn state(&self) -> ServiceState {
        self.lifecycle(|lifecycle| lifecycle.state)
    }

    /// Goes to `to` if the state is one of `from`, and returns whether it was. Does nothing after the end of the
    /// runtime.
    pub(super) fn go(&self, from: &[ServiceState], to: ServiceState, now: Instant) -> bool {
        self.lifecycle(|lifecycle| {
            let goes = !lifecycle.ended && from.contains(&lifecycle.state);
            if goes {
                lifecycle.state = to;
                lifecycle.since = now;
                lifecycle.reason = None;
            }
            goes
        })
    }

    /// Admits a call, or returns what the table says. Reads `domain` under the lock of the lifecycle. A stop of all
    /// services first changes the domain, and then takes this lock for each service.
    pub(super) fn admit(
        &self,
        domain: impl FnOnce() -> DomainState,
        asked: Option<bool>,
        call: (u64, Arc<dyn AnyCall>),
    ) -> Result<(), Turned> {
        let mut lifecycle = self.lifecycle.lock();
        let (domain, state) = (domain(), lifecycle.state);
        if lifecycle.gone {
            let service = self.name.clone();
            return Err(Turned::Refused(Refusal::NotRegistered { service }));
        }
        let admission = match domain.admits(state) {
            Admits::Retry if self.bootstrap && domain == DomainState::Init => Admits::Admit,
            admission => admission,
        };
        let refusal = match (admission, asked) {
            (Admits::Admit, _) | (Admits::Ask, Some(true)) => {
                lifecycle.totals.waiting += 1;
                lifecycle.live.insert(call.0, call.1);
                return Ok(());
            }
            (Admits::Ask, None) => return Err(Turned::Ask(domain)),
            (Admits::Retry, _) => Refusal::Retry {
                service: self.name.clone(),
                state,
                domain,
            },
            (Admits::Ask | Admits::Refuse, _) => Refusal::NotServing {
                service: self.name.clone(),
                state,
                domain,
            },
        };
        lifecycle.totals.refused += 1;
        Err(Turned::Refused(refusal))
    }

    /// Counts and returns the refusal of a service without its functions.
    pub(super) fn refuse(&self, domain: DomainState) -> Refusal {
        let service = self.name.clone();
        self.lifecycle(|lifecycle| {
            lifecycle.totals.refused += 1;
            if lifecycle.gone {
                return Refusal::NotRegistered { service };
            }
            Refusal::NotServing {
                service,
                state: lifecycle.state,
                domain,
            }
        })
    }

    /// Takes back an admitted call that the runtime refused.
    pub(super) fn take_back(&self, call: u64) {
        self.lifecycle(|lifecycle| {
            lifecycle.totals.waiting -= 1;
            lifecycle.totals.refused += 1;
        });
        self.left(call);
    }

    /// Counts a call as running.
    pub(super) fn begun(&self) {
        self.lifecycle(|lifecycle| {
            lifecycle.totals.waiting -= 1;
            lifecycle.totals.running += 1;
        });
    }

    /// Counts a call as ended: its function has returned or will never be entered. `cause` says why there is no result.
    pub(super) fn ended(&self, began: bool, cause: Option<&CallCause>) {
        self.lifecycle(|lifecycle| {
            let totals = &mut lifecycle.totals;
            if began {
                totals.running -= 1;
            } else {
                totals.waiting -= 1;
            }
            match cause {
                None => totals.done += 1,
                Some(CallCause::Cancelled(_) | CallCause::Shutdown) => totals.cancelled += 1,
                Some(_) => totals.failed += 1,
            }
        });
    }

    /// Removes an answered call of which nothing is left. Tells the waiters that waited for this.
    pub(super) fn left(&self, call: u64) {
        drop(self.tell_idle(|lifecycle| lifecycle.live.remove(&call)));
    }

    /// Resolves when there is no call other than the one in fom `but`.
    pub(super) async fn idle(&self, but: Option<FomId>) {
        let (tell, told) = oneshot::channel();
        self.tell_idle(|lifecycle| {
            lifecycle.idle.retain(|waiter| !waiter.tell.is_closed());
            lifecycle.idle.push(Idle { but, tell });
        });
        // Never fails: the caller holds the entry, and with it the sender.
        let _ = told.await;
    }

    /// Returns the calls, in the order of admission.
    pub(super) fn calls(&self) -> Vec<Arc<dyn AnyCall>> {
        self.lifecycle(|lifecycle| lifecycle.live.values().cloned().collect())
    }

    /// Ends the service with the runtime: the service is stopped and stays stopped, whatever of it still runs. Returns
    /// whether it was not stopped before.
    pub(super) fn end(&self, now: Instant) -> bool {
        self.tell_idle(|lifecycle| {
            let stops = lifecycle.state != ServiceState::Stopped;
            if stops {
                lifecycle.state = ServiceState::Stopped;
                lifecycle.since = now;
            }
            if self.stops {
                lifecycle.reason = lifecycle.reason.take().or(match lifecycle.stop {
                    Stop::Nothing => None,
                    Stop::Due => Some("its stop was not run".to_owned()),
                    Stop::Begun => Some("its stop did not finish".to_owned()),
                });
            }
            lifecycle.ended = true;
            stops
        })
    }

    /// Marks the service as unregistered: it must stop.
    pub(super) fn leave(&self, now: Instant) {
        self.lifecycle(|lifecycle| {
            lifecycle.gone = true;
            if !lifecycle.ended {
                lifecycle.state = ServiceState::Stopping;
                lifecycle.since = now;
            }
        });
    }

    /// Returns what is left of the stop, if the service has one.
    pub(super) fn unfinished(&self) -> Option<UnfinishedStop> {
        let stop = self.lifecycle(|lifecycle| lifecycle.stop);
        (self.stops && stop != Stop::Nothing).then(|| UnfinishedStop {
            kind: "service".to_owned(),
            name: self.name.clone(),
            owner: self.owner.clone(),
            begun: stop == Stop::Begun,
        })
    }

    /// Returns the `Provided` of the service's types, unless nothing of the service can run.
    pub(super) fn provided(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::clone(&self.functions.lock().as_ref()?.provided))
    }

    /// Returns the user's start and stop, unless nothing of the service can run.
    pub(super) fn hooks(&self) -> Hooks {
        let functions = self.functions.lock();
        functions
            .as_ref()
            .map(|of| of.hooks.clone())
            .unwrap_or_default()
    }

    /// Drops the user's functions.
    pub(super) fn forget(&self) {
        let functions = self.functions.lock().take();
        fenced(|| drop(functions));
    }
}

/// Why a call was not admitted.
pub(super) enum Turned {
    /// The service decides.
    Ask(DomainState),
    Refused(Refusal),
}
