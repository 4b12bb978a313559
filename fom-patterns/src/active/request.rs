//! A method request: what a call puts into the activation list.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use fom_protocol::panic_message;
use fom_runtime::submission::Priority;

use crate::active::{
    ActiveCallError, Arguments,
    object_handle::ObjectHandle,
    remote::{Codec, Local, Remote, elsewhere, refused},
    slot::Answer,
};

/// A method of an active object. Generated code makes it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Method<W, C = Local> {
    pub(super) name: &'static str,
    pub(super) priority: Priority,
    pub(super) when: W,
    pub(super) codec: C,
}

impl Method<Always> {
    #[must_use]
    pub fn new(name: &'static str, priority: Priority) -> Self {
        Self {
            name,
            priority,
            when: Always,
            codec: Local,
        }
    }

    /// Calls of the method can be sent to other processes.
    #[must_use]
    pub fn remote<Args, T>(self, codec: Remote<Args, T>) -> Method<Always, Remote<Args, T>> {
        Method {
            name: self.name,
            priority: self.priority,
            when: self.when,
            codec,
        }
    }
}

impl<C> Method<Always, C> {
    #[must_use]
    pub fn when<W>(self, when: W) -> Method<When<W>, C> {
        Method {
            name: self.name,
            priority: self.priority,
            when: When(when),
            codec: self.codec,
        }
    }
}

/// The condition under which a method may be called.
#[doc(hidden)]
pub trait Guard<A, Args>: Send + 'static {
    const IS: bool;
    fn holds(&self, object: &A, args: &Args) -> bool;
}

/// No guard.
#[doc(hidden)]
#[derive(Debug)]
pub struct Always;

impl<A, Args> Guard<A, Args> for Always {
    const IS: bool = false;
    fn holds(&self, _: &A, _: &Args) -> bool {
        true
    }
}

/// A guard.
#[doc(hidden)]
#[derive(Debug)]
pub struct When<W>(W);

impl<A, Args, W: Fn(&A, &Args) -> bool + Send + 'static> Guard<A, Args> for When<W> {
    const IS: bool = true;
    fn holds(&self, object: &A, args: &Args) -> bool {
        (self.0)(object, args)
    }
}

/// A future that borrows the object.
#[doc(hidden)]
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Answered,
    Panicked,
}

/// A request that has begun.
pub(super) enum Begun<'a> {
    Done(Done),
    /// The future of an async method.
    Runs(Running<'a, Done>),
}

pub(super) trait Request<A>: Send {
    fn name(&self) -> &'static str;
    fn is_guarded(&self) -> bool;
    /// Evaluates the guard. The guard is user code and may panic.
    fn holds(&self, object: &A) -> bool;
    /// Calls the method. A panic in the method becomes the answer and does not propagate.
    fn begin<'a>(self: Box<Self>, object: &'a mut A) -> Begun<'a>;
    /// Answers without calling the method. Drops the arguments, which runs user code.
    fn refuse(self: Box<Self>, error: ActiveCallError);
    /// Answers that there is no room, and gives the arguments back.
    fn turn_away(self: Box<Self>);
    /// Returns the arguments as bytes, or `None` if they stay in the process. Runs user code.
    fn encode(&self) -> Option<Result<Vec<u8>, String>>;
    /// Answers with what an object elsewhere has answered. Runs user code.
    fn answer_encoded(self: Box<Self>, answer: &[u8]);
}

/// A request for any kind of method.
pub(super) struct Task<Args, W, C, B, T> {
    pub(super) method: Method<W, C>,
    pub(super) args: Args,
    pub(super) body: B,
    pub(super) answer: Answer<T>,
}

/// A plain method.
pub(super) struct Sync<B>(pub(super) B);

/// An async method.
pub(super) struct Async<B> {
    pub(super) body: B,
    pub(super) handle: Arc<dyn ObjectHandle>,
}

/// The call of a plain or an async method.
pub(super) trait Body<A, Args, T>: Send {
    fn begin<'a>(self, object: &'a mut A, args: Args, answer: Answer<T>) -> Begun<'a>
    where
        T: 'a;
}

impl<A, Args, T, B> Body<A, Args, T> for Sync<B>
where
    B: FnOnce(&mut A, Args) -> T + Send,
{
    fn begin<'a>(self, object: &'a mut A, args: Args, answer: Answer<T>) -> Begun<'a>
    where
        T: 'a,
    {
        let called = catch_unwind(AssertUnwindSafe(|| (self.0)(object, args)));
        Begun::Done(settle(called, answer))
    }
}

impl<A, Args, T: Send, B> Body<A, Args, T> for Async<B>
where
    B: for<'a> FnOnce(&'a mut A, Args) -> Running<'a, T> + Send,
{
    fn begin<'a>(self, object: &'a mut A, args: Args, answer: Answer<T>) -> Begun<'a>
    where
        T: 'a,
    {
        match catch_unwind(AssertUnwindSafe(|| (self.body)(object, args))) {
            Ok(future) => Begun::Runs(Box::pin(Fenced {
                future: Some(future),
                answer: Some(answer),
                handle: self.handle,
            })),
            Err(panic) => Begun::Done(settle(Err(panic), answer)),
        }
    }
}

fn settle<T>(called: Result<T, Box<dyn Any + Send>>, answer: Answer<T>) -> Done {
    let (outcome, done) = match called {
        Ok(value) => (Ok(value), Done::Answered),
        Err(panic) => (
            Err(ActiveCallError::Panicked(panic_message(panic))),
            Done::Panicked,
        ),
    };
    answer.send(outcome);
    done
}

/// The future of an async method. A panic ends the future, and a cancel ends it at its next wait.
struct Fenced<'a, T> {
    future: Option<Running<'a, T>>,
    answer: Option<Answer<T>>,
    handle: Arc<dyn ObjectHandle>,
}

impl<T> Future for Fenced<'_, T> {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let this = &mut *self;
        let (Some(future), Some(answer)) = (&mut this.future, this.answer.take()) else {
            unreachable!("polled after it was ready")
        };
        if this.handle.is_cancelled() {
            let dropped = catch_unwind(AssertUnwindSafe(|| this.future = None));
            let done = match dropped {
                Ok(()) => Done::Answered,
                Err(panic) => {
                    drop(panic_message(panic));
                    Done::Panicked
                }
            };
            answer.send(Err(ActiveCallError::Cancelled));
            return Poll::Ready(done);
        }
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => {
                this.answer = Some(answer);
                Poll::Pending
            }
            Ok(Poll::Ready(value)) => Poll::Ready(settle(Ok(value), answer)),
            Err(panic) => Poll::Ready(settle(Err(panic), answer)),
        }
    }
}

impl<A, Args, W, C, B, T> Request<A> for Task<Args, W, C, B, T>
where
    Args: Send + 'static,
    W: Guard<A, Args>,
    C: Codec<Args, T>,
    B: Body<A, Args, T> + Send,
    T: Send + 'static,
{
    fn name(&self) -> &'static str {
        self.method.name
    }

    fn is_guarded(&self) -> bool {
        W::IS
    }

    fn holds(&self, object: &A) -> bool {
        self.method.when.holds(object, &self.args)
    }

    fn begin<'a>(self: Box<Self>, object: &'a mut A) -> Begun<'a> {
        let Self {
            args, body, answer, ..
        } = *self;
        body.begin(object, args, answer)
    }

    fn refuse(self: Box<Self>, error: ActiveCallError) {
        let Self { answer, .. } = *self;
        answer.send(Err(error));
    }

    fn turn_away(self: Box<Self>) {
        let Self { args, answer, .. } = *self;
        answer.send(Err(ActiveCallError::Full(Arguments::new(args))));
    }

    fn encode(&self) -> Option<Result<Vec<u8>, String>> {
        self.method.codec.encode(&self.args)
    }

    fn answer_encoded(self: Box<Self>, answer: &[u8]) {
        let outcome = match self.method.codec.decode(answer) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refusal)) => match refused(refusal) {
                Some(error) => Err(error),
                None => return Request::<A>::turn_away(self),
            },
            Err(why) => Err(elsewhere(format!("the answer cannot be read: {why}"))),
        };
        let Self { answer, .. } = *self;
        answer.send(outcome);
    }
}
