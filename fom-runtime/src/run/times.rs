//! The time limit and the retries of a phase that a function of the phase says at run time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    fom::RunningFom,
    graph::{PhaseInfo, Retry},
    incident::IncidentKind,
    operation::Operation,
    run::transition::Instance,
    typed::Typed,
};
use fom_protocol::{nanos, panic_message};

impl<O: Operation> Instance<O> {
    /// Returns how long the fom may stay in the phase that it enters, if a function of the phase says it. If the function
    /// panics, the fom is late at once, because a fom without its deadline could wait forever.
    #[inline(always)]
    pub(super) fn asked_time(&self, fom: &Typed<O>) -> Option<u64> {
        if const { O::GRAPH.needs().asked_times() } && self.info().deadline().is_asked() {
            ask(fom, self.info(), |fom| {
                self.operation.asked_within(&self.phase, fom)
            })
            .map_or(Some(0), |time| time.map(nanos))
        } else {
            None
        }
    }

    /// Returns the retries of the phase that has failed. If a function says them and panics, there are none.
    pub(super) fn retries(&self, fom: &Typed<O>) -> Option<Retry> {
        let declared = self.visited(fom).retries()?;
        if declared.times > 0 {
            return Some(declared);
        }
        let function = |fom: RunningFom<'_, O::Event>| self.operation.asked_retry(&self.phase, fom);
        let asked = ask(fom, self.info(), function);
        let asked = asked.flatten().unwrap_or(declared);
        Some(Retry {
            exhausted: declared.exhausted,
            ..asked
        })
    }
}

/// Calls a function of the user's for this phase. Returns `None` if it panics, which is reported.
#[cold]
fn ask<O: Operation, T>(
    fom: &Typed<O>,
    phase: &PhaseInfo,
    function: impl FnOnce(RunningFom<'_, O::Event>) -> T,
) -> Option<T> {
    let asked = catch_unwind(AssertUnwindSafe(|| function(RunningFom::new(fom))));
    let report = |panic| {
        let (phase, message) = (phase.name(), panic_message(panic));
        fom.env().report(
            IncidentKind::Panicked,
            format!("{} {}", fom.type_name(), fom.id()),
            format!(
                "a function for the times of phase `{phase}` of {} panicked: {message}",
                fom.id()
            ),
        );
    };
    asked.map_err(report).ok()
}
