//! Replies, and how they are written.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use redis_protocol::resp2::{encode::extend_encode_borrowed, types::BorrowedFrame};

/// The version of the protocol for replies. Requests are the same in both versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The version of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`: maps, sets and one null.
    Resp3,
}

impl Protocol {
    /// The version that `HELLO` names.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// The reply to a command.
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
    /// An array of values.
    Array(Vec<Reply>),
    /// Names and values. In RESP2 they take turns in an array.
    Map(Vec<(Reply, Reply)>),
    /// Values in no order. In RESP2 an array.
    Set(Vec<Reply>),
    /// A text for people. In RESP2 bytes like any other.
    Verbatim(Bytes),
    /// Several values in their written form: in a long list, one reply for each value would be most of the work.
    Written(Bytes),
    /// An error. The text begins with the kind of the error, in capitals.
    Error(Cow<'static, str>),
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Status("OK");
    /// The key holds another kind of value than the command needs.
    pub const WRONG_TYPE: Reply =
        Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// A word is not an integer.
    pub const NOT_AN_INTEGER: Reply = Reply::error("ERR value is not an integer or out of range");
    /// The words do not fit together.
    pub const SYNTAX: Reply = Reply::error("ERR syntax error");

    /// Returns an error.
    pub const fn error(what: &'static str) -> Reply {
        Reply::Error(Cow::Borrowed(what))
    }

    /// Returns a text as bytes.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Bulk(Bytes::from(text.into()))
    }

    /// Returns a text for people.
    pub fn verbatim(text: impl Into<String>) -> Reply {
        Reply::Verbatim(Bytes::from(text.into()))
    }

    /// Returns a number; a count that is too large becomes the largest number.
    pub fn count(count: usize) -> Reply {
        Reply::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns an array of these values.
    pub fn bulks<'a>(values: impl ExactSizeIterator<Item = &'a Bytes>) -> Reply {
        let mut to = BytesMut::new();
        head(&mut to, b'*', values.len());
        values.for_each(|value| bulk(&mut to, value));
        Reply::Written(to.freeze())
    }

    /// Returns the bytes, or null.
    pub fn bulk_or_null(bytes: Option<Bytes>) -> Reply {
        bytes.map_or(Reply::Null, Reply::Bulk)
    }

    /// Returns about how many bytes the reply takes, in memory or written.
    pub fn size(&self) -> usize {
        size_of::<Reply>()
            + match self {
                Reply::Bulk(bytes) | Reply::Written(bytes) | Reply::Verbatim(bytes) => bytes.len(),
                Reply::Error(text) => text.len(),
                Reply::Array(replies) | Reply::Set(replies) => {
                    replies.iter().map(Reply::size).sum()
                }
                Reply::Map(pairs) => {
                    let sizes = pairs.iter().map(|(name, value)| name.size() + value.size());
                    sizes.sum()
                }
                _ => 0,
            }
    }

    /// Writes the reply.
    pub fn write(&self, to: &mut BytesMut, protocol: Protocol) {
        let frame = match self {
            Reply::Status(text) => BorrowedFrame::SimpleString(text.as_bytes()),
            Reply::Int(number) => BorrowedFrame::Integer(*number),
            Reply::Error(text) => BorrowedFrame::Error(text),
            Reply::Null | Reply::NullArray => return to.put_slice(self.null(protocol)),
            Reply::Bulk(bytes) => return bulk(to, bytes),
            Reply::Written(bytes) => return to.put_slice(bytes),
            Reply::Verbatim(bytes) => return verbatim(to, bytes, protocol),
            Reply::Array(replies) => return all(to, b'*', replies, protocol),
            Reply::Set(replies) => {
                let kind = if protocol == Protocol::Resp2 {
                    b'*'
                } else {
                    b'~'
                };
                return all(to, kind, replies, protocol);
            }
            Reply::Map(pairs) => return map(to, pairs, protocol),
        };
        let encoded = extend_encode_borrowed(to, &frame, false);
        encoded.expect("the encoder makes its own room");
    }

    /// Returns the null. RESP2 has two nulls, RESP3 has one.
    fn null(&self, protocol: Protocol) -> &'static [u8] {
        match (protocol, self) {
            (Protocol::Resp3, _) => b"_\r\n",
            (Protocol::Resp2, Reply::NullArray) => b"*-1\r\n",
            (Protocol::Resp2, _) => b"$-1\r\n",
        }
    }
}

fn all(to: &mut BytesMut, kind: u8, replies: &[Reply], protocol: Protocol) {
    head(to, kind, replies.len());
    replies.iter().for_each(|reply| reply.write(to, protocol));
}

fn map(to: &mut BytesMut, pairs: &[(Reply, Reply)], protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => head(to, b'*', 2 * pairs.len()),
        Protocol::Resp3 => head(to, b'%', pairs.len()),
    }
    for (name, value) in pairs {
        name.write(to, protocol);
        value.write(to, protocol);
    }
}

fn verbatim(to: &mut BytesMut, text: &[u8], protocol: Protocol) {
    if protocol == Protocol::Resp2 {
        return bulk(to, text);
    }
    head(to, b'=', text.len() + 4);
    to.put_slice(b"txt:");
    to.put_slice(text);
    to.put_slice(b"\r\n");
}

/// Writes the head of a value with a length.
fn head(to: &mut BytesMut, kind: u8, length: usize) {
    to.put_u8(kind);
    to.put_slice(itoa::Buffer::new().format(length).as_bytes());
    to.put_slice(b"\r\n");
}

/// Writes a value. The crate would first fill the room with zeroes, and a server writes values most of the time.
fn bulk(to: &mut BytesMut, value: &[u8]) {
    to.reserve(value.len() + 32);
    head(to, b'$', value.len());
    to.put_slice(value);
    to.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::{Protocol, Reply};

    #[test]
    fn each_kind_of_reply_is_written_in_both_versions() {
        let bulk = |text: &'static str| Reply::Bulk(Bytes::from_static(text.as_bytes()));
        let values = [Bytes::from_static(b"a"), Bytes::from_static(b"")];
        for (reply, resp2, resp3) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::Int(-7), ":-7\r\n", ":-7\r\n"),
            (
                Reply::SYNTAX,
                "-ERR syntax error\r\n",
                "-ERR syntax error\r\n",
            ),
            (bulk("a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (
                Reply::Array(vec![Reply::Null, Reply::Int(1)]),
                "*2\r\n$-1\r\n:1\r\n",
                "*2\r\n_\r\n:1\r\n",
            ),
            (
                Reply::Set(vec![Reply::Status("fast")]),
                "*1\r\n+fast\r\n",
                "~1\r\n+fast\r\n",
            ),
            (
                Reply::Map(vec![
                    (bulk("proto"), Reply::Int(3)),
                    (bulk("m"), Reply::Null),
                ]),
                "*4\r\n$5\r\nproto\r\n:3\r\n$1\r\nm\r\n$-1\r\n",
                "%2\r\n$5\r\nproto\r\n:3\r\n$1\r\nm\r\n_\r\n",
            ),
            (
                Reply::verbatim("text"),
                "$4\r\ntext\r\n",
                "=8\r\ntxt:text\r\n",
            ),
            (
                Reply::bulks(values.iter()),
                "*2\r\n$1\r\na\r\n$0\r\n\r\n",
                "*2\r\n$1\r\na\r\n$0\r\n\r\n",
            ),
        ] {
            for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
                let mut written = BytesMut::new();
                reply.write(&mut written, protocol);
                assert_eq!(&written[..], expected.as_bytes(), "{reply:?} {protocol:?}");
            }
        }
    }
}
