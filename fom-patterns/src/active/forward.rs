//! Proxies of objects that are elsewhere.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use fom_protocol::sync::Mutex;
use fom_runtime::{Runtime, error::RefusedReason};
use futures::{
    future::{AbortHandle, Abortable, Aborted},
    stream::{FuturesUnordered, StreamExt as _},
};

use crate::active::{
    Active, ActiveCallError, Proxy, WhenFull,
    activation::Settings,
    list::{Queued, Turn},
    object_handle::{ObjectHandle as _, Place},
    remote::{Carrier, Carrying, NotCarried, RemoteActive, elsewhere, encode},
    servant::{ANSWER, Object},
    shared::Shared,
};

/// A builder that makes a proxy of an object elsewhere. The proxy is the same type as that of an object of this process: POSA2 calls this
/// a distributed scheduler.
///
/// Calls go to the object as soon as they are made, and several can be under way. They have no order among each other: a caller that
/// needs one waits for each answer. The guards and the priorities of the methods are those of the object, where it is.
#[must_use = "no proxy is there until it is started"]
pub struct Forwarding<A> {
    name: String,
    carrier: Arc<dyn Carrier>,
    settings: Settings,
    of: PhantomData<fn() -> A>,
}

impl<A> std::fmt::Debug for Forwarding<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarding")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<A> Forwarding<A> {
    /// Returns the settings of a proxy whose calls this carrier carries. Listings show the name.
    pub fn new(name: impl Into<String>, carrier: impl Carrier) -> Self
    where
        A: RemoteActive,
    {
        Self {
            name: name.into(),
            carrier: Arc::new(carrier),
            settings: Settings::default(),
            of: PhantomData,
        }
    }

    /// Sets how many calls can wait to be carried, and how many can be under way, at least 1. Default: 1,024.
    pub fn capacity(mut self, requests: usize) -> Self {
        self.settings.limits.capacity = requests.max(1);
        self
    }

    /// Sets what happens to a call when the list is full. Default: [`WhenFull::Refuse`].
    pub fn when_full(mut self, what: WhenFull) -> Self {
        self.settings.limits.waits = what == WhenFull::Wait;
        self
    }

    /// Starts the fom of `runtime` that carries the calls. It ends when the last proxy is dropped and the last call is answered.
    ///
    /// # Errors
    ///
    /// Fails if the runtime is full or shuts down.
    pub fn start(self, runtime: &Runtime) -> Result<A::Proxy, RefusedReason>
    where
        A: RemoteActive,
    {
        let mut settings = self.settings;
        settings.elsewhere = Some(self.name);
        let shared = Arc::new(Shared::new(runtime.detached(), settings));
        let proxy = Proxy::new(Arc::clone(&shared));
        let operation = Object::elsewhere(self.carrier, Arc::clone(&shared));
        match runtime.submit(operation).start() {
            Ok(handle) => {
                shared.set_fom(handle.fom().clone());
                runtime.extension().add_daemon(Arc::downgrade(&shared) as _);
                Ok(proxy.into())
            }
            Err(refused) => Err(refused.reason()),
        }
    }
}

/// The calls that are under way, by their places.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<BTreeMap<Place, AbortHandle>>);

impl UnderWay {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Takes a call back. Does nothing if it is not under way.
    pub(super) fn cancel(&self, place: Place) {
        let handle = self.0.lock().remove(&place);
        if let Some(handle) = handle {
            handle.abort();
        }
    }
}

/// A call that is under way.
struct Carried<A> {
    queued: Option<Queued<A>>,
    carrying: Abortable<Carrying>,
}

impl<A> Future for Carried<A> {
    type Output = (Queued<A>, Result<Result<Vec<u8>, NotCarried>, Aborted>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.carrying).poll(cx));
        match self.queued.take() {
            Some(queued) => Poll::Ready((queued, answer)),
            None => unreachable!("polled after it was ready"),
        }
    }
}

/// Carries calls until no proxy is left and all are answered.
pub(super) async fn forward<A: Active>(shared: &Shared<A>, carrier: &dyn Carrier) {
    let mut calls: FuturesUnordered<Carried<A>> = FuturesUnordered::new();
    poll_fn(|cx| {
        loop {
            let mut ends = false;
            while calls.len() < shared.settings.limits.capacity {
                match shared.turn() {
                    Turn::Next(queued) => calls.extend(begin(shared, carrier, queued)),
                    Turn::End => {
                        ends = true;
                        break;
                    }
                    Turn::Rest => break,
                }
            }
            match calls.poll_next_unpin(cx) {
                Poll::Ready(Some((queued, answer))) => {
                    shared.under_way.0.lock().remove(&queued.place);
                    end(shared, queued, answer);
                }
                Poll::Ready(None) if ends => return Poll::Ready(()),
                Poll::Ready(None) | Poll::Pending => {
                    ANSWER.record();
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
}

/// Begins to carry a call. Returns `None` if the call is answered.
fn begin<A: Active>(
    shared: &Shared<A>,
    carrier: &dyn Carrier,
    queued: Queued<A>,
) -> Option<Carried<A>> {
    let method = queued.request.name();
    let mut arguments = Some(Err("its arguments cannot be read".to_owned()));
    // The user's `Serialize`.
    shared.fenced(method, "while its arguments were encoded", || {
        arguments = queued.request.encode();
    });
    let arguments = match arguments {
        Some(Ok(arguments)) => arguments,
        Some(Err(why)) => {
            shared.pass(queued, elsewhere(format!("the call cannot be sent: {why}")));
            return None;
        }
        // A proxy of an object elsewhere has only methods that can be sent.
        None => unreachable!("`{method}` is not remote"),
    };
    let (handle, registration) = AbortHandle::new_pair();
    // Before the request leaves the list: a cancel finds it in one of the two.
    let canceller = handle.clone();
    shared.under_way.0.lock().insert(queued.place, handle);
    shared.carry();
    // A cancel before that has only set the flag.
    if shared.is_cancelled() {
        canceller.abort();
    }
    let carrying = carrier.carry(encode(method, arguments));
    Some(Carried {
        queued: Some(queued),
        carrying: Abortable::new(carrying, registration),
    })
}

/// Gives the answer to the caller.
fn end<A: Active>(
    shared: &Shared<A>,
    queued: Queued<A>,
    answer: Result<Result<Vec<u8>, NotCarried>, Aborted>,
) {
    let request = queued.request;
    match answer {
        Ok(Ok(answer)) => shared.fenced(request.name(), "while its answer was read", || {
            request.answer_encoded(&answer);
        }),
        Ok(Err(NotCarried::Full)) => {
            shared.fenced(request.name(), "while a request was dropped", || {
                request.turn_away();
            });
        }
        Ok(Err(NotCarried::Failed(error))) => {
            shared.refuse(request, ActiveCallError::Elsewhere(error));
        }
        Err(Aborted) => shared.refuse(request, ActiveCallError::Cancelled),
    }
}
