//! The parts of a new fom: with or without a future, with or without deadlines.

use std::{fmt, future::Future, ptr::NonNull};

use crate::{
    fom::{
        Env, Fom, Header, NewFom, Outcome, Served, Stocks, Timing, Typed,
        step_async::{self, AsyncBody},
        step_sync::SyncBody,
        transition::Instance,
    },
    operation::{AsyncOperation, At, Operation, Stepped, SyncOperation},
};

/// The parts of a new fom. Generated code makes the fom from them, with or without a future.
#[doc(hidden)]
pub struct Seed<'a, O: Operation> {
    pub(crate) stocks: &'a mut Stocks,
    pub(crate) env: &'a Env,
    pub(crate) birth: NewFom,
    pub(crate) operation: O,
    pub(crate) phase: O::Phase,
}

/// A new fom, with its initial references.
#[doc(hidden)]
pub struct Launched(pub(crate) NonNull<Header>);

impl<O: Operation> fmt::Debug for Seed<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launched")
    }
}

/// Makes the fom that a kind of machine needs. Each machine names its kind in [`Operation::Form`].
#[doc(hidden)]
pub trait Launch<O: Operation> {
    fn launch(seed: Seed<'_, O>) -> Launched;

    /// Runs a fom that was just launched for the first time. A fom that has not ended stays with the caller.
    ///
    /// # Safety
    ///
    /// The fom is in Running, on the thread that has put down the core of the fom's home.
    unsafe fn serve(fom: &Launched) -> Served {
        // SAFETY: the caller's promise.
        unsafe { run(fom) }
    }

    /// Returns one step as a future. A layer around the operation runs it in this form.
    fn step<'a>(
        operation: &'a mut O,
        at: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send;
}

/// # Safety
///
/// As [`Launch::serve`].
unsafe fn run(fom: &Launched) -> Served {
    // SAFETY: the caller's promise.
    let progress = unsafe { (fom.0.as_ref().pool().vtable.run)(fom.0) };
    Served {
        progress,
        uncounted: false,
    }
}

/// A machine of plain functions: header, operation and phase, no future.
#[doc(hidden)]
#[derive(Debug)]
pub enum Synchronous {}

impl<O: SyncOperation> Launch<O> for Synchronous {
    #[inline(always)]
    fn launch(seed: Seed<'_, O>) -> Launched {
        let plain = SyncBody::new(Instance::new(seed.operation, seed.phase));
        let create = if const { O::GRAPH.has_deadlines() } {
            Fom::<O, Timing, SyncBody<O>>::create
        } else {
            Fom::<O, (), SyncBody<O>>::create
        };
        Launched(create(seed.stocks, seed.env, seed.birth, |_| plain))
    }

    // SAFETY: asks of its caller what the trait says.
    #[inline(always)]
    unsafe fn serve(fom: &Launched) -> Served {
        if const { Fom::<O, (), SyncBody<O>>::SHORT } {
            // SAFETY: the caller's promise; without deadlines the fom has this type, as above.
            unsafe { Fom::<O, (), SyncBody<O>>::serve(fom.0) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { run(fom) }
        }
    }

    async fn step<'a>(operation: &'a mut O, at: At<'a, '_, O::Phase, O::Event>) -> Stepped<O> {
        O::step(operation, at)
    }
}

/// A machine with async phases: one future for the whole run.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asynchronous {}

impl<O: AsyncOperation> Launch<O> for Asynchronous {
    fn launch(seed: Seed<'_, O>) -> Launched {
        let instance = Instance::new(seed.operation, seed.phase);
        grow::<O, _>(seed.stocks, seed.env, seed.birth, |me| {
            step_async::drive(me, instance)
        })
    }

    fn step<'a>(
        operation: &'a mut O,
        at: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send {
        O::step(operation, at)
    }
}

/// A machine with a mistake in its definition. It never runs.
#[doc(hidden)]
#[derive(Debug)]
pub enum Unfinished {}

impl<O: Operation> Launch<O> for Unfinished {
    fn launch(_: Seed<'_, O>) -> Launched {
        unreachable!("it does not compile")
    }

    fn step<'a>(
        _: &'a mut O,
        _: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send {
        std::future::pending()
    }
}

/// Names the type `F` of the future, which has no name otherwise.
fn grow<O: Operation, F>(
    stocks: &mut Stocks,
    env: &Env,
    birth: NewFom,
    make: impl FnOnce(SelfRef<O>) -> F,
) -> Launched
where
    F: Future<Output = Outcome<O>> + Send + 'static,
{
    let body = |me| AsyncBody::new(make(SelfRef(me)));
    Launched(if const { O::GRAPH.has_deadlines() } {
        Fom::<O, Timing, AsyncBody<O, F>>::create(stocks, env, birth, body)
    } else {
        Fom::<O, (), AsyncBody<O, F>>::create(stocks, env, birth, body)
    })
}

/// A pointer from the future of a fom to that fom.
pub(super) struct SelfRef<O: Operation>(NonNull<Typed<O>>);

// SAFETY: this is like a `&Typed<O>`, which is `Send`.
unsafe impl<O: Operation> Send for SelfRef<O> {}

impl<O: Operation> SelfRef<O> {
    pub(super) fn get(&self) -> &Typed<O> {
        // SAFETY: only `grow` makes a `SelfRef`, and moves it into the future that is the body of the fom. So `&self`
        // belongs to that future, while it is polled or dropped in place. The slot does not move, and the parts that
        // `self` refers to are dropped after the body.
        unsafe { self.0.as_ref() }
    }
}
