//! The generated step alone, without the work of a runtime, beside the same machine by hand.

use std::hint::black_box;

use fom_runtime::{
    __private::{At, Entry, RunningFom, Stepped, SyncOperation, Synchronous},
    machine::{Graph, NoEvent, PhaseInfo},
    prelude::*,
};

use crate::machines::{Chain, Chained, mix};

/// Steps a [`Chain`] `times` times, in its one phase: a step needs a fom that runs. It is written by hand, because
/// only generated code has that fom.
pub(crate) struct Stepper {
    pub(crate) times: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepping {
    Step,
    Done,
}

const PHASES: &[PhaseInfo] = &[
    PhaseInfo::synchronous("Step", "").start().to(&[1]),
    PhaseInfo::end("Done", ""),
];

impl Operation for Stepper {
    type Phase = Stepping;
    type End = Stepping;
    type Kind = Stepping;
    type Error = BoxError;
    type Event = NoEvent;
    type Form = Synchronous;

    const GRAPH: &'static Graph = &Graph::new("Stepping", "Stepper", "", PHASES);
    const START: Stepping = Stepping::Step;
    const INDEX: fn(Stepping) -> usize = |phase| phase as usize;

    fn kind(phase: &Stepping) -> Stepping {
        *phase
    }

    fn kind_at(index: usize) -> Stepping {
        [Stepping::Step, Stepping::Done][index]
    }

    fn end(phase: Stepping) -> Option<Stepping> {
        (phase == Stepping::Done).then_some(phase)
    }
}

impl SyncOperation for Stepper {
    fn step(&mut self, at: At<'_, '_, Stepping>) -> Stepped<Self> {
        fom(self.times, at.fom)?;
        Ok(Some(Stepping::Done))
    }
}

#[inline(never)]
fn fom(times: u64, fom: RunningFom<'_, NoEvent>) -> Result<(), BoxError> {
    let mut chain = Chain {
        word: 1,
        left: times,
    };
    let mut phase = Chained::First;
    while !matches!(phase, Chained::Done) {
        // Hides the next phase from the compiler, as in a runtime.
        black_box(&mut phase);
        let at = At {
            phase: &mut phase,
            fom,
            entry: Entry::Enter,
        };
        // Fully qualified: the phase of the stepper has this name, too.
        match <Chain as SyncOperation>::step(&mut chain, at)? {
            Some(next) => phase = next,
            None => {}
        }
    }
    black_box(chain.word);
    Ok(())
}

enum Phase {
    First,
    Second,
    Third,
    Fourth,
    Done,
}

struct ByHand {
    word: u64,
    left: u64,
}

impl ByHand {
    fn next(&mut self, next: Phase) -> Phase {
        self.word = mix(self.word);
        self.left -= 1;
        match self.left {
            0 => Phase::Done,
            _ => next,
        }
    }

    #[inline]
    fn step(&mut self, phase: &Phase) -> Phase {
        match phase {
            Phase::First => self.next(Phase::Second),
            Phase::Second => self.next(Phase::Third),
            Phase::Third => self.next(Phase::Fourth),
            Phase::Fourth => self.next(Phase::First),
            Phase::Done => Phase::Done,
        }
    }
}

/// The least: an enum, a match, and no failures.
#[inline(never)]
pub(crate) fn by_hand(times: u64) {
    let mut machine = ByHand {
        word: 1,
        left: times,
    };
    let mut phase = Phase::First;
    while !matches!(phase, Phase::Done) {
        black_box(&mut phase);
        phase = machine.step(&phase);
    }
    black_box(machine.word);
}
