//! What other threads hand to a locality: foms, and messages that only the locality understands.

use std::{any::TypeId, mem::ManuallyDrop, ptr, ptr::NonNull};

use crate::fom::{Pool, Resident};
use fom_protocol::{Link, Linked};

/// An item in the inbox of a locality: a fom that is new or was woken, or a message.
pub(crate) enum Parcel {
    Fom(Resident),
    Message(Message),
}

/// A message of a type that the foms do not know.
pub(crate) struct Message(NonNull<Head>);

/// The beginning of a message. It begins like a fom's header, so the pool behind a link tells which of the two it is.
#[repr(C)]
struct Head {
    link: Link,
    pool: *const Pool,
    type_id: TypeId,
    // SAFETY (caller): the head is that of a message which the caller owns and gives up.
    drop: unsafe fn(NonNull<Self>),
}

/// A whole message.
#[repr(C)]
struct Whole<T> {
    head: Head,
    content: T,
}

// SAFETY: the content is `Send`, as `new` asks, and the rest belongs to the message alone.
unsafe impl Send for Message {}

impl Message {
    pub(crate) fn new<T: Send + 'static>(content: T) -> Self {
        let whole = Box::new(Whole {
            head: Head {
                link: Link::new(),
                pool: ptr::null(),
                type_id: TypeId::of::<T>(),
                drop: drop_whole::<T>,
            },
            content,
        });
        Self(NonNull::from(Box::leak(whole)).cast())
    }

    /// Returns the content, if it is of this type. A message of another type is dropped.
    pub(crate) fn open<T: Send + 'static>(self) -> Option<T> {
        // SAFETY: the message is alive while `self` is there.
        if unsafe { self.0.as_ref() }.type_id != TypeId::of::<T>() {
            return None;
        }
        let message = ManuallyDrop::new(self);
        // SAFETY: the head is the beginning of a `Whole<T>` from a box, as its type says. The box is made again once,
        // because `self` is not dropped.
        let whole = unsafe { Box::from_raw(message.0.cast::<Whole<T>>().as_ptr()) };
        Some(whole.content)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the message is alive, and `self` owns it and gives it up here.
        unsafe { (self.0.as_ref().drop)(self.0) };
    }
}

// SAFETY: asks of its caller what `Head::drop` says, and that the content is a `T`.
unsafe fn drop_whole<T>(head: NonNull<Head>) {
    // SAFETY: `new` made the message from a box of this type, and the caller gives it up.
    drop(unsafe { Box::from_raw(head.cast::<Whole<T>>().as_ptr()) });
}

// SAFETY: a fom's header and a boxed message do not move, and both begin with their link.
unsafe impl Linked for Parcel {
    fn into_link(self) -> NonNull<Link> {
        match self {
            Self::Fom(fom) => fom.into_link(),
            Self::Message(message) => ManuallyDrop::new(message).0.cast(),
        }
    }

    // SAFETY: asks of its caller what the trait says.
    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: the pool comes right after the link, in a fom as in a message.
        let pool = unsafe { (&raw const (*link.cast::<Head>().as_ptr()).pool).read() };
        if pool.is_null() {
            // Only a message has no pool. `into_link` gave its ownership to the link.
            Self::Message(Message(link.cast()))
        } else {
            // SAFETY: the link is a fom's.
            Self::Fom(unsafe { Resident::from_link(link) })
        }
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_message_is_opened_as_what_it_is_and_dropped_once() {
        let content = Arc::new(());
        let sent = Message::new(Arc::clone(&content));
        // SAFETY: the link is turned back once.
        let Parcel::Message(got) =
            (unsafe { Parcel::from_link(Parcel::Message(sent).into_link()) })
        else {
            panic!("a message has no pool");
        };
        assert_eq!(Arc::strong_count(&content), 2);
        drop(got.open::<Arc<()>>().expect("its type"));
        assert_eq!(Arc::strong_count(&content), 1);
        assert!(Message::new(Arc::clone(&content)).open::<u8>().is_none());
        drop(Message::new(Arc::clone(&content)));
        assert_eq!(Arc::strong_count(&content), 1);
    }
}
