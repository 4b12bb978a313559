//! Makes a new fom: with or without a future, with or without deadlines.

use std::{future::Future, ptr::NonNull};

use crate::{
    fom::{Env, NewFom, Stocks, Timing},
    operation::{AsyncOperation, Build, Operation, SyncOperation},
    run::{
        fom::Fom,
        step_async::{self, AsyncBody},
        step_sync::SyncBody,
        transition::Instance,
    },
    typed::{FirstRun, Launched, Outcome, Seed, Served, Typed},
};

impl<O: Operation, M: FnOnce() -> O> Build<O> for Seed<'_, O, M> {
    type Made = Launched<O>;

    #[inline(always)]
    fn synchronous(self) -> Launched<O>
    where
        O: SyncOperation,
    {
        let create = if const { O::GRAPH.needs().deadlines() } {
            Fom::<O, Timing, SyncBody<O>>::create
        } else {
            Fom::<O, (), SyncBody<O>>::create
        };
        let wanted = self.birth.wanted;
        let body = |_| SyncBody::new(Instance::new((self.operation)(), self.phase));
        // SAFETY: the fom was just made, of this type.
        unsafe { Launched::new(create(self.stocks, self.env, self.birth, body), wanted) }
    }

    fn asynchronous(self) -> Launched<O>
    where
        O: AsyncOperation,
    {
        grow::<O, _>(self.stocks, self.env, self.birth, |me| {
            step_async::drive(me, Instance::new((self.operation)(), self.phase))
        })
    }
}

impl<O: Operation> Build<O> for FirstRun<'_, O> {
    type Made = Served;

    #[inline(always)]
    fn synchronous(self) -> Served
    where
        O: SyncOperation,
    {
        if const { Fom::<O, (), SyncBody<O>>::SHORT } {
            // SAFETY: the promise of `FirstRun::new`; without deadlines, a `Seed` of `O` makes a fom of this type.
            unsafe { Fom::<O, (), SyncBody<O>>::serve(self.fom()) }
        } else {
            run(self)
        }
    }

    #[inline(always)]
    fn asynchronous(self) -> Served
    where
        O: AsyncOperation,
    {
        run(self)
    }
}

fn run<O>(first: FirstRun<'_, O>) -> Served {
    // SAFETY: the promise of `FirstRun::new`.
    let progress = unsafe { (first.fom().as_ref().pool().vtable.run)(first.fom()) };
    Served {
        progress,
        uncounted: false,
    }
}

/// Names the type `F` of the future, which has no name otherwise.
fn grow<O: Operation, F>(
    stocks: &mut Stocks,
    env: &Env,
    birth: NewFom,
    make: impl FnOnce(SelfRef<O>) -> F,
) -> Launched<O>
where
    F: Future<Output = Outcome<O>> + Send + 'static,
{
    let body = |me| AsyncBody::new(make(SelfRef(me)));
    let wanted = birth.wanted;
    let fom = if const { O::GRAPH.needs().deadlines() } {
        Fom::<O, Timing, AsyncBody<O, F>>::create(stocks, env, birth, body)
    } else {
        Fom::<O, (), AsyncBody<O, F>>::create(stocks, env, birth, body)
    };
    // SAFETY: the fom was just made, of this type.
    unsafe { Launched::new(fom, wanted) }
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
