//! What is known of an operation's error, as far as its type tells it.

use std::{
    any::{Any, type_name},
    error::Error,
    fmt,
};

use crate::{defaults::BoxError, operation::Operation};

/// A function that tells what is known of an error of an operation.
#[doc(hidden)]
pub type Describe<O> = fn(&<O as Operation>::Error) -> Told<'_>;

/// The most errors in the text of a chain. A type may return itself as its source.
const LONGEST_CHAIN: usize = 16;

/// What is known of an error.
#[doc(hidden)]
#[derive(Debug)]
pub enum Told<'a> {
    /// The type is an [`Error`].
    Error(&'a (dyn Error + 'static)),
    /// The type is not an [`Error`], and this is its text.
    Text(String),
}

impl<'a> Told<'a> {
    /// Returns the error, if the type is an [`Error`].
    pub(crate) fn error(self) -> Option<&'a (dyn Error + 'static)> {
        match self {
            Self::Error(error) => Some(error),
            Self::Text(_) => None,
        }
    }

    /// Returns the error as text, with its sources.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Error(error) => chain(error),
            Self::Text(text) => text,
        }
    }
}

/// Returns the text of an error and of its sources, joined by `: `. Many errors have the text of their source in their
/// own, so a source is left out if the text so far ends with it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    for _ in 0..LONGEST_CHAIN {
        let Some(source) = next else { break };
        let said = source.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = source.source();
    }
    text
}

/// Tells what is known of the error of an operation without a function of its own. Only the default error is known.
pub(super) fn by_default<E: 'static>(error: &E) -> Told<'_> {
    let any: &dyn Any = error;
    match any.downcast_ref::<BoxError>() {
        Some(error) => Told::Error(&**error),
        None => Told::Text(String::from("an error")),
    }
}

/// An error. Of five `told` functions, the compiler takes the first with bounds that hold.
#[doc(hidden)]
#[derive(Debug)]
pub struct Described<'a, E>(pub &'a E);

#[doc(hidden)]
pub trait ByBox<'a> {
    fn told(&self) -> Told<'a>;
}

impl<'a> ByBox<'a> for &&&&Described<'a, BoxError> {
    fn told(&self) -> Told<'a> {
        Told::Error(&**self.0)
    }
}

#[doc(hidden)]
pub trait ByError<'a> {
    fn told(&self) -> Told<'a>;
}

impl<'a, E: Error + 'static> ByError<'a> for &&&Described<'a, E> {
    fn told(&self) -> Told<'a> {
        Told::Error(self.0)
    }
}

#[doc(hidden)]
pub trait ByDisplay<'a> {
    fn told(&self) -> Told<'a>;
}

impl<'a, E: fmt::Display> ByDisplay<'a> for &&Described<'a, E> {
    fn told(&self) -> Told<'a> {
        Told::Text(self.0.to_string())
    }
}

#[doc(hidden)]
pub trait ByDebug<'a> {
    fn told(&self) -> Told<'a>;
}

impl<'a, E: fmt::Debug> ByDebug<'a> for &Described<'a, E> {
    fn told(&self) -> Told<'a> {
        Told::Text(format!("{:?}", self.0))
    }
}

#[doc(hidden)]
pub trait ByType<'a> {
    fn told(&self) -> Told<'a>;
}

impl<'a, E> ByType<'a> for Described<'a, E> {
    fn told(&self) -> Told<'a> {
        Told::Text(format!("a `{}`", type_name::<E>()))
    }
}

/// A function that tells what is known of errors of a type.
#[doc(hidden)]
#[macro_export]
macro_rules! __describe {
    () => {
        |error| {
            #[allow(unused_imports, reason = "one of them is used")]
            use $crate::__private::{
                ByBox as _, ByDebug as _, ByDisplay as _, ByError as _, ByType as _,
            };
            (&&&&&$crate::__private::Described(error)).told()
        }
    };
}
