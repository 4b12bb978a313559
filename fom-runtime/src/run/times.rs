//! The time limit and the retries of a phase that a function of the phase says at run time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    fom::RunningFom, graph::Retry, incident::IncidentKind, operation::Operation,
    run::transition::Instance, typed::Typed,
};
use fom_protocol::{nanos, panic_message};

impl<O: Operation> Instance<O> {
    /// Returns how long the fom may stay in the phase that it enters, if a function of the phase says it. If the function
    /// panics, the fom is late at once, because a fom without its deadline could wait forever.
    #[inline(always)]
    pub(super) fn asked_time(&self, fom: &Typed<O>) -> Option<u64> {
        if const { O::GRAPH.has_asked_times() } && self.info().deadline().is_asked() {
            self.ask(fom, |fom| self.operation.asked_within(&self.phase, fom))
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
        let asked = self.ask(fom, |fom| self.operation.asked_retry(&self.phase, fom));
        let asked = asked.flatten().unwrap_or(declared);
        Some(Retry {
            exhausted: declared.exhausted,
            ..asked
        })
    }

    /// Calls a function of the user's. Returns `None` if it panics, which is reported.
    #[cold]
    fn ask<T>(
        &self,
        fom: &Typed<O>,
        function: impl FnOnce(RunningFom<'_, O::Event>) -> T,
    ) -> Option<T> {
        let asked = catch_unwind(AssertUnwindSafe(|| function(RunningFom::new(fom))));
        let phase = self.info().name();
        asked
            .map_err(|panic| {
                let message = panic_message(panic);
                fom.env().report(
                    IncidentKind::Panicked,
                    format!("{} {}", fom.type_name(), fom.id()),
                    format!(
                        "a function for the times of phase `{phase}` of {} panicked: {message}",
                        fom.id()
                    ),
                );
            })
            .ok()
    }
}
