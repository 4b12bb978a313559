//! One operation in flight: a single allocation of header, mailbox, outcome and body.
//!
//! Who may touch what:
//!
//! | part | who |
//! | --- | --- |
//! | [`Header`] | any thread; all of it is atomic or never changes |
//! | [`Typed`] | any thread, under its lock |
//! | body (operation, phase, future) | only the thread that runs the fom, which holds the core of its home locality or has it back before it goes on |

mod course;
mod future;
mod header;
mod plain;
mod typed;

use std::{
    cell::UnsafeCell,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

pub(crate) use header::{AnyFom, Header, Interrupt, WaitingFor, cancel, shut_down};
pub(crate) use typed::{EventFom, Outcome, Told, Typed, TypedFom, Watcher};

use crate::{
    error::{Cause, Failure},
    locality::{Core, Parcel},
    operation::{AsyncOperation, Operation, SyncOperation},
    protocol::{FomState, Link},
};

/// How a run of a fom ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits.
    Waiting,
    /// Its budget is used up, or it yields.
    Again,
    /// It ended.
    Finished,
}

/// The part of a fom that runs.
pub(crate) trait Body<O: Operation>: Send {
    /// Runs until it waits, yields or ends. An outcome is given once.
    fn run(
        self: Pin<&mut Self>,
        fom: &dyn TypedFom<O>,
        waker: &mut dyn FnMut() -> Waker,
    ) -> Result<Progress, Outcome<O>>;

    /// Drops all that is left of operation and future.
    fn clear(self: Pin<&mut Self>);
}

/// Header, shared typed part and body in one allocation.
pub(crate) struct Fom<O: Operation, B> {
    /// First, so that it is dropped before what it may point at.
    body: UnsafeCell<B>,
    header: Header,
    typed: Typed<O>,
    me: Weak<Self>,
}

// SAFETY: `body` is the only part that is not `Sync`. It is touched in `run` alone, and the token lets one thread at a
// time into `run` (Ready → Running has one winner); `B: Send` (a supertrait of `Body`) then suffices.
unsafe impl<O: Operation, B: Body<O>> Sync for Fom<O, B> {}
// SAFETY: all parts are `Send`.
unsafe impl<O: Operation, B: Body<O>> Send for Fom<O, B> {}

impl<O: Operation, B: Body<O> + 'static> Parcel for Fom<O, B> {
    fn link(&self) -> &Link<dyn Parcel> {
        self.header.link()
    }

    fn deliver(self: Arc<Self>, core: &mut Core) {
        core.enqueue(self);
    }

    fn reject(self: Arc<Self>) {
        // A locality ends when none of its foms is left. What still comes was submitted by a fom of another locality while
        // the last handle to the runtime was dropped: it never runs, and whoever waits for it hears so.
        if self.header.token.state() == FomState::Init {
            let phase = self.header.phase_name();
            self.end(Err(Failure::new(Cause::Shutdown, phase, None)));
        }
    }
}

impl<O: Operation, B: Body<O> + 'static> Wake for Fom<O, B> {
    fn wake(self: Arc<Self>) {
        if self.header.token.wake() {
            crate::locality::enqueue(self);
        }
    }
}

impl<O: Operation, B: Body<O> + 'static> AnyFom for Fom<O, B> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn run(self: Arc<Self>) -> Progress {
        // SAFETY: the token is in Running, and this is the thread that put it there: nobody else is in here. The body
        // is never moved: it lives in this `Arc` until it is dropped in place.
        let mut body = unsafe { Pin::new_unchecked(&mut *self.body.get()) };
        let me = &self;
        let mut waker = || Waker::from(Arc::clone(me));
        let ran = catch_unwind(AssertUnwindSafe(|| body.as_mut().run(&*self, &mut waker)));
        let outcome = match ran {
            Ok(Ok(progress)) => return progress,
            Ok(Err(outcome)) => outcome,
            // Phase functions are fenced one by one; this is the fence around everything else of the user's, such as
            // a `Drop` of what the operation holds.
            Err(panic) => Err(Failure::new(
                Cause::Panicked(panic_message(panic)),
                self.header.phase_name(),
                None,
            )),
        };
        // The rest of the body goes before anybody hears of the end: who waited may take down what it points to.
        self.fenced("while it was dropped", || body.as_mut().clear());
        self.end(outcome);
        Progress::Finished
    }

    fn abandon(&self) {
        let untaken = self.typed.close(None);
        self.header.entry.left_behind(untaken.len());
        self.typed.answer(
            Err(Failure::new(
                Cause::Shutdown,
                self.header.phase_name(),
                None,
            )),
            untaken,
        );
    }

    fn parked_events(&self) -> usize {
        self.typed.events_kept()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl<O: Operation, B: Body<O> + 'static> Fom<O, B> {
    /// Calls code of the user's that can no longer change the outcome: a panic in it is reported, and ends nothing.
    fn fenced(&self, when: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            self.header.world().incident(format!(
                "{} {} panicked {when}: {}",
                self.header.type_name(),
                self.header.id,
                panic_message(panic)
            ));
        }
    }

    /// The last steps of a fom, in the order that those who wait may rely on: it is out of the directory and the
    /// registry, its end is counted, and then its outcome is told.
    fn end(&self, outcome: Outcome<O>) {
        self.header.token.finish();
        let failed = match &outcome {
            Ok(ended) => O::GRAPH.phases()[O::index(O::kind(&ended.phase))].is_failure(),
            Err(_) => true,
        };
        course::tell_end(self, &outcome);
        // From here on a further event is given back to who sends it; those before go with the outcome.
        let untaken = self.typed.close(
            outcome
                .as_ref()
                .ok()
                .map(|ended| O::index(O::kind(&ended.phase))),
        );
        self.header.entry.left_behind(untaken.len());
        self.header.leave(failed);
        // Nobody may want the outcome any more; then the operation is dropped here, and its `Drop` is the user's.
        self.fenced("while its outcome was told", || {
            self.typed.answer(outcome, untaken)
        });
        self.fenced("while the idle were told", || self.header.count_out());
    }
}

impl<O: Operation, B: Body<O> + 'static> EventFom<O::Event> for Fom<O, B> {
    fn take_event(&self) -> Option<O::Event> {
        self.typed.take_event()
    }

    fn send(self: Arc<Self>, event: O::Event) -> Result<(), crate::error::SendError<O::Event>> {
        self.typed.push_event(event, self.header.world().mailbox)?;
        Wake::wake(self);
        Ok(())
    }

    fn strong(&self) -> Arc<dyn EventFom<O::Event>> {
        self.me.upgrade().expect("whoever runs the fom holds it")
    }

    fn as_any(&self) -> &dyn AnyFom {
        self
    }
}

impl<O: Operation, B: Body<O> + 'static> TypedFom<O> for Fom<O, B> {
    fn typed(&self) -> &Typed<O> {
        &self.typed
    }
}

/// What a panic says. Its payload is the user's, and may panic when it is dropped.
pub(crate) fn panic_message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is no text".to_owned()
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Leaked: there is no end to what the drop of this one might do.
        std::mem::forget(again);
    }
    text
}

/// What a new fom is made of. Generated code turns it into one, with a future or without.
#[doc(hidden)]
pub struct Seed<O: Operation> {
    pub(crate) header: Header,
    pub(crate) operation: O,
    pub(crate) phase: O::Phase,
    pub(crate) tries: u32,
    pub(crate) left: Option<u64>,
    pub(crate) resumed: bool,
}

/// A new fom.
#[doc(hidden)]
pub struct Launched<O: Operation>(pub(crate) Arc<dyn TypedFom<O>>);

impl<O: Operation> std::fmt::Debug for Seed<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed")
    }
}

impl<O: Operation> std::fmt::Debug for Launched<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Launched")
    }
}

/// Makes the fom that a kind of machine needs. A machine names its own in [`Operation::Form`].
#[doc(hidden)]
pub trait Launch<O: Operation> {
    fn launch(seed: Seed<O>) -> Launched<O>;
}

/// A machine of plain functions: header, operation and phase, no future.
#[doc(hidden)]
#[derive(Debug)]
pub enum Synchronous {}

impl<O: SyncOperation> Launch<O> for Synchronous {
    fn launch(seed: Seed<O>) -> Launched<O> {
        let body = plain::Plain::new(course::Course::new(
            seed.operation,
            seed.phase,
            seed.tries,
            seed.left,
            seed.resumed,
        ));
        Launched(Arc::new_cyclic(|me| Fom {
            body: UnsafeCell::new(body),
            header: seed.header,
            typed: Typed::new(),
            me: Weak::clone(me),
        }))
    }
}

/// A machine with async phases: one future for the whole run.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asynchronous {}

impl<O: AsyncOperation> Launch<O> for Asynchronous {
    fn launch(seed: Seed<O>) -> Launched<O> {
        let course = course::Course::new(
            seed.operation,
            seed.phase,
            seed.tries,
            seed.left,
            seed.resumed,
        );
        grow(seed.header, |me| future::drive(me, course))
    }
}

/// A machine with a mistake in it, which never runs.
#[doc(hidden)]
#[derive(Debug)]
pub enum Unfinished {}

impl<O: Operation> Launch<O> for Unfinished {
    fn launch(_: Seed<O>) -> Launched<O> {
        unreachable!("it does not compile")
    }
}

/// A helper, since the type of the future has no name.
fn grow<O: Operation, F>(header: Header, make: impl FnOnce(SelfRef<O>) -> F) -> Launched<O>
where
    F: Future<Output = Outcome<O>> + Send + 'static,
{
    Launched(Arc::new_cyclic(|me: &Weak<Fom<O, future::Driven<F>>>| {
        Fom {
            body: UnsafeCell::new(future::Driven::new(make(SelfRef(me.clone())))),
            header,
            typed: Typed::new(),
            me: Weak::clone(me),
        }
    }))
}

/// A fom's way to itself, for the future inside it.
pub(crate) struct SelfRef<O: Operation>(Weak<dyn TypedFom<O>>);

impl<O: Operation> SelfRef<O> {
    pub(crate) fn get(&self) -> &dyn TypedFom<O> {
        // SAFETY: a `SelfRef` is made in `grow` alone and moved into the future that is the fom's own body. Whoever
        // has `&self` is that future, being polled or dropped in place; the body is the first field of the fom and so
        // is dropped before header and typed part. The allocation lives as long as this weak reference.
        unsafe { &*self.0.as_ptr() }
    }
}
