//! The address of a fom of any operation type.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

use crate::{
    fom::{AnyRef, Attached, Header, WaitKind},
    id::FomId,
    instant::Instant,
};

/// The address of a fom of any operation type. It keeps the memory of the fom, not the fom.
///
/// Two addresses are equal if they lead to the same memory. A fom that comes back in the place of another one has that
/// one's [identity](Self::identity), and another address. `Display` writes the fom as listings do: `Transfer 12 in
/// Move`.
#[derive(Clone)]
pub struct FomAddress(AnyRef);

/// What no other fom of the process has, as long as the runtime of the fom exists. A fom that comes back in the same
/// runtime keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FomIdentity {
    runtime: usize,
    fom: FomId,
}

impl FomAddress {
    pub(crate) fn of(fom: &Header) -> Self {
        Self(AnyRef::of(fom))
    }

    pub(crate) fn header(&self) -> &Header {
        &self.0
    }

    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.0.id()
    }

    /// Returns the identity of the fom.
    pub fn identity(&self) -> FomIdentity {
        FomIdentity::of(&self.0)
    }

    /// Returns the name of the operation type.
    pub fn operation(&self) -> &'static str {
        self.0.type_name()
    }

    /// Returns the name of the fom's phase at this moment.
    pub fn phase(&self) -> &'static str {
        self.0.phase_name()
    }

    /// Returns the time on the clock of the fom's runtime.
    pub fn now(&self) -> Instant {
        self.0.env().clock.now()
    }

    /// Returns whether this is the kind that the fom [recorded](WaitKind::record) last, and waits for now.
    pub fn is_waiting_for(&self, kind: &'static WaitKind) -> bool {
        self.0.waiting.get() == kind.waiting_for()
    }

    /// As [`FomRef::attach`](crate::FomRef::attach).
    pub fn attach(&self, part: Weak<dyn Attached>) {
        self.0.cold_made().rare_made().attachments.attach(part);
    }

    /// Returns the part of this type that the fom keeps. The first call makes it, under a lock: `T::default` must not
    /// attach anything itself. The fom keeps the part until its memory is free.
    pub fn attachment<T: Attached + Default>(&self) -> Arc<T> {
        self.0.cold_made().rare_made().attachments.find_or_make()
    }

    /// As [`attachment`](Self::attachment). Returns `None` if the part was not made.
    pub fn find_attachment<T: Attached>(&self) -> Option<Arc<T>> {
        self.0.cold()?.rare()?.attachments.find()
    }
}

impl FomIdentity {
    pub(crate) fn of(fom: &Header) -> Self {
        Self {
            runtime: fom.env().start().addr().get(),
            fom: fom.id(),
        }
    }
}

impl PartialEq for FomAddress {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for FomAddress {}

impl Hash for FomAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

impl fmt::Display for FomAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, id, phase) = (self.operation(), self.id(), self.phase());
        write!(f, "{operation} {id} in {phase}")
    }
}

impl fmt::Debug for FomAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
