//! One's turn at a key that transactions want.

use fom_runtime::Runtime;

use crate::shard::Shard;

/// Says in the home of a key that one wants it: while it is there, everybody who comes to the key queues for its lock.
#[derive(Debug)]
pub(crate) struct Turn {
    key: Box<[u8]>,
    home: usize,
    runtime: Runtime,
    ended: bool,
}

impl Turn {
    /// A turn at a key that was [wanted](Shard::want) in its home.
    pub(crate) fn new(key: &[u8], home: usize, runtime: Runtime) -> Self {
        Self {
            key: key.into(),
            home,
            runtime,
            ended: false,
        }
    }

    /// Ends it, in the key's home.
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
        // With a runtime that has ended the shard is gone, too.
        let _ = self.runtime.post(self.home, move |local| {
            let shard = local.data::<Shard>();
            shard.unwant(&key);
            shard.settle();
        });
    }
}
