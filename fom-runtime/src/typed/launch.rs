//! The parts of a new fom, and its first run. `run/launch.rs` makes the fom of them.

use std::{fmt, marker::PhantomData, ptr::NonNull};

use crate::{
    fom::{Env, Header, NewFom, Progress, Stocks},
    operation::Operation,
};

/// The parts of a new fom. [`Form::build`](crate::operation::Form::build) makes the fom of them, with or without a future.
pub(crate) struct Seed<'a, O: Operation> {
    pub(crate) stocks: &'a mut Stocks,
    pub(crate) env: &'a Env,
    pub(crate) birth: NewFom,
    pub(crate) operation: O,
    pub(crate) phase: O::Phase,
}

/// A new fom, with its initial references.
pub(crate) struct Launched(pub(crate) NonNull<Header>);

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

/// The first run of a fom that was just launched. A fom that has not ended stays with the caller.
pub(crate) struct FirstRun<'a> {
    fom: NonNull<Header>,
    launched: PhantomData<&'a Launched>,
}

impl<'a> FirstRun<'a> {
    /// # Safety
    ///
    /// When the first run is built, the fom is in Running, on the thread that has put down the core of the fom's home.
    pub(crate) unsafe fn new(fom: &'a Launched) -> Self {
        Self {
            fom: fom.0,
            launched: PhantomData,
        }
    }

    pub(crate) fn fom(&self) -> NonNull<Header> {
        self.fom
    }
}

/// The result of the first run of a fom.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) progress: Progress,
    /// The fom has ended, and the locality has not counted the end yet. The caller counts many ends together.
    pub(crate) uncounted: bool,
}
