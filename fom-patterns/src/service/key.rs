//! The key of a service: its name, with the types of its function.

use std::{
    any::{TypeId, type_name},
    borrow::Cow,
    fmt,
    marker::PhantomData,
};

/// The name of a service with the types of its function, which takes an `A` and returns an `R`. A call with other types
/// does not compile.
///
/// ```
/// use fom_patterns::service::Service;
///
/// static ECHO: Service<String, usize> = Service::new("echo");
/// assert_eq!(ECHO.name(), "echo");
/// ```
pub struct Service<A, R> {
    name: Cow<'static, str>,
    of: PhantomData<fn(A) -> R>,
}

impl<A, R> Service<A, R> {
    /// Makes a service from a name that is known at compile time.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            of: PhantomData,
        }
    }

    /// Makes a service from a name that is known only at run time. Before a call,
    /// [`Services::lookup`](crate::service::Services::lookup) checks that the service is registered with these types.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Cow::Owned(name.into()),
            of: PhantomData,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<A: 'static, R: 'static> Service<A, R> {
    /// Returns the types of the function.
    pub fn signature(&self) -> Signature {
        Signature::of::<A, R>()
    }
}

impl<A, R> Clone for Service<A, R> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            of: PhantomData,
        }
    }
}

impl<A, R> fmt::Debug for Service<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({:?})", self.name)
    }
}

/// The types of a service's function. Equality compares the types; `Display` shows their names.
#[derive(Clone, Copy)]
pub struct Signature(
    /// A function, to keep errors small. It returns the types.
    fn() -> Types,
);

struct Type(TypeId, &'static str);

type Types = [Type; 2];

impl Signature {
    /// Returns the signature of a function from `A` to `R`.
    pub fn of<A: 'static, R: 'static>() -> Self {
        Self(|| {
            [
                Type(TypeId::of::<A>(), type_name::<A>()),
                Type(TypeId::of::<R>(), type_name::<R>()),
            ]
        })
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        let ids = |types: Types| types.map(|of| of.0);
        ids(self.0()) == ids(other.0())
    }
}

impl Eq for Signature {}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [argument, result] = self.0();
        write!(f, "fn({}) -> {}", argument.1, result.1)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
