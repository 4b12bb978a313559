//! The object itself: a fom that serves requests, one at a time.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
};

use crate::{
    Graph, NoEvent, PhaseInfo, Runtime,
    active::{
        Active, CallError,
        list::{Queued, Turn},
        request::{Begun, Done},
        shared::Shared,
        station::{Station, as_current},
    },
    error::BoxError,
    fom::WaitKind,
    operation::{AsyncOperation, At, Next, Operation, Stepped},
};
use fom_protocol::panic_message;

/// The operation of an active object. The operation is in flight as long as the object lives.
#[doc(hidden)]
pub struct Object<A: Active> {
    /// The first field, so that callers are answered before the object is dropped. The object's `Drop` is user code.
    open: Open<A>,
    object: A,
}

/// Answers the remaining calls when the object ends, however it ends.
struct Open<A: Active>(Arc<Shared<A>>);

impl<A: Active> Drop for Open<A> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<A: Active> std::fmt::Debug for Object<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(A::NAME)
    }
}

/// The phases of an active object.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The object takes requests.
    Serve,
    /// The object has ended.
    Ended,
}

const PHASES: &[PhaseInfo] = &[
    PhaseInfo::asynchronous("Serve", "It takes requests.")
        .start()
        .to(&[1]),
    PhaseInfo::end("Ended", "No proxy is left, and what was queued has run."),
];

impl<A: Active> Operation for Object<A> {
    type Phase = Life;
    type Kind = Life;
    type Error = BoxError;
    type Event = NoEvent;
    type Form = crate::fom::launch::Asynchronous;

    const GRAPH: &'static Graph = &Graph::new("ActiveObject", A::NAME, "", PHASES);
    const START: Life = Life::Serve;
    const INDEX: fn(Life) -> usize = |life| life as usize;

    fn kind(phase: &Life) -> Life {
        *phase
    }
}

impl<A: Active> AsyncOperation for Object<A> {
    async fn step(&mut self, _: At<'_, '_, Life>) -> Stepped<Self> {
        self.serve().await;
        Ok(Next::Go(Life::Ended))
    }
}

impl<A: Active> Object<A> {
    pub(super) fn new(object: A, shared: Arc<Shared<A>>) -> Self {
        Self {
            open: Open(shared),
            object,
        }
    }

    pub(super) fn into_object(self) -> A {
        self.object
    }

    /// Serves requests until no proxy is left and no request can run, or until a panic ends the object.
    async fn serve(&mut self) {
        let Self { open, object } = self;
        let shared = &open.0;
        let station: Arc<dyn Station> = Arc::clone(shared) as _;
        while let Some(queued) = next(shared).await {
            let Some(queued) = ready(shared, &station, object, queued) else {
                continue;
            };
            let method = queued.request.name();
            // A panic outside the method, such as in the `Drop` of a leftover value, affects nothing else.
            let mut begun = Begun::Done(Done::Panicked);
            as_current(&station, || {
                shared.fenced(method, "after it had returned", || {
                    begun = queued.request.begin(object);
                });
            });
            let done = match begun {
                Begun::Done(done) => done,
                Begun::Runs(mut running) => {
                    poll_fn(|cx| as_current(&station, || running.as_mut().poll(cx))).await
                }
            };
            shared.changed();
            if done == Done::Panicked && shared.settings.ends_on_panic {
                return;
            }
            if spend(shared) {
                let mut yielded = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut yielded, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
        }
    }
}

/// Waits for the next request to look at. Returns `None` if no more requests come.
async fn next<A: Active>(shared: &Shared<A>) -> Option<Queued<A>> {
    poll_fn(|_| match shared.turn() {
        Turn::Next(queued) => Poll::Ready(Some(queued)),
        Turn::End => Poll::Ready(None),
        Turn::Rest => {
            ANSWER.record();
            Poll::Pending
        }
    })
    .await
}

/// Returns the request if it may run now. Otherwise the request is back in the list, or answered.
fn ready<A: Active>(
    shared: &Shared<A>,
    station: &Arc<dyn Station>,
    object: &A,
    queued: Queued<A>,
) -> Option<Queued<A>> {
    if !queued.request.is_guarded() {
        return Some(queued);
    }
    let holds = || catch_unwind(AssertUnwindSafe(|| queued.request.holds(object)));
    match as_current(station, holds) {
        Ok(true) if shared.is_cancelled() => {
            shared.pass(queued, CallError::Cancelled);
            None
        }
        Ok(true) => {
            shared.begin();
            Some(queued)
        }
        Ok(false) => {
            shared.put_back(queued);
            None
        }
        Err(panic) => {
            let error = CallError::GuardPanicked(panic_message(panic));
            shared.pass(queued, error);
            None
        }
    }
}

/// What a fom waits for that awaits a call.
pub(super) static ANSWER: WaitKind = WaitKind::new("an answer of an active object");

/// Counts one request as one phase. Returns whether the object must let other foms of its locality run.
fn spend<A: Active>(shared: &Shared<A>) -> bool {
    Runtime::of(shared.world()).spend_phase()
}
