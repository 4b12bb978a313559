//! The owners of long locks, and of the waits for them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    cx::{BlockingCx, Cx},
    fom::{AnyRef, Header},
    runtime::{Runtime, Shared},
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
        Owner::of_fom(self.header())
    }
}

impl sealed::Sealed for BlockingCx<'_> {
    fn owner(&self) -> Owner {
        Owner::of_fom(self.header())
    }
}

impl sealed::Sealed for Runtime {
    fn owner(&self) -> Owner {
        Owner::outside(self.shared())
    }
}

/// The owner of a hold or a wait.
#[derive(Clone)]
pub struct Owner(Kind);

#[derive(Clone)]
enum Kind {
    Fom(AnyRef),
    Outside(Arc<Outside>),
}

struct Outside {
    number: usize,
    thread: Option<String>,
    shared: Arc<Shared>,
}

/// Identifies an owner in all that it does: the address of a fom, or an odd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerId(pub(super) usize);

/// Only a counter, so the memory order does not matter.
static OUTSIDERS: AtomicUsize = AtomicUsize::new(0);

impl Owner {
    pub(crate) fn of_fom(fom: &Header) -> Self {
        Self(Kind::Fom(AnyRef::of(fom)))
    }

    fn outside(shared: &Arc<Shared>) -> Self {
        Self(Kind::Outside(Arc::new(Outside {
            number: OUTSIDERS.fetch_add(1, Ordering::Relaxed) * 2 + 1,
            thread: std::thread::current().name().map(str::to_owned),
            shared: Arc::clone(shared),
        })))
    }

    pub(crate) fn id(&self) -> OwnerId {
        OwnerId(match &self.0 {
            Kind::Fom(fom) => fom.as_ptr().addr().get(),
            Kind::Outside(outside) => outside.number,
        })
    }

    pub(crate) fn fom(&self) -> Option<&AnyRef> {
        match &self.0 {
            Kind::Fom(fom) => Some(fom),
            Kind::Outside(_) => None,
        }
    }

    /// Returns the time on the clock of the owner's runtime.
    pub(super) fn now(&self) -> u64 {
        match &self.0 {
            Kind::Fom(fom) => fom.shared().env.clock.nanos(),
            Kind::Outside(outside) => outside.shared.env.clock.nanos(),
        }
    }
}

/// Writes the owner as in listings: `Transfer 12 in Move`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fom(fom) => {
                write!(
                    f,
                    "{} {} in {}",
                    fom.type_name(),
                    fom.id(),
                    fom.phase_name()
                )
            }
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
