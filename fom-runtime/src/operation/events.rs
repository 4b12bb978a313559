//! Reads events from bytes, if their type can be saved.

use std::{any::Any, fmt, marker::PhantomData};

use crate::{savable::Savable, snapshot};

/// Reads an event from bytes, if events of its type can be saved.
#[doc(hidden)]
pub type EventReader = fn(&[u8]) -> Result<Box<dyn Any + Send>, String>;

/// Reads events of type `E`, if they can be read. Of two functions, the compiler takes the first with bounds that hold.
#[doc(hidden)]
pub struct Events<E>(PhantomData<fn() -> E>);

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl<E> Events<E> {
    pub const CONTEXT: Self = Self(PhantomData);
}

#[doc(hidden)]
pub trait Readable {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String>;
}

impl<E: Savable + Send + 'static> Readable for Events<E> {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String> {
        let event: E = snapshot::decode(bytes)?;
        Ok(Box::new(event))
    }
}

#[doc(hidden)]
pub trait Unreadable {
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn Any + Send>, String>;
}

impl<E> Unreadable for &Events<E> {
    fn read(&self, _: &[u8]) -> Result<Box<dyn Any + Send>, String> {
        Err("events of this type have no `Serialize` and `Deserialize`".to_owned())
    }
}

/// A function that reads events of a type.
#[doc(hidden)]
#[macro_export]
macro_rules! __event_reader {
    ($event:ty) => {
        |bytes| {
            use $crate::__private::{Readable as _, Unreadable as _};
            (&$crate::__private::Events::<$event>::CONTEXT).read(bytes)
        }
    };
}
