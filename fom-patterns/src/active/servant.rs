//! The object itself: a fom that serves requests, one at a time.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
};

use fom_protocol::panic_message;
use fom_runtime::{Cx, error::BoxError, extension::WaitKind, fom};

use crate::active::{
    Active, ActiveCallError,
    forward::forward,
    list::{Queued, Turn},
    object_handle::{ObjectHandle, as_current},
    remote::Carrier,
    request::{Begun, Done},
    shared::Shared,
};

/// The operation of an active object. The operation is in flight as long as the object lives.
pub(super) struct Object<A: Active> {
    /// The first field, so that callers are answered before the object is dropped. The object's `Drop` is user code.
    open: Open<A>,
    servant: Servant<A>,
}

/// What answers the calls.
enum Servant<A> {
    Here(A),
    /// The object is elsewhere.
    Elsewhere(Arc<dyn Carrier>),
}

/// Answers the remaining calls when the object ends, however it ends.
struct Open<A: Active>(Arc<Shared<A>>);

impl<A: Active> Drop for Open<A> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[fom(operation("Object<A>", name = A::NAME), generics("A: Active"), transient)]
pub(super) enum ActiveObject {
    /// It takes requests.
    #[phase(start, to(Ended), hung = "never")]
    Serve,
    /// No proxy is left, and what was queued has run.
    #[phase(end)]
    Ended,
}

impl<A: Active> ActiveObjectTransitions for Object<A> {
    async fn serve(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.run().await;
        Ok(())
    }
}

impl<A: Active> Object<A> {
    pub(super) fn new(object: A, shared: Arc<Shared<A>>) -> Self {
        Self {
            open: Open(shared),
            servant: Servant::Here(object),
        }
    }

    /// Makes the stand-in for an object of another process. The carrier brings the calls there.
    pub(super) fn elsewhere(carrier: Arc<dyn Carrier>, shared: Arc<Shared<A>>) -> Self {
        Self {
            open: Open(shared),
            servant: Servant::Elsewhere(carrier),
        }
    }

    /// Returns the object, if it is here.
    pub(super) fn into_object(self) -> Option<A> {
        match self.servant {
            Servant::Here(object) => Some(object),
            Servant::Elsewhere(_) => None,
        }
    }

    /// Serves requests until no proxy is left and no request can run, or until a panic ends the object.
    async fn run(&mut self) {
        let Self { open, servant } = self;
        let shared = &open.0;
        let object = match servant {
            Servant::Here(object) => object,
            Servant::Elsewhere(carrier) => return forward(shared, &**carrier).await,
        };
        let handle: Arc<dyn ObjectHandle> = Arc::clone(shared) as _;
        while let Some(queued) = next(shared).await {
            let Some(queued) = ready(shared, &handle, object, queued) else {
                continue;
            };
            let method = queued.request.name();
            // A panic outside the method, such as in the `Drop` of a leftover value, affects nothing else.
            let mut begun = Begun::Done(Done::Panicked);
            as_current(&handle, || {
                shared.fenced(method, "after it had returned", || {
                    begun = queued.request.begin(object);
                });
            });
            let done = match begun {
                Begun::Done(done) => done,
                Begun::Runs(mut running) => {
                    poll_fn(|cx| as_current(&handle, || running.as_mut().poll(cx))).await
                }
            };
            shared.changed();
            if done == Done::Panicked && shared.settings.ends_on_panic {
                return;
            }
            if shared.runtime().extension().spend_phase() {
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
    handle: &Arc<dyn ObjectHandle>,
    object: &A,
    queued: Queued<A>,
) -> Option<Queued<A>> {
    if !queued.request.is_guarded() {
        return Some(queued);
    }
    let holds = || catch_unwind(AssertUnwindSafe(|| queued.request.holds(object)));
    match as_current(handle, holds) {
        Ok(true) if shared.is_cancelled() => {
            shared.pass(queued, ActiveCallError::Cancelled);
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
            let error = ActiveCallError::GuardPanicked(panic_message(panic));
            shared.pass(queued, error);
            None
        }
    }
}

/// The wait of a fom that awaits a call.
pub(super) static ANSWER: WaitKind = WaitKind::new("an answer of an active object");
