//! A turn at a key that transactions want.

use fom_runtime::Runtime;

use crate::shard::Shard;

/// Marks a key as wanted in its home. While the mark is there, every command on the key queues for its lock.
#[derive(Debug)]
pub(crate) struct Turn {
    key: Box<[u8]>,
    home: usize,
    runtime: Runtime,
    ended: bool,
}

impl Turn {
    /// Creates a turn at a key that was [wanted](Shard::want) in its home.
    pub(crate) fn new(key: &[u8], home: usize, runtime: Runtime) -> Self {
        Self {
            key: key.into(),
            home,
            runtime,
            ended: false,
        }
    }

    /// Ends the turn, in the key's home.
    pub(crate) fn end(&mut self, shard: &mut Shard) {
        if !std::mem::replace(&mut self.ended, true) {
            shard.unwant(&self.key);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let key = std::mem::take(&mut self.key);
        // If the runtime has ended, the shard is gone, too.
        let _ = self.runtime.post(self.home, move |local| {
            let shard = local.data::<Shard>();
            shard.unwant(&key);
            shard.settle();
        });
    }
}
