//! The generated step alone, without the work of a runtime, beside the same machine by hand.

use std::hint::black_box;

use fom_runtime::{
    __private::{At, Entry, SyncOperation},
    prelude::*,
};

use crate::machines::{Chain, Chained, mix};

/// Steps a [`Chain`] `times` times, in its one phase: a context exists only inside a phase.
pub(crate) struct Stepper {
    pub(crate) times: u64,
}

#[fom(operation(Stepper), transient)]
pub(crate) enum Stepping {
    #[phase(start, sync, to(Done))]
    Step,
    #[phase(end)]
    Done,
}

impl SteppingTransitions for Stepper {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        fom(self.times, cx)
    }
}

#[inline(never)]
fn fom(times: u64, cx: &mut Cx<'_>) -> Result<(), BoxError> {
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
            cx: &mut *cx,
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
