//! The end of a runtime: drained or at once, both bounded. Every caller that waits for a fom gets an answer.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    fom::RuntimeState,
    runtime::{
        Runtime, Shared,
        extension::{UnfinishedStop, fenced},
        observe::{FomInfo, operations},
    },
};
use fom_protocol::sync::now;

/// How a runtime shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// The runtime takes nothing new from outside. The foms in flight run to their ends, with what they submit
    /// themselves. [Attached](crate::extension::Attachment) parts, such as services, are stopped first.
    Drain,
    /// Queued foms never run, waiting foms end at once, and running foms are dropped at their next wait.
    Now,
}

/// What a shutdown left.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Foms that had not ended in time. A drain that ran out of time has told them to end. Each caller that waited for
    /// such a fom got [`Cause::Shutdown`](crate::Cause::Shutdown).
    pub remained: Vec<FomInfo>,
    /// Stops of [attached](crate::extension::Attachment) parts, such as services, that did not run or did not finish.
    /// Either a drain ran out of time, or there was no drain. The list has the order in which the part stops them.
    pub unfinished_stops: Vec<UnfinishedStop>,
}

/// How long a fom gets to reach its next wait after a drain ran out of time.
const GRACE: Duration = Duration::from_millis(200);

/// How long a dropped runtime waits for its journal to be closed, and for the dumps of its flight recorder.
const CLOSING: Duration = Duration::from_secs(2);

/// Replaces a time limit that is too long for the clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

impl Runtime {
    /// Shuts the runtime down, within this (real) time. A drain that is awaited in a phase waits for that phase, too,
    /// and so takes the whole time. Start it outside.
    ///
    /// When this method returns, every [attached](crate::extension::Attachment) part is stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the shutdown.
    pub async fn shutdown(&self, how: Shutdown, within: Duration) -> ShutdownReport {
        let (tell, told) = oneshot::channel();
        let runtime = self.clone();
        let shuts_down = move || {
            // The caller may be gone; the shutdown goes on.
            let _ = tell.send(runtime.shutdown_blocking(how, within));
        };
        let spawned = self.extension().spawn_thread("fom-shutdown", shuts_down);
        match spawned {
            Ok(_) => told.await.unwrap_or_default(),
            // Without a thread to wait in, the runtime ends at once, which needs no waiting.
            Err(_) => self.shutdown_blocking(Shutdown::Now, Duration::ZERO),
        }
    }

    /// As [`shutdown`](Self::shutdown), blocking the thread.
    pub fn shutdown_blocking(&self, how: Shutdown, within: Duration) -> ShutdownReport {
        let begun = now();
        let by = begun.checked_add(within).unwrap_or(begun + FOREVER);
        let (shared, localities) = (&self.shared, &self.shared.localities);
        let attached = self.detached();
        if how == Shutdown::Drain {
            for part in shared.attachments.all() {
                fenced(&attached, || part.drain(&attached, by));
            }
        }
        shared.close(match how {
            Shutdown::Drain => RuntimeState::Draining,
            Shutdown::Now => RuntimeState::Closed,
        });
        let mut remained = Vec::new();
        let mut all_ended = how == Shutdown::Drain && shared.wait_idle(by);
        shared.close(RuntimeState::Closed);
        if !all_ended {
            if how == Shutdown::Drain {
                remained = operations(shared).foms;
            }
            tell_all(shared);
            all_ended = shared.wait_idle(by.max(now() + GRACE));
        }
        if !all_ended {
            if remained.is_empty() {
                remained = operations(shared).foms;
            }
            for fom in localities.iter().flat_map(|home| home.pools.foms()) {
                fom.abandon();
            }
        }
        let unfinished_stops = close_attachments(shared);
        for home in localities.iter() {
            home.stop();
        }
        if all_ended {
            shared.wait_ended(localities.len(), by.max(now() + GRACE));
            if let Some(recorder) = shared.env.recorder() {
                recorder.wait_closed(by.max(now() + GRACE));
            }
        }
        ShutdownReport {
            remained,
            unfinished_stops,
        }
    }
}

/// Ends the parts that other packages brought.
fn close_attachments(shared: &Shared) -> Vec<UnfinishedStop> {
    let runtime = Runtime::of(shared);
    let parts = shared.attachments.take_all().into_iter();
    parts
        .flat_map(|part| fenced(&runtime, || part.close(&runtime)))
        .collect()
}

/// Makes each handler wake its own foms. Only the handler may touch a fom without other addresses.
fn tell_all(shared: &Shared) {
    for home in &shared.localities {
        home.post_job(Box::new(|core| {
            core.home.sweep();
            core.parts.wake_all();
        }));
    }
}

/// Begins the end of a runtime without threads.
#[cfg(not(fom_shuttle))]
pub(crate) fn end_by_hand(runtime: &Runtime) {
    drop(Guard {
        shared: Arc::clone(&runtime.shared),
    });
}

/// Dropped with the user's last handle.
pub(super) struct Guard {
    pub(super) shared: Arc<Shared>,
}

/// Begins the end of a runtime: no phase function is entered from now on, and each fom ends at its next wait.
fn begin_end(shared: &Shared) {
    shared.close(RuntimeState::Closed);
    tell_all(shared);
    close_attachments(shared);
    for home in &shared.localities {
        home.stop();
    }
}

/// Begins the end of a runtime with a journal that another process has taken over.
pub(crate) fn end_moved(shared: &Shared) {
    shared.env.set_moved();
    begin_end(shared);
}

impl Drop for Guard {
    fn drop(&mut self) {
        begin_end(&self.shared);
        // The next user of the journal finds it closed. Skipped on a thread that runs a fom of this runtime, which would
        // wait for itself.
        let env = &self.shared.env;
        if crate::fom::hand::context::runs_fom_of(env) {
            return;
        }
        if let Some(recorder) = env.recorder() {
            recorder.wait_closed(now() + CLOSING);
        }
    }
}
