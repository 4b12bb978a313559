//! The fom that writes: one batch of all changes since the last time, between enter-block and leave-block.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fom_runtime::prelude::*;

use super::log::Batch;
use super::{Log, Store};

/// The time to gather changes while no reply waits for them.
const GATHER: Duration = Duration::from_secs(1);

/// The number of attempts at the end, which must not take forever.
const TRIES: u32 = 3;

/// Writes until the log is closed.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: Arc<Log>,
    pub(crate) store: Store,
    /// The number of failed writes of the last batch.
    pub(crate) failures: u32,
}

/// The phases of the writer.
#[fom(operation(Writer), error(Infallible), transient)]
pub(crate) enum Saving {
    /// Waits for changes, and for one second more if no reply waits for them.
    #[phase(start, to(Write, Closed))]
    Gather,
    /// Writes the batch and syncs it. Meanwhile another thread runs the locality.
    #[phase(blocking, to(Gather))]
    Write { batch: Batch },
    /// All changes are on disk, and no more will come.
    #[phase(end)]
    Closed,
}

impl SavingTransitions for Writer {
    async fn gather(&mut self, cx: &mut Cx<'_>) -> Result<SavingAfterGather, Infallible> {
        loop {
            let closing = self.log.is_closing();
            if self.log.unsaved() == 0 && !closing {
                self.log.news.notified().await;
                continue;
            }
            if closing && self.failures >= TRIES {
                return Ok(SavingAfterGather::Closed);
            }
            if self.failures > 0 {
                cx.sleep(GATHER).await;
            } else if !self.log.is_urgent() {
                self.log.urgent_within(cx.sleep(GATHER)).await;
            }
            match self.log.take() {
                Some(batch) => return Ok(SavingAfterGather::Write { batch }),
                None if self.log.is_closing() => return Ok(SavingAfterGather::Closed),
                None => {}
            }
        }
    }

    fn write(&mut self, _: &mut BlockingCx<'_>, batch: &mut Batch) -> Result<(), Infallible> {
        let batch = std::mem::take(batch);
        match self.store.write(&batch.changes) {
            Ok(()) => {
                self.log.written(&batch);
                if std::mem::take(&mut self.failures) > 0 {
                    eprintln!("kv: what has changed is on disk again");
                }
            }
            Err(error) => {
                if self.failures == 0 {
                    eprintln!(
                        "kv: what has changed cannot be written, and is tried again: {error}"
                    );
                }
                self.failures += 1;
                self.log.not_written(batch);
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    /// Tells the waiters, however the writer ended.
    fn drop(&mut self) {
        self.log.closed();
    }
}
