//! Alarms: a waker that is woken at a time of the runtime's clock.

use std::{fmt, sync::Arc, task::Waker, time::Duration};

use fom_protocol::nanos;

use crate::{
    locality::{Home, Sleeper},
    runtime::Runtime,
};

/// An armed alarm. The drop disarms it.
#[must_use = "an alarm that is dropped never rings"]
pub struct Alarm {
    home: Home,
    sleeper: Arc<Sleeper>,
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}

impl Runtime {
    /// Wakes `waker` once, at the time `at` of the runtime's clock ([`Runtime::now`]), in the first locality. A runtime
    /// that is closed may never wake it.
    pub fn alarm(&self, at: Duration, waker: Waker) -> Alarm {
        let home = Home::new(self.shared.env.owned(), 0);
        let sleeper = Sleeper::new(waker);
        let armed = Arc::clone(&sleeper);
        home.post_job(Box::new(move |core| {
            core.timers.arm_sleeper(&armed, nanos(at));
        }));
        Alarm { home, sleeper }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let sleeper = Arc::clone(&self.sleeper);
        // Jobs run in order, so this one comes after the one that arms the sleeper.
        self.home.post_job(Box::new(move |core| {
            core.timers.disarm_sleeper(&sleeper);
        }));
    }
}
