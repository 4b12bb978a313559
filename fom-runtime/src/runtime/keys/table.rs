//! The table of the names: in parts, each with its lock. The hash of a key gives its home, its part and its place.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState},
};

use crossbeam_utils::CachePadded;

use crate::{
    fom::AnyRef,
    id::{Key, KeyHash, KeyOf},
    runtime::keys::Entry,
};
use fom_protocol::sync::{Mutex, MutexGuard};

/// The number of parts, so that unrelated names seldom share a lock.
const PARTS: usize = 64;

pub(super) type Part = HashMap<Hashed, Entry<AnyRef>, BuildHasherDefault<Known>>;

pub(super) struct Table {
    /// On cache lines of their own: two threads that take different locks do not wait for each other.
    parts: [CachePadded<Mutex<Part>>; PARTS],
    hasher: RandomState,
}

/// A name and the hash of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Hashed {
    hash: KeyHash,
    pub(super) of: KeyOf,
}

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash.get());
    }
}

/// Spreads the hash that it is given over 64 bits: the map uses the lowest and the highest.
#[derive(Default)]
pub(super) struct Known(u64);

impl Hasher for Known {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a name gives its hash as a number");
    }

    fn write_u32(&mut self, hash: u32) {
        self.0 = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            parts: std::array::from_fn(|_| CachePadded::default()),
            hasher: RandomState::new(),
        }
    }

    /// Returns the hash of a key. Keys may come from outside, so the hash depends on a secret of this runtime.
    #[inline]
    pub(super) fn hash(&self, key: &Key) -> KeyHash {
        KeyHash::new(match key {
            Key::Int(number) => self.hasher.hash_one(number),
            key => self.hasher.hash_one(key),
        })
    }

    /// Returns the name with its hash. `hash`: the hash of its key, if it is known.
    #[inline]
    pub(super) fn hashed(&self, of: KeyOf, hash: Option<KeyHash>) -> Hashed {
        let hash = hash.unwrap_or_else(|| self.hash(&of.key));
        Hashed { hash, of }
    }

    /// Locks the part of a name.
    #[inline]
    pub(super) fn lock(&self, name: &Hashed) -> MutexGuard<'_, Part> {
        // The home of the fom depends on the lowest bits.
        self.parts[(name.hash.get() >> 16) as usize % PARTS].lock()
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, Part>> {
        self.parts.iter().map(|part| part.lock())
    }
}
