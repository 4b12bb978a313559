//! The transition protocol: what becomes of a fom after a step, the same with a future and without.
//!
//! Order of one transition: the phase function has returned (the exit of the old phase), deadlines of the old visit are
//! taken out and those of the new one armed, phase and time are stored, listeners hear of it, those who wait for the phase
//! are told, and then the function of the new phase is entered.

use std::any::Any;

use crate::{
    Ended, PhaseInfo,
    clock::nanos,
    error::{BlockError, Cause, Failure},
    fom::{Interrupt, Outcome, Typed, panic_message},
    operation::{Entry, Next, Operation, Stepped},
    watch::{Transition, TransitionCause},
};

/// Where a fom stands between two steps.
pub(super) struct Course<O: Operation> {
    pub(super) operation: O,
    pub(super) phase: O::Phase,
}

/// What a step came to.
pub(super) enum Verdict<O: Operation> {
    Stepped(Stepped<O>),
    Panicked(Box<dyn Any + Send>),
    Interrupted(Interrupt),
}

/// What is to be done next.
pub(super) enum After<O: Operation> {
    Enter,
    Late,
    /// Wait for the next event in this visit.
    Stay,
    /// Wait until then, and enter the phase again.
    Retry(u64),
    Ended,
    Failed(Cause<O::Error>),
}

impl<O: Operation> Course<O> {
    pub(super) fn new(operation: O, phase: O::Phase) -> Self {
        Self { operation, phase }
    }

    #[inline]
    pub(super) fn index(&self) -> usize {
        O::index(O::kind(&self.phase))
    }

    #[inline]
    pub(super) fn info(&self) -> &'static PhaseInfo {
        &O::GRAPH.phases()[self.index()]
    }

    /// The first visit. A fom that was cancelled in the queue never gets to it.
    #[inline]
    pub(super) fn begin(&mut self, fom: &Typed<O>) -> After<O> {
        // A shutdown that looked for those to wake before this one was in any list has closed the runtime before.
        if let Some(interrupt) = fom.interrupt() {
            return self.settle(fom, Verdict::Interrupted(interrupt));
        }
        if fom.is_resumed() {
            self.resume(fom);
        } else {
            self.enter(fom, None, TransitionCause::Started, None);
        }
        if self.info().is_end() {
            After::Ended
        } else {
            After::Enter
        }
    }

    #[cold]
    fn resume(&mut self, fom: &Typed<O>) {
        let (left, tries) = fom
            .extra()
            .map_or((None, 0), |extra| (extra.left, extra.tries));
        self.enter(fom, None, TransitionCause::Resumed, left);
        if let Some(timing) = fom.timing() {
            timing.set_attempt(tries);
        }
    }

    #[inline]
    fn enter(
        &mut self,
        fom: &Typed<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
    ) {
        let world = fom.world();
        let hooks = world.hooks.active();
        let index = self.index();
        let info = self.info();
        let timing = if const { O::GRAPH.has_deadlines() } {
            fom.timing()
        } else {
            None
        };
        // Deadlines and listeners get the time as it is, the rest as it was a few steps ago.
        let timed =
            timing.filter(|timing| info.within().is_some() || left.is_some() || !timing.is_calm());
        // The budget is for steps: the first visit follows none. Else a thread that loses its processor just before it
        // would send a fom to the tail that has not run at all, behind those that were submitted after it.
        let now = crate::locality::step(world, from.is_some(), timed.is_some() || hooks.is_some());
        let (stayed, tried) = (now.saturating_sub(fom.since()), fom.attempt());
        if let Some(timing) = timed {
            timing.enter(fom, index, now, left);
        }
        fom.enter(index, now);
        if !info.takes().is_empty() {
            fom.set_takes(Some(O::kind(&self.phase)));
        } else if from.is_some_and(|from| !O::GRAPH.phases()[from].takes().is_empty()) {
            // What the old phase took stays for a later one that takes it.
            fom.set_takes(None);
        }
        if let Some(hooks) = hooks {
            let from = from.map(|from| O::GRAPH.phases()[from].name());
            let transition =
                Transition::new(fom, from, Some(info.name()), cause, now, stayed).tried(tried);
            hooks.tell(world, &transition, &self.operation, Some(&self.phase));
        }
        if fom.is_observed() {
            fom.arrived(index);
        }
    }

    /// Whether an interposer takes the place of the step.
    #[inline]
    pub(super) fn before(&mut self, fom: &Typed<O>) -> Option<Verdict<O>> {
        let hooks = fom.world().hooks.active()?;
        match hooks.before::<O>(&mut self.operation, &mut self.phase) {
            Ok(None) => None,
            Ok(Some(Ok(next))) => Some(Verdict::Stepped(Ok(Next::Go(next)))),
            Ok(Some(Err(error))) => Some(Verdict::Stepped(Err(error))),
            Err(panic) => Some(Verdict::Panicked(panic)),
        }
    }

    fn after(
        &mut self,
        fom: &Typed<O>,
        stepped: Stepped<O>,
    ) -> Result<Stepped<O>, Cause<O::Error>> {
        let Some(hooks) = fom
            .world()
            .hooks
            .active()
            .filter(|hooks| hooks.interposes::<O>())
        else {
            return Ok(stepped);
        };
        let result = match stepped {
            Ok(Next::Stay) => return Ok(stepped),
            Ok(Next::Go(next)) => Ok(next),
            Err(error) => Err(error),
        };
        let result = hooks
            .after::<O>(&mut self.operation, &mut self.phase, result)
            .map_err(|panic| Cause::Panicked(panic_message(panic)))?;
        // Only interposers can name a phase that is no declared exit; everybody else's exits are types.
        if let Ok(next) = &result {
            let to = O::index(O::kind(next));
            if !self
                .info()
                .exit_indexes()
                .iter()
                .any(|exit| usize::from(*exit) == to)
            {
                return Err(Cause::UndeclaredExit {
                    to: O::GRAPH.phases()[to].name(),
                });
            }
        }
        Ok(result.map(Next::Go))
    }

    pub(super) fn settle(&mut self, fom: &Typed<O>, verdict: Verdict<O>) -> After<O> {
        self.settle_as(fom, verdict, TransitionCause::Returned)
    }

    /// As [`settle`](Self::settle), for what the late function returned.
    pub(super) fn settle_late(&mut self, fom: &Typed<O>, verdict: Verdict<O>) -> After<O> {
        self.settle_as(fom, verdict, TransitionCause::Late)
    }

    #[inline]
    fn settle_as(
        &mut self,
        fom: &Typed<O>,
        verdict: Verdict<O>,
        cause: TransitionCause,
    ) -> After<O> {
        let stepped = match verdict {
            Verdict::Stepped(stepped) => match self.after(fom, stepped) {
                Ok(stepped) => stepped,
                Err(cause) => return After::Failed(cause),
            },
            Verdict::Panicked(panic) => return After::Failed(cause_of(panic)),
            Verdict::Interrupted(interrupt) => return self.interrupted(fom, interrupt),
        };
        match stepped {
            Ok(Next::Go(next)) => {
                let from = self.index();
                self.phase = next;
                self.enter(fom, Some(from), cause, None);
                if self.info().is_end() {
                    After::Ended
                } else {
                    After::Enter
                }
            }
            Ok(Next::Stay) => {
                // As a phase would: a flood of events must not keep the locality.
                crate::locality::step(fom.world(), true, false);
                After::Stay
            }
            Err(error) => self.erred(fom, error, cause),
        }
    }

    #[cold]
    fn interrupted(&mut self, fom: &Typed<O>, interrupt: Interrupt) -> After<O> {
        match interrupt {
            Interrupt::Shutdown => After::Failed(Cause::Shutdown),
            Interrupt::Cancelled => After::Failed(Cause::Cancelled),
            Interrupt::Late => {
                let Some(timing) = fom.timing() else {
                    unreachable!("late without a deadline")
                };
                let armed_in = timing.late_of(fom);
                timing.clear_late(fom.world().clock.nanos());
                if self.info().is_late() {
                    After::Late
                } else {
                    After::Failed(Cause::Late { armed_in })
                }
            }
        }
    }

    #[cold]
    fn erred(&mut self, fom: &Typed<O>, error: O::Error, cause: TransitionCause) -> After<O> {
        match (self.info().retries(), fom.timing()) {
            // An attempt of the late function would be one more visit without a deadline: it fails at once.
            (Some(retry), Some(timing))
                if timing.attempt() < retry.times && cause != TransitionCause::Late =>
            {
                let tries = timing.attempt();
                // Doubles from the least wait to the most.
                let wait = nanos(retry.min)
                    .saturating_mul(1 << tries.min(32))
                    .min(nanos(retry.max));
                timing.set_attempt(tries + 1);
                After::Retry(fom.world().clock.nanos().saturating_add(wait))
            }
            _ => After::Failed(Cause::Error(error)),
        }
    }

    pub(super) fn ended(self) -> Outcome<O> {
        Ok(Ended {
            phase: self.phase,
            operation: self.operation,
            untaken: Vec::new(),
        })
    }

    pub(super) fn failed(self, cause: Cause<O::Error>) -> Failure<O> {
        Failure::new(cause, self.info().name(), Some(self.operation))
    }
}

/// Why a fom failed whose function panicked.
pub(super) fn cause_of<E>(panic: Box<dyn Any + Send>) -> Cause<E> {
    match panic.downcast::<BlockError>() {
        // How a blocking phase that found no thread gets out of the user's function.
        Ok(error) => Cause::NoThread(*error),
        Err(panic) => Cause::Panicked(panic_message(panic)),
    }
}

/// The entry that goes with what is to be done.
pub(super) fn entry<E>(late: bool) -> Entry<E> {
    if late { Entry::Late } else { Entry::Enter }
}

/// The last transition of a fom that fails: into the standard failed outcome.
pub(super) fn tell_failure<O: Operation>(fom: &Typed<O>, failure: &Failure<O>) {
    let world = fom.world();
    let Some(hooks) = world.hooks.active() else {
        return;
    };
    let now = world.clock.nanos();
    let stayed = now.saturating_sub(fom.since());
    let cause = TransitionCause::Failed(failure.cause.name());
    let transition = Transition::new(fom, Some(failure.phase), None, cause, now, stayed);
    match &failure.operation {
        Some(operation) => hooks.tell::<O>(world, &transition, operation, None),
        None => hooks.tell_untyped(world, &transition),
    }
}
