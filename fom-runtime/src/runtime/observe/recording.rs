//! The flight recorder, as its users read it.

use std::time::SystemTime;

use serde::Serialize;

use crate::{
    fom::{Flight, FlightEntry},
    id::FomId,
    instant::Instant,
    runtime::observe::Inspect,
    serial,
};

/// What the [flight recorder](crate::Builder::recorder) of a runtime held at one moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FlightRecording {
    /// The time of the wall clock.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// The entries, the oldest first. Those of one locality are in the order in which it wrote them. Entries of two
    /// localities are ordered by their times, which can be off as [`Inspect::recording`] says.
    pub entries: Vec<FlightEntry>,
    /// How many entries were written before these. The rings no longer hold them.
    pub older: u64,
    /// How many entries were overwritten while they were read. They are missing among the oldest ones.
    pub overwritten: u64,
}

impl FlightRecording {
    /// Reads the recorder.
    fn read(flight: &Flight) -> Self {
        let read = flight.read();
        let mut entries: Vec<_> = read.localities.into_iter().flatten().collect();
        // Stable: entries of one locality stay in their order.
        entries.sort_by_key(|entry| entry.at);
        Self {
            at: SystemTime::now(),
            now: flight.clock.now(),
            entries,
            older: read.older,
            overwritten: read.overwritten,
        }
    }

    /// Returns the timeline of a fom: the entries about it, the oldest first.
    pub fn timeline(&self, fom: FomId) -> impl Iterator<Item = &FlightEntry> {
        self.entries.iter().filter(move |entry| entry.fom == fom)
    }
}

impl Inspect<'_> {
    /// Returns what the flight recorder holds: the last transitions, runs, wakes, events and commits of each locality.
    /// Without [`Builder::recorder`](crate::Builder::recorder), nothing is recorded. The package `fom-recorder` writes it for
    /// Perfetto, and into files.
    ///
    /// The read stops no handler. An entry that a handler overwrites during the read is dropped and counted.
    ///
    /// A run begins and ends at the current time, and so does a blocking section. The other times are those that the
    /// locality read last: at most 64 steps ago. If those steps take longer than 0.1 ms together, it reads the time at
    /// each step.
    ///
    /// What other threads send or wake is not recorded, but the fom's arrival in its locality is.
    ///
    /// ```
    /// use fom_runtime::{observe::FlightEvent, prelude::*};
    ///
    /// struct Knock;
    ///
    /// #[fom(operation(Knock), transient)]
    /// enum Knocking {
    ///     #[phase(start, sync, to(Open))]
    ///     Wait,
    ///     #[phase(end)]
    ///     Open,
    /// }
    ///
    /// impl KnockingTransitions for Knock {
    ///     fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().recorder(1024).build()?;
    /// let knock = runtime.submit(Knock).start()?;
    /// let id = knock.id();
    /// knock.wait()?;
    /// let recording = runtime.inspect().recording();
    /// let entered = recording.timeline(id).filter_map(|entry| match entry.event {
    ///     FlightEvent::Transition { to, .. } => to,
    ///     _ => None,
    /// });
    /// assert_eq!(entered.collect::<Vec<_>>(), ["Wait", "Open"]);
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn recording(self) -> FlightRecording {
        let env = &self.runtime().shared.env;
        match env.flight() {
            Some(flight) => FlightRecording::read(flight),
            None => FlightRecording {
                at: SystemTime::now(),
                now: env.clock.now(),
                entries: Vec::new(),
                older: 0,
                overwritten: 0,
            },
        }
    }

    /// Returns whether the runtime has a [flight recorder](crate::Builder::recorder).
    pub fn is_recording(self) -> bool {
        self.runtime().shared.env.flight().is_some()
    }
}
