//! The keys that clients suspended.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use fom_runtime::submission::SuspendedKey;

/// The keys that clients suspended, by operation and text of the key. They are resumed with the inspector's end.
#[derive(Debug, Default)]
pub(crate) struct SuspendedKeys(Mutex<HashMap<(String, String), SuspendedKey>>);

impl SuspendedKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), SuspendedKey>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn has(&self, operation: &str, key: &str) -> bool {
        self.lock().contains_key(&name(operation, key))
    }

    /// Suspends a key. Returns `false` if a client suspended it before.
    pub(crate) fn suspend(
        &self,
        operation: &str,
        key: &str,
        suspend: impl FnOnce() -> SuspendedKey,
    ) -> bool {
        let mut keys = self.lock();
        let name = name(operation, key);
        let is_new = !keys.contains_key(&name);
        if is_new {
            keys.insert(name, suspend());
        }
        is_new
    }

    /// Resumes a key. Returns `false` if no client suspended it.
    pub(crate) fn resume(&self, operation: &str, key: &str) -> bool {
        let resumed = self.lock().remove(&name(operation, key));
        // Dropped behind the lock.
        resumed.map(SuspendedKey::resume).is_some()
    }
}

fn name(operation: &str, key: &str) -> (String, String) {
    (operation.to_owned(), key.to_owned())
}
