//! The text of an operation's error, as far as its type has one.

use std::{any::type_name, fmt};

use crate::operation::Operation;

/// A function that turns errors of an operation into text.
#[doc(hidden)]
pub type Describe<O> = fn(&<O as Operation>::Error) -> String;

/// An error to turn into text. Of three `text` functions, the compiler takes the first with bounds that hold.
#[doc(hidden)]
#[derive(Debug)]
pub struct Described<'a, E>(pub &'a E);

#[doc(hidden)]
pub trait ByDisplay {
    fn text(&self) -> String;
}

impl<E: fmt::Display> ByDisplay for &&Described<'_, E> {
    fn text(&self) -> String {
        self.0.to_string()
    }
}

#[doc(hidden)]
pub trait ByDebug {
    fn text(&self) -> String;
}

impl<E: fmt::Debug> ByDebug for &Described<'_, E> {
    fn text(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[doc(hidden)]
pub trait ByType {
    fn text(&self) -> String;
}

impl<E> ByType for Described<'_, E> {
    fn text(&self) -> String {
        format!("a `{}`", type_name::<E>())
    }
}

/// A function that turns errors of a type into text.
#[doc(hidden)]
#[macro_export]
macro_rules! __describe {
    () => {
        |error| {
            #[allow(unused_imports, reason = "one of them is used")]
            use $crate::__private::{ByDebug as _, ByDisplay as _, ByType as _};
            (&&&$crate::__private::Described(error)).text()
        }
    };
}
