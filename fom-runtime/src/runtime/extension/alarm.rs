//! Alarms: a waker is woken, or a part has a turn, at a time of the runtime's clock.

use std::{
    fmt,
    sync::Arc,
    task::{Wake, Waker},
};

use crate::{
    fom::{PartPlace, hand::Sleeper},
    instant::Instant,
    locality::{Home, PartId, SharedHome, share},
    runtime::{
        Local,
        extension::{Extension, Part},
    },
};

/// An armed alarm. The drop disarms it.
#[must_use = "an alarm that is dropped never rings"]
pub struct Alarm {
    home: SharedHome,
    sleeper: Arc<Sleeper>,
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}

impl Extension<'_> {
    /// Wakes `waker` once, at the time `at` of the runtime's clock ([`Runtime::now`](crate::Runtime::now)), in the
    /// first locality. A runtime that is closed may never wake it.
    pub fn alarm(self, at: Instant, waker: Waker) -> Alarm {
        let home = share(Home::new(self.runtime.shared.env.owned(), 0));
        let sleeper = Sleeper::new(waker);
        let armed = Arc::clone(&sleeper);
        home.post_job(Box::new(move |core| {
            core.timers.arm_sleeper(&armed, at.nanos());
        }));
        Alarm { home, sleeper }
    }
}

/// Gives a turn to a part.
struct PartBell {
    home: SharedHome,
    part: PartPlace,
}

impl Wake for PartBell {
    fn wake(self: Arc<Self>) {
        let part = self.part;
        self.home
            .post_job(Box::new(move |core| core.parts.wake(part)));
    }
}

impl Local<'_> {
    /// Lets a part of this locality have a turn at the time `at` of the runtime's clock ([`Local::now`]). A time in the
    /// past gives the turn soon. The drop of the alarm takes the turn back. The part may have other turns before. If
    /// the part was removed by then, nothing happens.
    pub fn wake_part_at<P: Part>(&mut self, id: PartId<P>, at: Instant) -> Alarm {
        let home = self.core().home.shared.clone();
        let bell = PartBell {
            home: home.clone(),
            part: id.place(),
        };
        let sleeper = Sleeper::new(Waker::from(Arc::new(bell)));
        self.core().timers.arm_sleeper(&sleeper, at.nanos());
        Alarm { home, sleeper }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.sleeper.waker.lock().is_none() {
            // It has rung.
            return;
        }
        let sleeper = Arc::clone(&self.sleeper);
        // Jobs run in order, so this one comes after the one that arms the sleeper.
        self.home.post_job(Box::new(move |core| {
            core.timers.disarm_sleeper(&sleeper);
        }));
    }
}
