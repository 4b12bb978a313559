//! What an entry of the flight recorder says, for its readers.

use serde::Serialize;

use crate::{fom::TransitionCause, id::FomId, instant::Instant, serial};

/// One entry of the flight recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlightEntry {
    /// The time on the runtime's clock, as of the last time that the locality read it.
    #[serde(serialize_with = "serial::clock_time")]
    pub at: Instant,
    /// The locality that wrote the entry.
    pub locality: usize,
    /// The fom that it is about.
    pub fom: FomId,
    /// What happened to the fom.
    #[serde(flatten)]
    pub event: FlightEvent,
}

/// What happened to a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FlightEvent {
    /// The fom made a transition.
    Transition {
        /// The operation type.
        operation: &'static str,
        /// The phase that the fom left. `None` for a begin.
        from: Option<&'static str>,
        /// The phase that the fom entered. `None` for the standard failed outcome.
        to: Option<&'static str>,
        /// Why the fom made it.
        #[serde(serialize_with = "serial::text")]
        cause: TransitionCause,
        /// Whether the fom ended by it.
        ends: bool,
    },
    /// A run of the fom began: its locality took it from the run queue.
    RunBegins {
        /// The operation type.
        operation: &'static str,
        /// The phase.
        phase: &'static str,
    },
    /// The run ended: the fom waits, has ended, or has used up its budget.
    RunEnds,
    /// A blocking section of the fom began. Other foms of the locality may run meanwhile.
    BlockBegins,
    /// The blocking section ended, and the fom runs on.
    BlockEnds,
    /// The fom waited and became ready, because code that ran in this locality woke it.
    Woken {
        /// The fom that ran. `None` for other code, such as a job or a part of the locality.
        by: Option<FomId>,
    },
    /// The fom waited and became ready, because its timer fired.
    TimerFired,
    /// The fom came out of the inbox into the run queue: another thread has submitted it or woken it.
    Arrived,
    /// An event was sent to the fom, by code that ran in this locality.
    EventSent {
        /// The fom that ran. `None` for other code, such as a job or a part of the locality.
        by: Option<FomId>,
    },
    /// A step of the fom was handed to the journal.
    CommitBegins,
    /// The journal has committed the step, or refused it.
    CommitEnds,
    /// A function of the fom panicked.
    Panicked {
        /// The operation type.
        operation: &'static str,
        /// The phase.
        phase: &'static str,
    },
}
