//! The questions. Each is a sum of the counts of programs.

use std::{collections::HashMap, io};

use crate::callgrind::slope;

/// The parts of a sum: a program, and the weight of its count.
type Sum = &'static [(&'static str, f64)];

/// A question.
pub struct Measure {
    /// The name in the baseline.
    pub name: &'static str,
    /// A description in words.
    pub what: &'static str,
    fom: Sum,
    tokio: Option<Sum>,
    limit: Sum,
}

/// The answer to a question.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The instructions of fom.
    pub fom: f64,
    /// The instructions of tokio's multi-thread runtime with one worker, where measured.
    pub tokio: Option<f64>,
    /// The least possible instructions.
    pub limit: f64,
}

/// The side to count.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// Fom's.
    Fom,
    /// Tokio's multi-thread runtime with one worker.
    Tokio,
    /// The least possible program.
    Limit,
}

/// All questions.
pub const MEASURES: &[Measure] = &[
    Measure {
        name: "step",
        what: "the generated step of a sync phase alone; limit: an enum and a match by hand",
        fom: &[("step", 1.0)],
        tokio: None,
        limit: &[("step-hand", 1.0)],
    },
    Measure {
        name: "sync-operation",
        what: "an operation of 4 sync phases, submitted in its locality, 512 in flight, spawn to finish",
        fom: &[("sync-4", 1.0)],
        tokio: Some(&[("tokio-4", 1.0)]),
        limit: &[("limit-4", 1.0)],
    },
    Measure {
        name: "awaited",
        what: "the same operation, with its outcome: the fom that submits it awaits it",
        fom: &[("await-4", 1.0)],
        tokio: None,
        limit: &[("limit-4", 1.0)],
    },
    Measure {
        name: "in-place",
        what: "the same by `now`, on the stack of the fom that submits it",
        fom: &[("now-4", 1.0)],
        tokio: None,
        limit: &[("limit-4", 1.0)],
    },
    Measure {
        name: "outside",
        what: "as sync-operation, submitted by a thread outside of the runtime",
        fom: &[("outside-4", 1.0)],
        tokio: None,
        limit: &[("limit-4", 1.0)],
    },
    Measure {
        name: "keyed",
        what: "the same by `.key(..).queue()`, with a key that no other operation in flight has",
        fom: &[("keyed-4", 1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "queued",
        what: "the same with one key for all, so that each waits for the one before it",
        fom: &[("queued-4", 1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "sync-transition",
        what: "a further transition of it: a fourth of what 8 phases take more than 4",
        fom: &[("sync-8", 0.25), ("sync-4", -0.25)],
        tokio: Some(&[("tokio-8", 0.25), ("tokio-4", -0.25)]),
        limit: &[("limit-8", 0.25), ("limit-4", -0.25)],
    },
    Measure {
        name: "sync-long",
        what: "a transition of one that has very many, to the tail after each 64",
        fom: &[("sync-long", 1.0)],
        tokio: None,
        limit: &[("limit-8", 0.25), ("limit-4", -0.25)],
    },
    Measure {
        name: "counted",
        what: "what the counters take of a transition of sync-long",
        fom: &[("counted", 1.0), ("sync-long", -1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "recorded",
        what: "what the flight recorder takes of a transition of sync-long",
        fom: &[("recorded", 1.0), ("sync-long", -1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "heard",
        what: "what an empty listener takes of a transition of sync-long",
        fom: &[("heard", 1.0), ("sync-long", -1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "history",
        what: "what a history of 16 phases takes of a transition of sync-long",
        fom: &[("history", 1.0), ("sync-long", -1.0)],
        tokio: None,
        limit: &[],
    },
    Measure {
        name: "async-operation",
        what: "as sync-operation, with 4 async phases",
        fom: &[("async-4", 1.0)],
        tokio: Some(&[("tokio-4", 1.0)]),
        limit: &[("limit-4", 1.0)],
    },
    Measure {
        name: "async-transition",
        what: "a further transition of it",
        fom: &[("async-8", 0.25), ("async-4", -0.25)],
        tokio: Some(&[("tokio-8", 0.25), ("tokio-4", -0.25)]),
        limit: &[("limit-8", 0.25), ("limit-4", -0.25)],
    },
    Measure {
        name: "async-long",
        what: "as sync-long, with async phases",
        fom: &[("async-long", 1.0)],
        tokio: None,
        limit: &[("limit-8", 0.25), ("limit-4", -0.25)],
    },
    Measure {
        name: "wake",
        what: "an event to a parked sync fom of the same locality, and its run",
        fom: &[("event", 1.0)],
        tokio: None,
        limit: &[("limit-event", 1.0)],
    },
    Measure {
        name: "wake-async",
        what: "the same with an async phase",
        fom: &[("event-async", 1.0)],
        tokio: None,
        limit: &[("limit-event", 1.0)],
    },
    Measure {
        name: "call",
        what: "`cx.call`, parked until another fom of the locality answers, and the run after it",
        fom: &[("call", 1.0)],
        tokio: None,
        limit: &[("limit-call", 1.0)],
    },
    Measure {
        name: "park",
        what: "spawn, and wait in a sync phase for an event",
        fom: &[("park", 1.0)],
        tokio: None,
        limit: &[("limit-park", 1.0)],
    },
    Measure {
        name: "park-arm",
        what: "the same with a deadline",
        fom: &[("timed", 1.0)],
        tokio: None,
        limit: &[("limit-timed", 1.0)],
    },
    Measure {
        name: "arm",
        what: "what the deadline takes of it",
        fom: &[("timed", 1.0), ("park", -1.0)],
        tokio: None,
        limit: &[("limit-timed", 1.0), ("limit-park", -1.0)],
    },
    Measure {
        name: "event-cancel-end",
        what: "the event, the deadline taken out, the end",
        fom: &[("timed-go", 1.0), ("timed", -1.0)],
        tokio: None,
        limit: &[("limit-timed-go", 1.0), ("limit-timed", -1.0)],
    },
];

/// Counts programs, each once.
#[derive(Default)]
pub struct Counter {
    slopes: HashMap<&'static str, f64>,
}

impl Counter {
    /// Counts the programs of a question.
    ///
    /// # Errors
    ///
    /// Fails if valgrind cannot be run, or a program fails under it.
    pub fn count(&mut self, measure: &Measure) -> io::Result<Counted> {
        Ok(Counted {
            fom: self.sum(measure.fom)?,
            tokio: measure.tokio.map(|sum| self.sum(sum)).transpose()?,
            limit: self.sum(measure.limit)?,
        })
    }

    /// Counts one side of a question; returns `None` for a side that takes no part.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn count_side(&mut self, measure: &Measure, side: Side) -> io::Result<Option<f64>> {
        let sum = match side {
            Side::Fom => Some(measure.fom),
            Side::Tokio => measure.tokio,
            Side::Limit => Some(measure.limit),
        };
        sum.map(|sum| self.sum(sum)).transpose()
    }

    fn sum(&mut self, sum: Sum) -> io::Result<f64> {
        let mut total = 0.0;
        for (program, weight) in sum {
            total += weight * self.slope(program)?;
        }
        Ok(total)
    }

    fn slope(&mut self, program: &'static str) -> io::Result<f64> {
        if let Some(slope) = self.slopes.get(program) {
            return Ok(*slope);
        }
        // Whole windows. The cheapest programs run more often: the counts of two starts differ by some thousands.
        let times = match program {
            "step" | "step-hand" | "sync-long" | "async-long" | "counted" | "recorded"
            | "heard" | "history" => [10_240, 102_400],
            _ => [4_096, 20_480],
        };
        let slope = slope(program, times)?;
        self.slopes.insert(program, slope);
        Ok(slope)
    }
}
