//! The two kinds of machines: of plain functions only, and with a future.

use std::{fmt, future::Future};

use crate::{
    defaults::NoEvent,
    fom::{Entry, RunningFom},
    operation::{Operation, Stepped},
};

/// The start of a step. Generated code makes the context of the phase function from `fom`.
#[doc(hidden)]
pub struct At<'a, 'fom, P, E: Send + 'static = NoEvent> {
    pub phase: &'a mut P,
    pub fom: RunningFom<'fom, E>,
    pub entry: Entry<E>,
}

impl<P, E: Send + 'static> fmt::Debug for At<'_, '_, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("At")
    }
}

/// A machine with an async phase: one future for the whole run.
#[doc(hidden)]
pub trait AsyncOperation: Operation {
    fn step(
        &mut self,
        at: At<'_, '_, Self::Phase, Self::Event>,
    ) -> impl Future<Output = Stepped<Self>> + Send;
}

/// A machine of plain functions only, without a future.
#[doc(hidden)]
pub trait SyncOperation: Operation {
    fn step(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Stepped<Self>;
}

/// What a fom of an operation is made of: each machine names its kind in [`Operation::Form`].
#[doc(hidden)]
pub trait Form<O: Operation> {
    /// Calls the function of `build` for this kind of machine.
    fn build<B: Build<O>>(build: B) -> B::Made;

    /// Returns one step as a future. A layer around the operation runs it in this form.
    fn step<'a>(
        operation: &'a mut O,
        at: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send;
}

/// Something that is made for each kind of machine in its own way. [`Form::build`] calls one of the functions.
#[doc(hidden)]
pub trait Build<O: Operation> {
    type Made;

    fn synchronous(self) -> Self::Made
    where
        O: SyncOperation;

    fn asynchronous(self) -> Self::Made
    where
        O: AsyncOperation;
}

/// A machine of plain functions: header, operation and phase, no future.
#[doc(hidden)]
#[derive(Debug)]
pub enum Synchronous {}

impl<O: SyncOperation> Form<O> for Synchronous {
    #[inline(always)]
    fn build<B: Build<O>>(build: B) -> B::Made {
        build.synchronous()
    }

    async fn step<'a>(operation: &'a mut O, at: At<'a, '_, O::Phase, O::Event>) -> Stepped<O> {
        O::step(operation, at)
    }
}

/// A machine with async phases: one future for the whole run.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asynchronous {}

impl<O: AsyncOperation> Form<O> for Asynchronous {
    #[inline(always)]
    fn build<B: Build<O>>(build: B) -> B::Made {
        build.asynchronous()
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

impl<O: Operation> Form<O> for Unfinished {
    fn build<B: Build<O>>(_: B) -> B::Made {
        unreachable!("it does not compile")
    }

    fn step<'a>(
        _: &'a mut O,
        _: At<'a, '_, O::Phase, O::Event>,
    ) -> impl Future<Output = Stepped<O>> + Send {
        std::future::pending()
    }
}
