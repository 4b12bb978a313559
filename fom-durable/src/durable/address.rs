//! How a program names an operation: by the id of its fom, by its key, or by its operation id.

use std::fmt;

use crate::durable::{Durable, Place};
use fom_runtime::{FomId, Key};

/// The name of an operation, for [`outcome`](crate::DurableExt::outcome) and
/// [`send_durably`](crate::DurableExt::send_durably). Ids of foms and keys convert to it.
///
/// ```
/// use fom_durable::Address;
///
/// assert_eq!(Address::from("order 7"), Address::Key("order 7".into()));
/// assert_eq!(Address::once("order 7"), Address::Once("order 7".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// The id of the fom: [`Handle::id`](fom_runtime::Handle).
    Id(FomId),
    /// The [key](fom_runtime::Submission::key) of the fom.
    Key(Key),
    /// The [operation id](crate::DurableSubmissionExt::once).
    Once(Key),
}

impl Address {
    /// Names the operation that was submitted with this [operation id](crate::DurableSubmissionExt::once).
    pub fn once(id: impl Into<Key>) -> Self {
        Self::Once(id.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "the id {id}"),
            Self::Key(key) => write!(f, "the key `{key}`"),
            Self::Once(id) => write!(f, "the operation id `{id}`"),
        }
    }
}

impl From<FomId> for Address {
    fn from(id: FomId) -> Self {
        Self::Id(id)
    }
}

/// Whatever converts to a [`Key`] is a key.
macro_rules! from_key {
    ($($of:ty),*) => {
        $(impl From<$of> for Address {
            fn from(key: $of) -> Self {
                Self::Key(key.into())
            }
        })*
    };
}

from_key!(Key, u64, u32, i32, &str, String, &String, &[u8]);

impl<A: Into<Key>, B: Into<Key>> From<(A, B)> for Address {
    fn from(pair: (A, B)) -> Self {
        Self::Key(pair.into())
    }
}

/// The fom that an event is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum To {
    Id(FomId),
    Key(Key),
}

impl To {
    /// Returns the id, if the event is for the fom that has it.
    pub(crate) fn id(&self) -> Option<FomId> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Key(_) => None,
        }
    }

    /// Returns the key, if the event is for the fom that has it.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Key(key) => Some(key),
            Self::Id(_) => None,
        }
    }
}

impl Durable {
    /// Returns the fom with this address. Returns `None` if no operation is known by the operation id.
    pub(super) fn receiver(&self, of: std::any::TypeId, address: Address) -> Option<To> {
        Some(match address {
            Address::Id(id) => To::Id(id),
            Address::Key(key) => To::Key(key),
            Address::Once(id) => {
                let place: Place = (of, id);
                To::Id(self.memory.lock(self.journal_now()).fom(&place)?)
            }
        })
    }
}
