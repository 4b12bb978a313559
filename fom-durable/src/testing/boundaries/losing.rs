//! Loses the first event for the trial's fom after the crash, so that another event arrives at its step.

use std::{sync::mpsc, time::Instant};

use fom_runtime::{__durability as seam, FomRef, Operation};

/// The fom that loses its next event. `None` after that.
pub(super) struct Losing<O: Operation>(Option<FomRef<O>>);

impl<O: Operation> Losing<O> {
    pub(super) fn of(fom: Option<FomRef<O>>) -> Self {
        Self(fom)
    }

    /// Calls `send`, which may send events to the fom, while the fom cannot take any.
    pub(super) fn around<R>(&mut self, until: Instant, send: impl FnOnce() -> R) -> R {
        let Some(fom) = &self.0 else { return send() };
        let (hold, held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        seam::post(&seam::home_of(fom), move |_| {
            if hold.send(()).is_ok() {
                // The call fails when the other end is dropped.
                let _ = released.recv();
            }
        });
        let left = until.saturating_duration_since(Instant::now());
        let holds = held.recv_timeout(left).is_ok();
        let sent = send();
        if holds && seam::lose_event(fom) {
            self.0 = None;
        }
        drop(release);
        sent
    }
}
