//! What a service is called by: its name, with the types of its function.

use std::{
    any::{TypeId, type_name},
    borrow::Cow,
    fmt,
    marker::PhantomData,
};

/// The name of a service with the types of its function: it takes an `A` and gives an `R`. A call with other types does not
/// compile.
///
/// ```
/// use fom_runtime::service::Service;
///
/// static ECHO: Service<String, usize> = Service::new("echo");
/// assert_eq!(ECHO.name(), "echo");
/// ```
pub struct Service<A, R> {
    name: Cow<'static, str>,
    of: PhantomData<fn(A) -> R>,
}

impl<A, R> Service<A, R> {
    /// A service that is known when the program is compiled.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            of: PhantomData,
        }
    }

    /// A service whose name is known only at run time. To call one,
    /// [`Services::lookup`](crate::service::Services::lookup) says at once whether it is there and has these types.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: Cow::Owned(name.into()),
            of: PhantomData,
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<A: 'static, R: 'static> Service<A, R> {
    /// The types of its function.
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

/// The types of a service's function. Compared by the types themselves; shown by their names.
#[derive(Clone, Copy)]
pub struct Signature(
    /// Small, since errors carry it; who asks calls it.
    fn() -> Types,
);

struct Type(TypeId, &'static str);

type Types = [Type; 2];

impl Signature {
    /// From an `A` to an `R`.
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
