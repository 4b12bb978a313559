//! Watched keys, and whether a watched key was changed since.

use super::Shard;

/// A watched key.
#[derive(Debug)]
pub(super) struct Watched {
    watchers: usize,
    version: u64,
}

impl Shard {
    /// Notes a change of the key.
    pub(super) fn note(&mut self, key: &[u8]) {
        if self.watched.is_empty() {
            return;
        }
        if let Some(watched) = self.watched.get_mut(key) {
            self.versions += 1;
            watched.version = self.versions;
        }
    }

    /// Watches a key. Returns its version.
    pub(crate) fn watch(&mut self, key: &[u8]) -> u64 {
        self.drop_expired(key);
        let version = self.versions;
        let watched = self.watched.entry(key.into()).or_insert(Watched {
            watchers: 0,
            version,
        });
        watched.watchers += 1;
        watched.version
    }

    /// Ends a watch of a key.
    pub(crate) fn unwatch(&mut self, key: &[u8]) {
        if let Some(watched) = self.watched.get_mut(key) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                self.watched.remove(key);
            }
        }
    }

    /// Returns whether a watched key is unchanged.
    pub(crate) fn is_unchanged(&mut self, key: &[u8], version: u64) -> bool {
        self.drop_expired(key);
        self.watched
            .get(key)
            .is_some_and(|watched| watched.version == version)
    }
}
