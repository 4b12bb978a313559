//! Names of foms: an id from the runtime, and a key from the user.

use std::{any::TypeId, fmt, num::NonZero, sync::Arc};

use serde::{Deserialize, Serialize};

/// The id of a fom, unique in its runtime, and with a journal in all runs on it. An operation can save the id of
/// another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FomId(pub(crate) u64);

impl FomId {
    /// Returns the id as a number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// An id that was shown as a number, such as to an operator.
impl From<u64> for FomId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for FomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FomId({})", self.0)
    }
}

/// The key of a fom. In one runtime, at most one live fom of an operation type has a given key.
///
/// Keys are compared by their whole value, never by hashes alone.
///
/// ```
/// use fom_runtime::Key;
/// assert_eq!(Key::from("a84b4c76e66710"), Key::from(String::from("a84b4c76e66710")));
/// assert_ne!(Key::from(("7", 7)), Key::from((7, "7")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A number.
    Int(u64),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Two keys as one.
    Pair(Arc<(Key, Key)>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(key) => write!(f, "{key}"),
            Self::Text(key) => f.write_str(key),
            Self::Bytes(key) => key.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Pair(pair) => write!(f, "{}/{}", pair.0, pair.1),
        }
    }
}

impl From<u64> for Key {
    fn from(key: u64) -> Self {
        Self::Int(key)
    }
}

impl From<u32> for Key {
    fn from(key: u32) -> Self {
        Self::Int(key.into())
    }
}

impl From<i32> for Key {
    fn from(key: i32) -> Self {
        // Sign-extended, so that different numbers stay different keys.
        Self::Int(i64::from(key).cast_unsigned())
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self::Text(key.into())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self::Text(key.into())
    }
}

impl From<&String> for Key {
    fn from(key: &String) -> Self {
        Self::Text(key.as_str().into())
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        Self::Bytes(key.into())
    }
}

impl<A: Into<Key>, B: Into<Key>> From<(A, B)> for Key {
    fn from((a, b): (A, B)) -> Self {
        Self::Pair(Arc::new((a.into(), b.into())))
    }
}

/// The hash of a key in one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(NonZero<u32>);

impl KeyHash {
    #[inline]
    pub(crate) fn new(hash: u64) -> Self {
        Self(NonZero::new(hash as u32).unwrap_or(NonZero::<u32>::MIN))
    }

    #[inline]
    pub(crate) fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the home of foms with this key, of so many localities.
    #[inline]
    pub(crate) fn home(self, localities: usize) -> usize {
        self.get() as usize % localities
    }
}

/// A name of foms of one operation type: a key, or the name of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyOf {
    /// The operation type.
    pub of: TypeId,
    /// The name.
    pub key: Key,
    /// Whether this is the name of a [series](crate::Submission::serial), and no key.
    pub is_serial: bool,
}

impl KeyOf {
    /// Returns the key of an operation type.
    pub fn key(of: TypeId, key: Key) -> Self {
        let is_serial = false;
        Self { of, key, is_serial }
    }

    /// Returns the turn that a fom with these names needs: that of its series, or of its key.
    pub fn turn(of: TypeId, key: Option<&Key>, series: Option<&Key>) -> Option<Self> {
        match (key, series) {
            (_, Some(series)) => Some(Self::serial(of, series.clone())),
            (Some(key), None) => Some(Self::key(of, key.clone())),
            (None, None) => None,
        }
    }

    /// Returns the name of a series of an operation type.
    pub fn serial(of: TypeId, key: Key) -> Self {
        let is_serial = true;
        Self { of, key, is_serial }
    }
}
