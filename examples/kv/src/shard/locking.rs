//! Keys that a transaction has. Whoever finds its key here waits for the key's long lock; as long as no transaction with keys in
//! several localities is under way, that is one look at an empty table.

use super::Shard;

impl Shard {
    /// Whether some transaction has the key, or wants it.
    pub(crate) fn is_locked(&self, key: &[u8]) -> bool {
        !self.locked.is_empty() && self.locked.contains_key(key)
    }

    /// One more wants the key.
    pub(crate) fn want(&mut self, key: &[u8]) {
        match self.locked.get_mut(key) {
            Some(wanted) => *wanted += 1,
            None => drop(self.locked.insert(key.into(), 1)),
        }
    }

    /// One less wants the key. Elements that came to it meanwhile go to those who wait for them.
    pub(crate) fn unwant(&mut self, key: &[u8]) {
        let Some(wanted) = self.locked.get_mut(key) else {
            return;
        };
        *wanted -= 1;
        if *wanted == 0 {
            self.locked.remove(key);
            if self.poppers.contains_key(key) {
                self.pushed.push(key.into());
            }
        }
    }
}
