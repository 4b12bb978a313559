//! Changes, and their way to the disk.

mod log;
mod store;
mod writer;

use std::ops::Range;

use bytes::Bytes;

pub(crate) use log::{Log, Waiter};
pub(crate) use store::Store;
pub use store::StoreError;
pub(crate) use writer::Writer;

/// When the changes of a command are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Save {
    /// Before its reply is sent.
    Always,
    /// About a second later.
    #[default]
    EverySecond,
}

/// One change.
#[derive(Debug)]
pub(crate) enum Change {
    /// The key holds this string.
    Text {
        key: Box<[u8]>,
        text: Bytes,
        expires: Option<u64>,
    },
    /// The key holds no string any more.
    NoText { key: Box<[u8]> },
    /// The key holds a list.
    List {
        key: Box<[u8]>,
        expires: Option<u64>,
    },
    /// The key holds no list any more. There were elements in these places.
    NoList { key: Box<[u8]>, items: Range<i64> },
    /// The list has this element in this place.
    Item {
        key: Box<[u8]>,
        at: i64,
        value: Bytes,
    },
    /// The list has no element in this place any more.
    NoItem { key: Box<[u8]>, at: i64 },
}

impl Change {
    /// Returns about how many bytes the change takes in memory.
    fn size(&self) -> usize {
        64 + match self {
            Change::Text { key, text, .. } => key.len() + text.len(),
            Change::Item { key, value, .. } => key.len() + value.len(),
            Change::NoText { key }
            | Change::List { key, .. }
            | Change::NoList { key, .. }
            | Change::NoItem { key, .. } => key.len(),
        }
    }
}
