//! Foms that several tests submit: one that waits for a word and is counted when dropped, and a chain.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fom_runtime::prelude::*;

use crate::kit::Log;

#[derive(Debug, PartialEq)]
pub(crate) struct Oops;

/// An error that is never made.
#[derive(Debug)]
pub(crate) enum Oops2 {}

impl From<Oops2> for fom_runtime::error::BoxError {
    fn from(oops: Oops2) -> Self {
        match oops {}
    }
}

/// Waits for a word to go on, any number of times, and logs what it does.
pub(crate) struct Walker {
    pub(crate) log: Log,
    pub(crate) name: &'static str,
    /// Dropped with the operation.
    pub(crate) _held: Held,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Word {
    Go,
    Fail,
    Stop,
}

#[fom(operation(Walker), error(Oops), event(Word), transient)]
pub(crate) enum Walk {
    #[phase(start, to(Waits), sync)]
    Begin,
    #[phase(to(Passes, Stopped), on(Go, Fail, Stop))]
    Waits,
    #[phase(to(Waits), sync)]
    Passes,
    #[phase(end)]
    Stopped,
}

impl WalkTransitions for Walker {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.log.put(format_args!("{} begins", self.name));
        Ok(())
    }

    async fn waits(&mut self, cx: &mut Cx<'_, Word>) -> Result<WalkAfterWaits, Oops> {
        self.log.put(format_args!("{} waits", self.name));
        let word = cx.event().await;
        self.log.put(format_args!("{} {word:?}", self.name));
        match word {
            Word::Go => Ok(WalkAfterWaits::Passes),
            Word::Fail => Err(Oops),
            Word::Stop => Ok(WalkAfterWaits::Stopped),
        }
    }

    fn passes(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
        self.log.put(format_args!("{} passes", self.name));
        Ok(())
    }
}

pub(crate) fn walker(log: &Log, name: &'static str) -> Walker {
    Walker {
        log: log.clone(),
        name,
        _held: Held::default(),
    }
}

/// Counts drops.
#[derive(Clone, Default)]
pub(crate) struct Drops(pub(crate) Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
pub(crate) struct Held(pub(crate) Option<Drops>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(drops) = self.0.take() {
            drops.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A chain of sync phases that logs its name in each link.
pub(crate) struct Chain {
    pub(crate) name: char,
    pub(crate) links: usize,
    pub(crate) log: Log,
}

#[fom(operation(Chain), error(Oops), transient)]
pub(crate) enum Chaining {
    #[phase(start, to(Link, Done), sync)]
    Link,
    #[phase(end)]
    Done,
}

impl ChainingTransitions for Chain {
    fn link(&mut self, _: &mut Cx<'_>) -> Result<ChainingAfterLink, Oops> {
        self.log.put(self.name);
        self.links -= 1;
        Ok(if self.links == 0 {
            ChainingAfterLink::Done
        } else {
            ChainingAfterLink::Link
        })
    }
}
