//! What the foms of each operation type did.

use fom_runtime::observe::{EdgeCounter, OperationCounters, TransitionCause};

use crate::{
    catalog::{ENDED, PHASE_FOMS, PHASE_SECONDS, RETRIES, STARTED, TRANSITIONS},
    readings::Readings,
};

pub(crate) fn read(operations: &[OperationCounters], into: &mut Readings) {
    for of in operations {
        let operation = of.operation;
        let (mut started, mut done, mut failed) = (0, 0, 0);
        for edge in &of.edges {
            if edge.from.is_none() {
                started += edge.count;
            }
            match outcome(of, edge) {
                Some(Outcome::Done) => done += edge.count,
                Some(Outcome::Failed) => failed += edge.count,
                None => {}
            }
            let (from, to) = (edge.from.unwrap_or_default(), edge.to.unwrap_or_default());
            let labels = [operation, from, to, &cause(edge.cause)];
            into.count(TRANSITIONS, &labels, edge.count);
        }
        into.count(STARTED, &[operation], started);
        into.count(ENDED, &[operation, "done"], done);
        into.count(ENDED, &[operation, "failed"], failed);
        for phase in &of.phases {
            let is_end = |info: &fom_runtime::machine::PhaseInfo| info.is_end();
            if of.graph.find(phase.phase).is_some_and(is_end) {
                continue;
            }
            let labels = [operation, phase.phase];
            into.count(PHASE_FOMS, &labels, phase.foms);
            into.times(PHASE_SECONDS, &labels, &phase.times);
            into.count(RETRIES, &labels, phase.retries);
        }
    }
}

enum Outcome {
    Done,
    Failed,
}

/// Returns how an edge ends an operation, if it does.
fn outcome(of: &OperationCounters, edge: &EdgeCounter) -> Option<Outcome> {
    let Some(to) = edge.to else {
        return Some(Outcome::Failed);
    };
    let phase = of.graph.find(to)?;
    match (phase.is_failure(), phase.is_end()) {
        (true, _) => Some(Outcome::Failed),
        (false, true) => Some(Outcome::Done),
        (false, false) => None,
    }
}

/// Returns the name of a cause. A missed deadline with and without a function for it have the same word.
fn cause(cause: TransitionCause) -> String {
    match cause {
        TransitionCause::Failed(word) => format!("failed {word}"),
        other => other.to_string(),
    }
}
