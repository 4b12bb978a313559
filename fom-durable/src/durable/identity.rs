//! The journal's head: which journal it is, which ids are used, and the time in the journal.
//!
//! A deadline must survive a restart, and a change of the wall clock. So a journal has its own time. While a runtime
//! runs, the journal's time advances with the runtime's clock. Between two runs it advances by the machine's uptime, or
//! by the wall clock if the machine was restarted. If the store has a clock of its own, only that clock counts between
//! two runs: the next run may be on another machine. The time never goes back.

use std::{
    fs,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use fom_protocol::nanos;
use fom_runtime::{__durability as seam, FomId, time::Clock};

/// The head as it is stored in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The number of the journal, which no other journal has.
    pub(crate) journal: (u64, u64),
    /// No fom, message or outcome with this id or a greater one was ever put.
    pub(crate) next_id: u64,
    /// The time in the journal when the head was written.
    pub(crate) time: u64,
    /// Other clocks at that time.
    pub(crate) seen: Stamp,
    /// The journals of which this one is a part, the oldest first, each with the first id that it has not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) before: Vec<((u64, u64), u64)>,
    /// Whether the journal has the head.
    #[serde(skip)]
    pub(crate) kept: bool,
}

/// The clocks that go on while no runtime runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Identifies the machine's start, as far as that is known.
    boot: String,
    /// The machine's uptime in nanoseconds.
    up: u64,
    /// The wall clock, in nanoseconds since 1970.
    wall: u64,
}

/// The boot id of a store's own clock.
const STORE: &str = "store";

/// The clocks that the time in a journal follows.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    pub(crate) runtime: Clock,
    /// The time of the store, and the runtime's time when it was read.
    store: Option<(u64, u64)>,
}

impl Clocks {
    /// `store`: the time of the store now, if the store has a clock of its own.
    pub(crate) fn new(runtime: &Clock, store: Option<Duration>) -> Self {
        let read = seam::nanos(runtime);
        Self {
            runtime: runtime.clone(),
            store: store.map(|at| (nanos(at), read)),
        }
    }

    /// Reads the clocks.
    pub(crate) fn stamp(&self) -> Stamp {
        let Some((at, read)) = self.store else {
            return Stamp::now(&self.runtime);
        };
        // While the program runs, its own clock measures the time of the store.
        let up = at.saturating_add(seam::nanos(&self.runtime).saturating_sub(read));
        Stamp {
            boot: STORE.to_owned(),
            up,
            wall: up,
        }
    }
}

impl Stamp {
    fn now(clock: &Clock) -> Self {
        if !seam::is_real(clock) {
            // A test's clock is the only clock, and goes on over restarts in the same test.
            return Self {
                boot: "test".to_owned(),
                up: seam::nanos(clock),
                wall: seam::nanos(clock),
            };
        }
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, nanos);
        match (boot(), uptime()) {
            (Some(boot), Some(up)) => Self {
                boot: boot.to_owned(),
                up,
                wall,
            },
            _ => Self {
                boot: String::new(),
                up: 0,
                wall,
            },
        }
    }

    /// Returns how much time has passed from `self` to `later`.
    fn until(&self, later: &Self) -> u64 {
        if (self.boot == STORE) != (later.boot == STORE) {
            // The entries were moved to a store with another kind of clock. How long that took is not known.
            0
        } else if self.boot == later.boot && !self.boot.is_empty() {
            later.up.saturating_sub(self.up)
        } else {
            later.wall.saturating_sub(self.wall)
        }
    }
}

/// Returns the id of the machine's current start.
fn boot() -> Option<&'static str> {
    // Cached: needed for each batch, and constant.
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(boot.trim().to_owned())
    });
    boot.as_deref()
}

/// Returns the time since the machine was started, in nanoseconds, sleep included.
#[cfg(any(target_os = "android", target_os = "linux"))]
fn uptime() -> Option<u64> {
    let mut up = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the function writes to `up`, which is valid and ours.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut up) };
    let (seconds, nanoseconds) = (up.tv_sec.try_into().ok()?, up.tv_nsec.try_into().ok()?);
    (done == 0).then(|| nanos(Duration::new(seconds, nanoseconds)))
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn uptime() -> Option<u64> {
    None
}

impl Head {
    /// Returns the head of a new journal.
    pub(crate) fn new(clocks: &Clocks) -> Self {
        Self {
            journal: halves(seam::random()),
            next_id: 0,
            time: 0,
            seen: clocks.stamp(),
            before: Vec::new(),
            kept: false,
        }
    }

    /// Returns the current time in the journal, after the journal was opened again.
    pub(crate) fn time_now(&self, clocks: &Clocks) -> u64 {
        self.time.saturating_add(self.seen.until(&clocks.stamp()))
    }
}

impl Head {
    /// Returns the journal's number.
    pub(crate) fn number(&self) -> u128 {
        whole(self.journal)
    }

    /// Returns the numbers of the journal.
    pub(crate) fn identity(&self) -> Identity {
        let before = self.before.iter();
        Identity {
            own: self.number(),
            before: before.map(|(of, next)| (whole(*of), *next)).collect(),
        }
    }

    /// Returns the head of a part of this journal, in which no id from `next_id` on was used. Parts give out the same ids, so each
    /// has a number of its own.
    pub(crate) fn of_part(&self, next_id: u64) -> Self {
        let next_id = self.next_id.max(next_id);
        let mut before = self.before.clone();
        before.push((self.journal, next_id));
        Self {
            journal: halves(seam::random()),
            next_id,
            before,
            ..self.clone()
        }
    }
}

/// The number that identifies a journal, and those of the journals of which it is a part.
#[derive(Debug)]
pub(crate) struct Identity {
    own: u128,
    before: Vec<(u128, u64)>,
}

impl Identity {
    /// Returns the number of the journal in which a fom began: its step keys stay the same.
    pub(crate) fn of(&self, fom: FomId) -> u128 {
        let mut before = self.before.iter();
        let of = before.find(|(_, next)| fom.get() < *next);
        of.map_or(self.own, |(of, _)| *of)
    }
}

/// Returns the number with this upper and this lower half.
fn whole((upper, lower): (u64, u64)) -> u128 {
    u128::from(upper) << 64 | u128::from(lower)
}

/// Returns the upper and the lower half.
fn halves(number: u128) -> (u64, u64) {
    ((number >> 64) as u64, number as u64)
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    fn stamp(boot: &str, up: u64, wall: u64) -> Stamp {
        Stamp {
            boot: boot.into(),
            up,
            wall,
        }
    }

    /// WK-16: if the wall clock is changed while the machine runs, only the uptime counts.
    #[test]
    fn a_wall_clock_that_is_set_moves_no_deadline() {
        let before = stamp("a", 100, 1_000);
        assert_eq!(before.until(&stamp("a", 130, 90_000)), 30);
        assert_eq!(before.until(&stamp("a", 130, 5)), 30);
    }

    /// WK-16: after a restart of the machine only the wall clock is left, and time never goes back.
    #[test]
    fn after_a_new_start_of_the_machine_the_wall_clock_counts_and_never_backwards() {
        let before = stamp("a", 100, 1_000);
        assert_eq!(before.until(&stamp("b", 1, 1_500)), 500);
        assert_eq!(before.until(&stamp("b", 1, 400)), 0);
        assert_eq!(stamp("", 0, 1_000).until(&stamp("", 0, 1_500)), 500);
    }

    /// WK-16: the clock of a store says nothing of that of a machine.
    #[test]
    fn no_time_passes_between_a_store_with_a_clock_and_one_without() {
        let (store, machine) = (stamp(STORE, 7, 7), stamp("a", 100, 1_000_000));
        assert_eq!(store.until(&machine), 0);
        assert_eq!(machine.until(&store), 0);
        assert_eq!(store.until(&stamp(STORE, 9, 9)), 2);
    }

    #[test]
    fn this_machine_has_an_uptime_that_grows() {
        let (boot, up) = (boot().expect("tests run on Linux"), uptime());
        assert!(!boot.is_empty() && up.is_some_and(|up| up > 0));
    }
}
