//! Counted references to foms of a known operation type.

use std::{any::TypeId, marker::PhantomData, ops::Deref};

use crate::{
    fom::{AnyRef, Header},
    operation::Operation,
    typed::Typed,
};

/// A counted reference to a fom of `O`.
pub(crate) struct TypedRef<O: Operation>(AnyRef, PhantomData<fn(O) -> O>);

impl<O: Operation> TypedRef<O> {
    /// Returns the reference, if this is a fom of `O`.
    #[inline]
    pub(crate) fn of(fom: AnyRef) -> Option<Self> {
        let is = fom.type_id() == TypeId::of::<O>();
        is.then(|| Self(fom, PhantomData))
    }

    /// # Safety
    ///
    /// The fom is a fom of `O`.
    #[inline]
    // SAFETY (caller): as the section above says.
    pub(super) unsafe fn of_known(fom: AnyRef) -> Self {
        Self(fom, PhantomData)
    }

    /// Adds a reference.
    ///
    /// # Safety
    ///
    /// The fom is a fom of `O`.
    #[inline]
    // SAFETY (caller): as the section above says.
    pub(crate) unsafe fn of_fom(fom: &Header) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of_known(AnyRef::of(fom)) }
    }

    #[inline]
    pub(crate) fn typed(&self) -> &Typed<O> {
        // SAFETY: this is a fom of `O`, which begins with a `Typed<O>`.
        unsafe { self.0.as_ptr().cast().as_ref() }
    }
}

impl<O: Operation> Deref for TypedRef<O> {
    type Target = AnyRef;

    #[inline]
    fn deref(&self) -> &AnyRef {
        &self.0
    }
}

impl<O: Operation> Clone for TypedRef<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}
