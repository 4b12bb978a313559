//! An entry of the flight recorder in four words: the time, the fom, a code, and one more value.
//!
//! | bits of the code | contents |
//! | --- | --- |
//! | 0 to 7 | the [`Kind`] |
//! | 8 to 15 | the phase that the fom left, or [`NO_PHASE`] |
//! | 16 to 23 | the phase that the fom is in now, or [`NO_PHASE`] |
//! | 24 to 31 | the cause of a transition |
//! | 32 to 63 | for a failure, the number of its word |
//!
//! The last word names the machine, by the address of its graph, or another fom, by its id. No fom has the id 0.

use fom_protocol::ENTRY;

use crate::{
    fom::{FlightEntry, FlightEvent, TransitionCause, flight::Names},
    graph::Graph,
    id::FomId,
    instant::Instant,
};

/// An entry as it lies in the ring.
pub(super) type Words = [u64; ENTRY];

/// In place of a phase: there is none.
const NO_PHASE: u8 = u8::MAX;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Transition,
    RunBegins,
    RunEnds,
    BlockBegins,
    BlockEnds,
    Woken,
    TimerFired,
    Arrived,
    EventSent,
    CommitBegins,
    CommitEnds,
    Panicked,
}

const KINDS: [Kind; 12] = [
    Kind::Transition,
    Kind::RunBegins,
    Kind::RunEnds,
    Kind::BlockBegins,
    Kind::BlockEnds,
    Kind::Woken,
    Kind::TimerFired,
    Kind::Arrived,
    Kind::EventSent,
    Kind::CommitBegins,
    Kind::CommitEnds,
    Kind::Panicked,
];

/// The code of the last cause, which has a word.
const FAILED: u8 = 5;

/// Returns the code of an entry without phases.
#[inline]
pub(super) fn code(kind: Kind) -> u64 {
    kind as u64
}

/// Returns the code of an entry about a fom in this phase.
#[inline]
pub(super) fn code_in(kind: Kind, phase: usize) -> u64 {
    kind as u64 | (phase as u64) << 16
}

/// Returns the code of a transition. `number` returns the number of a word.
#[inline(always)]
pub(super) fn code_of_transition(
    from: Option<usize>,
    to: Option<usize>,
    cause: TransitionCause,
    number: impl FnOnce(&'static str) -> u32,
) -> u64 {
    let phase = |phase: Option<usize>| phase.map_or(NO_PHASE, |phase| phase as u8);
    let cause = match cause {
        TransitionCause::Started => 0,
        TransitionCause::Resumed => 1,
        TransitionCause::Returned => 2,
        TransitionCause::Late => 3,
        TransitionCause::Exhausted => 4,
        TransitionCause::Failed(word) => u64::from(FAILED) | u64::from(number(word)) << 8,
    };
    u64::from(phase(from)) << 8 | u64::from(phase(to)) << 16 | cause << 24
}

/// Returns the word that stands for a machine.
#[inline]
pub(super) fn address(graph: &'static Graph) -> u64 {
    std::ptr::from_ref(graph).addr() as u64
}

/// Reads an entry. Returns `None` for a name that is not known, which no entry of this program has.
pub(super) fn decode(words: Words, locality: usize, names: &Names) -> Option<FlightEntry> {
    let [at, fom, code, other] = words;
    let [kind, from, to, cause, ..] = code.to_le_bytes();
    let by = (other != 0).then_some(FomId(other));
    let graph = || names.graph(other);
    let name = |graph: &'static Graph, phase: u8| {
        let info = graph.phases().get(usize::from(phase));
        info.map(|info| info.name())
    };
    let event = match KINDS.get(usize::from(kind))? {
        Kind::Transition => FlightEvent::Transition {
            operation: graph()?.operation(),
            from: name(graph()?, from),
            to: name(graph()?, to),
            cause: match cause {
                0 => TransitionCause::Started,
                1 => TransitionCause::Resumed,
                2 => TransitionCause::Returned,
                3 => TransitionCause::Late,
                4 => TransitionCause::Exhausted,
                FAILED => TransitionCause::Failed(names.word((code >> 32) as usize)?),
                _ => return None,
            },
            ends: match graph()?.phases().get(usize::from(to)) {
                Some(info) => info.is_end(),
                None => true,
            },
        },
        Kind::RunBegins => FlightEvent::RunBegins {
            operation: graph()?.operation(),
            phase: name(graph()?, to)?,
        },
        Kind::RunEnds => FlightEvent::RunEnds,
        Kind::BlockBegins => FlightEvent::BlockBegins,
        Kind::BlockEnds => FlightEvent::BlockEnds,
        Kind::Woken => FlightEvent::Woken { by },
        Kind::TimerFired => FlightEvent::TimerFired,
        Kind::Arrived => FlightEvent::Arrived,
        Kind::EventSent => FlightEvent::EventSent { by },
        Kind::CommitBegins => FlightEvent::CommitBegins,
        Kind::CommitEnds => FlightEvent::CommitEnds,
        Kind::Panicked => FlightEvent::Panicked {
            operation: graph()?.operation(),
            phase: name(graph()?, to)?,
        },
    };
    Some(FlightEntry {
        at: Instant::from_nanos(at),
        locality,
        fom: FomId(fom),
        event,
    })
}
