//! The transition protocol: what becomes of a fom after a step, the same with a future and without.
//!
//! Order of one transition: the phase function has returned (the exit of the old phase), deadlines of the old visit are
//! taken out and those of the new one armed, phase and time are stored, listeners hear of it, those who wait for the phase
//! are told, and then the function of the new phase is entered.

use crate::{
    Ended, PhaseInfo,
    clock::nanos,
    error::{BlockError, Cause, Failure},
    fom::{Interrupt, TypedFom, panic_message, typed::Outcome},
    operation::{Entry, Next, Operation, Stepped},
    watch::{Transition, TransitionCause},
};

/// Where a fom stands between two steps.
pub(super) struct Course<O: Operation> {
    pub(super) operation: O,
    pub(super) phase: O::Phase,
    /// Failed attempts in this visit.
    tries: u32,
    /// What was left of the deadline when it was saved.
    left: Option<u64>,
    resumed: bool,
}

/// What a step came to.
pub(super) enum Verdict<O: Operation> {
    Stepped(Stepped<O>),
    Panicked(Box<dyn std::any::Any + Send>),
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
    pub(super) fn new(
        operation: O,
        phase: O::Phase,
        tries: u32,
        left: Option<u64>,
        resumed: bool,
    ) -> Self {
        Self {
            operation,
            phase,
            tries,
            left,
            resumed,
        }
    }

    fn index(&self) -> usize {
        O::index(O::kind(&self.phase))
    }

    pub(super) fn info(&self) -> &'static PhaseInfo {
        &O::GRAPH.phases()[self.index()]
    }

    /// The first visit. A fom that was cancelled in the queue never gets to it.
    pub(super) fn begin(&mut self, fom: &dyn TypedFom<O>) -> After<O> {
        // The runtime is asked as well: a shutdown may not have come to this fom yet, or may have looked for those to tell
        // just before it was in any list. In the second case nobody else would ever tell it.
        let closed = fom
            .header()
            .world()
            .is_closed()
            .then_some(Interrupt::Shutdown);
        if let Some(interrupt) = closed.or_else(|| fom.header().interrupt()) {
            return self.settle(fom, Verdict::Interrupted(interrupt));
        }
        fom.header().set_attempt(self.tries);
        let left = self.left.take();
        let cause = if self.resumed {
            TransitionCause::Resumed
        } else {
            TransitionCause::Started
        };
        self.enter(fom, None, cause, left);
        if self.info().is_end() {
            After::Ended
        } else {
            After::Enter
        }
    }

    fn enter(
        &mut self,
        fom: &dyn TypedFom<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
    ) {
        let header = fom.header();
        let now = header.world().clock.nanos();
        let stayed = now.saturating_sub(header.since());
        let tried = header.attempt();
        header.set_attempt(self.tries);
        let index = self.index();
        header.enter(index, now, left);
        let info = self.info();
        if !info.takes().is_empty() {
            fom.typed().takes(Some(O::kind(&self.phase)));
        } else if from.is_some_and(|from| !O::GRAPH.phases()[from].takes().is_empty()) {
            // What the old phase took stays for a later one that takes it.
            fom.typed().takes(None);
        }
        if let Some(hooks) = header.world().hooks.active() {
            let from = from.map(|from| O::GRAPH.phases()[from].name());
            let transition =
                Transition::new(header, from, Some(info.name()), cause, now, stayed).tried(tried);
            hooks.tell(
                header.world(),
                &transition,
                &self.operation,
                Some(&self.phase),
            );
        }
        if header.watched.load(crate::sync::atomic::Ordering::Relaxed) {
            fom.typed().arrived(index);
        }
        // The budget is for steps: the first visit follows none. Else a thread that loses its processor just before it
        // would send a fom to the tail that has not run at all, behind those that were submitted after it.
        if from.is_some() {
            crate::locality::spend(now);
        }
    }

    /// Whether an interposer takes the place of the step.
    pub(super) fn before(&mut self, fom: &dyn TypedFom<O>) -> Option<Verdict<O>> {
        let hooks = fom.header().world().hooks.active()?;
        match hooks.before::<O>(&mut self.operation, &mut self.phase) {
            Ok(None) => None,
            Ok(Some(Ok(next))) => Some(Verdict::Stepped(Ok(Next::Go(next)))),
            Ok(Some(Err(error))) => Some(Verdict::Stepped(Err(error))),
            Err(panic) => Some(Verdict::Panicked(panic)),
        }
    }

    fn after(
        &mut self,
        fom: &dyn TypedFom<O>,
        stepped: Stepped<O>,
    ) -> Result<Stepped<O>, Cause<O::Error>> {
        let Some(hooks) = fom
            .header()
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

    pub(super) fn settle(&mut self, fom: &dyn TypedFom<O>, verdict: Verdict<O>) -> After<O> {
        self.settle_as(fom, verdict, TransitionCause::Returned)
    }

    /// As [`settle`](Self::settle), for what the late function returned.
    pub(super) fn settle_late(&mut self, fom: &dyn TypedFom<O>, verdict: Verdict<O>) -> After<O> {
        self.settle_as(fom, verdict, TransitionCause::Late)
    }

    fn settle_as(
        &mut self,
        fom: &dyn TypedFom<O>,
        verdict: Verdict<O>,
        cause: TransitionCause,
    ) -> After<O> {
        let header = fom.header();
        let stepped = match verdict {
            Verdict::Stepped(stepped) => match self.after(fom, stepped) {
                Ok(stepped) => stepped,
                Err(cause) => return After::Failed(cause),
            },
            Verdict::Panicked(panic) => {
                return After::Failed(match panic.downcast::<BlockError>() {
                    // How a blocking phase that found no thread gets out of the user's function.
                    Ok(error) => Cause::NoThread(*error),
                    Err(panic) => Cause::Panicked(panic_message(panic)),
                });
            }
            Verdict::Interrupted(Interrupt::Shutdown) => return After::Failed(Cause::Shutdown),
            Verdict::Interrupted(Interrupt::Cancelled) => return After::Failed(Cause::Cancelled),
            Verdict::Interrupted(Interrupt::Late) => {
                let armed_in = header.late_of();
                header.clear_late();
                return if self.info().is_late() {
                    After::Late
                } else {
                    After::Failed(Cause::Late { armed_in })
                };
            }
        };
        match stepped {
            Ok(Next::Go(next)) => {
                let from = self.index();
                self.phase = next;
                self.tries = 0;
                self.enter(fom, Some(from), cause, None);
                if self.info().is_end() {
                    After::Ended
                } else {
                    After::Enter
                }
            }
            Ok(Next::Stay) => {
                // As a phase would: a flood of events must not keep the locality.
                crate::locality::spend(header.world().clock.nanos());
                After::Stay
            }
            Err(error) => match self.info().retries() {
                // An attempt of the late function would be one more visit without a deadline: it fails at once.
                Some(retry) if self.tries < retry.times && cause != TransitionCause::Late => {
                    // Doubles from the least wait to the most.
                    let wait = nanos(retry.min)
                        .saturating_mul(1 << self.tries.min(32))
                        .min(nanos(retry.max));
                    self.tries += 1;
                    header.set_attempt(self.tries);
                    After::Retry(header.world().clock.nanos().saturating_add(wait))
                }
                _ => After::Failed(Cause::Error(error)),
            },
        }
    }

    pub(super) fn ended(self) -> Outcome<O> {
        Ok(Ended {
            phase: self.phase,
            operation: self.operation,
            untaken: Vec::new(),
        })
    }

    pub(super) fn failed(self, cause: Cause<O::Error>) -> Outcome<O> {
        Err(Failure::new(
            cause,
            self.info().name(),
            Some(self.operation),
        ))
    }
}

/// The entry that goes with what is to be done.
pub(super) fn entry<E>(late: bool) -> Entry<E> {
    if late { Entry::Late } else { Entry::Enter }
}

/// The last transition of a fom that fails: into the standard failed outcome.
pub(super) fn tell_end<O: Operation>(fom: &dyn TypedFom<O>, outcome: &Outcome<O>) {
    let (Err(failure), header) = (outcome, fom.header()) else {
        return;
    };
    let Some(hooks) = header.world().hooks.active() else {
        return;
    };
    let now = header.world().clock.nanos();
    let stayed = now.saturating_sub(header.since());
    let cause = TransitionCause::Failed(failure.cause.name());
    let transition = Transition::new(header, Some(failure.phase), None, cause, now, stayed);
    match &failure.operation {
        Some(operation) => hooks.tell::<O>(header.world(), &transition, operation, None),
        None => hooks.tell_untyped(header.world(), &transition),
    }
}
