//! Keys of transactions. A command that finds its key here waits for the key's long lock. While no transaction with
//! keys in several localities is under way, this costs one look at an empty table.

use super::Shard;

impl Shard {
    /// Returns whether a transaction has the key, or wants it.
    pub(crate) fn is_locked(&self, key: &[u8]) -> bool {
        !self.locked.is_empty() && self.locked.contains_key(key)
    }

    /// Adds one that wants the key.
    pub(crate) fn want(&mut self, key: &[u8]) {
        match self.locked.get_mut(key) {
            Some(wanted) => *wanted += 1,
            None => drop(self.locked.insert(key.into(), 1)),
        }
    }

    /// Removes one that wants the key. Elements that were pushed meanwhile go to the waiting pops.
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
