//! The owners of long locks, and of the waits for them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use fom_runtime::{
    BlockingCx, Cx, Runtime,
    extension::{FomAddress, FomIdentity},
    time::Instant,
};

/// The owner of a request for a long lock: a fom, by its [`Cx`] or [`BlockingCx`], or code outside of foms, by a
/// [`Runtime`]. The clock of that runtime times the request. A fom cannot take a lock twice. Code outside of foms is
/// another owner each time.
pub trait Locker: sealed::Sealed {}

impl<E> Locker for Cx<'_, E> {}
impl Locker for BlockingCx<'_> {}
impl Locker for Runtime {}

pub(super) mod sealed {
    pub trait Sealed {
        fn owner(&self) -> super::Owner;
    }
}

impl<E> sealed::Sealed for Cx<'_, E> {
    fn owner(&self) -> Owner {
        Owner::of_fom(self.fom_address())
    }
}

impl sealed::Sealed for BlockingCx<'_> {
    fn owner(&self) -> Owner {
        Owner::of_fom(self.fom_address())
    }
}

impl sealed::Sealed for Runtime {
    fn owner(&self) -> Owner {
        Owner::outside(self)
    }
}

/// The owner of a hold or a wait.
#[derive(Clone)]
pub struct Owner(Kind);

#[derive(Clone)]
enum Kind {
    Fom(FomAddress),
    Outside(Arc<Outside>),
}

struct Outside {
    number: usize,
    thread: Option<String>,
    runtime: Runtime,
}

/// Identifies an owner in all that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OwnerId {
    Fom(FomIdentity),
    Outside(usize),
}

/// Only a counter, so the memory order does not matter.
static OUTSIDERS: AtomicUsize = AtomicUsize::new(0);

impl Owner {
    fn of_fom(fom: FomAddress) -> Self {
        Self(Kind::Fom(fom))
    }

    fn outside(runtime: &Runtime) -> Self {
        Self(Kind::Outside(Arc::new(Outside {
            number: OUTSIDERS.fetch_add(1, Ordering::Relaxed),
            thread: std::thread::current().name().map(str::to_owned),
            runtime: runtime.detached(),
        })))
    }

    pub(super) fn id(&self) -> OwnerId {
        match &self.0 {
            Kind::Fom(fom) => OwnerId::Fom(fom.identity()),
            Kind::Outside(outside) => OwnerId::Outside(outside.number),
        }
    }

    pub(super) fn fom(&self) -> Option<&FomAddress> {
        match &self.0 {
            Kind::Fom(fom) => Some(fom),
            Kind::Outside(_) => None,
        }
    }

    /// Returns the time on the clock of the owner's runtime.
    pub(super) fn now(&self) -> Instant {
        match &self.0 {
            Kind::Fom(fom) => fom.now(),
            Kind::Outside(outside) => outside.runtime.now(),
        }
    }
}

/// Owners are equal if a hold of one needs no change to be a hold of the other.
impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Fom(fom), Kind::Fom(other)) => fom == other,
            (Kind::Outside(one), Kind::Outside(other)) => one.number == other.number,
            _ => false,
        }
    }
}

/// Writes the owner as in listings: `Transfer 12 in Move`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fom(fom) => fom.fmt(f),
            Kind::Outside(outside) => match &outside.thread {
                Some(thread) => write!(f, "code outside of foms (thread `{thread}`)"),
                None => f.write_str("code outside of foms"),
            },
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
