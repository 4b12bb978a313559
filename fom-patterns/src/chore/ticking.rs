//! A chore in one locality: a part that ticks at its times.

use std::{sync::Arc, time::Duration};

use fom_protocol::{caught, nanos};
use fom_runtime::{
    Runtime,
    context::Local,
    extension::{Alarm, Part, PartId, Turn, hold_locality},
    observe::IncidentKind,
    time::Instant,
};

/// The function of a chore in one locality, with its state there.
type Tick = Box<dyn FnMut(&mut Local<'_>) + Send>;

/// A chore in one locality.
pub(super) struct Ticking {
    runtime: Runtime,
    name: Arc<str>,
    /// `None` while the tick runs.
    tick: Option<Tick>,
    /// The interval, and the time of the next tick.
    every: u64,
    due: Instant,
    /// Set while the chore waits for its next tick.
    alarm: Option<Alarm>,
}

impl Ticking {
    pub(super) fn new(runtime: Runtime, name: Arc<str>, every: u64, tick: Tick) -> Self {
        Self {
            runtime,
            name,
            tick: Some(tick),
            every,
            due: Instant::START,
            alarm: None,
        }
    }

    /// Adds the chore to a locality. The first tick is due after one interval.
    pub(super) fn begin(mut self, local: &mut Local<'_>) -> PartId<Self> {
        let due = local.now() + Duration::from_nanos(self.every);
        self.due = due;
        let id = local.add_part(self);
        wait(local, id, due);
        id
    }

    /// Sets the next tick. Missed ticks are not made up for. The next tick is due when it would have been without them.
    fn pass(&mut self, now: Instant) {
        let missed = nanos(now - self.due) / self.every;
        let ahead = self.every.saturating_mul(missed + 1);
        self.due += Duration::from_nanos(ahead);
    }
}

/// Lets the chore have a turn when its next tick is due.
fn wait(local: &mut Local<'_>, id: PartId<Ticking>, due: Instant) {
    let alarm = local.wake_part_at(id, due);
    if let Some(ticking) = local.part(id) {
        ticking.alarm = Some(alarm);
    }
}

impl Part for Ticking {
    fn turn(turn: &mut Turn<'_, Self>) {
        let (id, now) = (turn.id(), turn.local().now());
        let ticking = turn.part();
        // All parts have a turn when the runtime is closed.
        if now < ticking.due {
            return;
        }
        let Some(mut tick) = ticking.tick.take() else {
            return;
        };
        let ran = caught(|| hold_locality(|| tick(&mut turn.local())));
        let (index, now) = (turn.local().index(), turn.local().now());
        let ticking = turn.part();
        let Err(message) = ran else {
            ticking.tick = Some(tick);
            ticking.pass(now);
            let due = ticking.due;
            wait(&mut turn.local(), id, due);
            return;
        };
        let name = &ticking.name;
        ticking.runtime.report(
            IncidentKind::Panicked,
            format!("chore {name}"),
            format!(
                "the chore {name} panicked in locality {index} and was removed there: {message}"
            ),
        );
        let removed = turn.local().remove_part(id);
        hold_locality(|| drop((removed, tick)));
    }
}
