//! Replies, and how they are written.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use redis_protocol::resp2::{encode::extend_encode_borrowed, types::BorrowedFrame};

/// What a client is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK` and the like.
    Status(&'static str),
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No value.
    Null,
    /// No list of values.
    NullArray,
    /// Several.
    Array(Vec<Reply>),
    /// Several values, written already: for lists of many, where a reply each would be most of the work.
    Written(Bytes),
    /// What is wrong. It begins with the kind of the error, in capitals.
    Error(Cow<'static, str>),
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Status("OK");
    /// Another kind of value than the command is for.
    pub const WRONG_TYPE: Reply =
        Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// A word that should be an integer.
    pub const NOT_AN_INTEGER: Reply = Reply::error("ERR value is not an integer or out of range");
    /// Words that do not go together.
    pub const SYNTAX: Reply = Reply::error("ERR syntax error");

    /// An error.
    pub const fn error(what: &'static str) -> Reply {
        Reply::Error(Cow::Borrowed(what))
    }

    /// The bytes of a text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(Bytes::from(text.into()))
    }

    /// A number, which there may not be too many of.
    pub fn count(count: usize) -> Reply {
        Reply::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// These values.
    pub fn bulks<'a>(values: impl ExactSizeIterator<Item = &'a Bytes>) -> Reply {
        let mut to = BytesMut::new();
        head(&mut to, b'*', values.len());
        values.for_each(|value| bulk(&mut to, value));
        Reply::Written(to.freeze())
    }

    /// The bytes, if there are some.
    pub fn bulk_or_null(bytes: Option<Bytes>) -> Reply {
        bytes.map_or(Reply::Null, Reply::Bulk)
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> usize {
        16 + match self {
            Reply::Bulk(bytes) | Reply::Written(bytes) => bytes.len(),
            Reply::Error(text) => text.len(),
            Reply::Array(replies) => replies.iter().map(Reply::size).sum(),
            _ => 0,
        }
    }

    /// Writes it.
    pub fn write(&self, to: &mut BytesMut) {
        let frame = match self {
            Reply::Status(text) => BorrowedFrame::SimpleString(text.as_bytes()),
            Reply::Int(number) => BorrowedFrame::Integer(*number),
            Reply::Null => BorrowedFrame::Null,
            Reply::Error(text) => BorrowedFrame::Error(text),
            // RESP2 has these two, and the crate's frames have not.
            Reply::NullArray => return to.put_slice(b"*-1\r\n"),
            Reply::Bulk(bytes) => return bulk(to, bytes),
            Reply::Written(bytes) => return to.put_slice(bytes),
            Reply::Array(replies) => {
                head(to, b'*', replies.len());
                return replies.iter().for_each(|reply| reply.write(to));
            }
        };
        if let Err(error) = extend_encode_borrowed(to, &frame, false) {
            // It makes the room that it needs by itself.
            unreachable!("a frame in a buffer that grows: {error}");
        }
    }
}

/// The head of what has a length.
fn head(to: &mut BytesMut, kind: u8, length: usize) {
    to.put_u8(kind);
    to.put_slice(itoa::Buffer::new().format(length).as_bytes());
    to.put_slice(b"\r\n");
}

/// A value. The crate fills the room with zeroes before it writes; with values that is what a server does most.
fn bulk(to: &mut BytesMut, value: &[u8]) {
    to.reserve(value.len() + 32);
    head(to, b'$', value.len());
    to.put_slice(value);
    to.put_slice(b"\r\n");
}
