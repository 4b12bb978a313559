//! The fom that writes: all that has changed since the last time, in one batch, between enter-block and leave-block.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fom_runtime::prelude::*;

use super::log::Batch;
use super::{Log, Store};

/// How long changes are gathered where nobody waits for them.
const GATHER: Duration = Duration::from_secs(1);

/// How often it tries at the end, when nobody can wait for ever.
const TRIES: u32 = 3;

/// Writes until the log is closed.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) log: Arc<Log>,
    pub(crate) store: Store,
    /// How often the last batch could not be written.
    pub(crate) failures: u32,
}

/// The phases of the writer.
#[fom(operation(Writer), error(Infallible), transient)]
pub(crate) enum Saving {
    /// Wait for something to write, and, if nobody waits for it, a second more.
    #[phase(start, to(Write, Closed))]
    Gather,
    /// Write it, and see to it that it is on disk. Meanwhile another thread runs the locality.
    #[phase(blocking, to(Gather))]
    Write { batch: Batch },
    /// All is on disk, and nothing more will come.
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
    /// However it ended: who waits is told.
    fn drop(&mut self) {
        self.log.closed();
    }
}
