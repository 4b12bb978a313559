//! The transition of a fom: its effects, and what a fom does after a function of its phase has returned. It is the same
//! with and without a future.
//!
//! A transition has these steps, in this order:
//!
//! 1. The function of the old phase has returned.
//! 2. The deadlines of the old visit are removed, and the deadlines of the new visit are armed.
//! 3. Phase and time are stored.
//! 4. Listeners hear of the transition, then waiters for the phase.
//! 5. The fom enters the function of the new phase.

use std::{any::Any, mem, thread};

use crate::{
    fom::{
        BlockError, Cause, Entry, Extras, Function, Header, Then, Transition, TransitionCause,
        counters::{LastVisit, count_failure, count_retry, count_returned, count_transition},
        flight::{self, record_returned},
        hand,
    },
    graph::{PhaseInfo, Retry},
    operation::{Operation, Stepped},
    run::{
        next::{Next, Step, Visit, next, next_cold},
        run_loop::Decided,
    },
    typed::{self, AtEnd, Failure, Outcome, Typed},
};
use fom_protocol::{nanos, panic_message};

/// The operation and phase of a fom between two steps.
pub(super) struct Instance<O: Operation> {
    pub(super) operation: O,
    pub(super) phase: O::Phase,
}

/// The result of a function of the user's, or its panic.
pub(super) type Returned<O> = thread::Result<Stepped<O>>;

impl<O: Operation> Instance<O> {
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

    /// Returns the index of the phase in which a function runs or has run. If it took the data of its phase, the
    /// start stands in for that phase.
    #[inline]
    pub(super) fn visited_index(&self, fom: &Typed<O>) -> usize {
        if const { O::GRAPH.needs().taken_data() } {
            fom.visit().index()
        } else {
            self.index()
        }
    }

    /// Returns the phase in which a function runs or has run.
    #[inline]
    pub(super) fn visited(&self, fom: &Typed<O>) -> &'static PhaseInfo {
        &O::GRAPH.phases()[self.visited_index(fom)]
    }

    /// Returns the visit between two functions, as far as the phase and the budget decide.
    #[inline(always)]
    pub(super) fn visit(&self, spent: bool) -> Visit {
        Visit {
            end: self.info().is_end(),
            spent,
            ..Visit::CALM
        }
    }

    /// Begins the first visit, in a runtime that keeps nothing and has no listeners.
    #[inline(always)]
    pub(super) fn begin_unheard(&mut self, fom: &Typed<O>) {
        fom.flags.begin();
        let now = hand::first_step(fom.env());
        fom.visit().enter(self.index(), now);
    }

    /// Goes to the next phase. The caller has checked, after the step, that there are no hooks.
    #[inline(always)]
    pub(super) fn go_on(&mut self, fom: &Typed<O>, to: O::Phase) -> Next {
        let from = self.visited_index(fom);
        let (now, spent) = self.leave(fom, to);
        if fom.is_noted() {
            go_on_noted(self, fom, from, now);
        } else {
            self.enter_unheard(fom, None, now);
        }
        next(Step::Visit(self.visit(spent)))
    }

    /// As [`go_on`](Self::go_on), in a runtime that [only observes](Extras::are_only_observed). Returns whether the run
    /// has used up its budget. It returns no more, so that the loop over the phases stays small.
    #[inline(never)]
    pub(super) fn go_on_observed(&mut self, fom: &Typed<O>, to: O::Phase, extras: Extras) -> bool {
        let last = LastVisit::of(fom);
        let from = self.visited_index(fom);
        let (now, spent) = self.leave(fom, to);
        if fom.is_noted() {
            go_on_noted(self, fom, from, now);
            return spent;
        }
        let now = self.enter_unheard(fom, None, now);
        if extras.are_counted() {
            count_returned(fom, last, from, self.index(), now);
        }
        if extras.are_recorded() {
            record_returned(fom, from, self.index());
        }
        spent
    }

    /// Leaves the phase for the next one. Returns the time, and whether the run has used up its budget.
    #[inline(always)]
    fn leave(&mut self, fom: &Typed<O>, to: O::Phase) -> (u64, bool) {
        self.phase = to;
        if const { O::GRAPH.needs().gates() } {
            self.leave_gate(fom);
        }
        let step = hand::step(fom.env());
        self.take_events(fom);
        step
    }

    /// Decides after the phase function has returned, in a runtime that does more with a transition.
    #[inline(never)]
    pub(super) fn go_on_heard(
        &mut self,
        fom: &Typed<O>,
        stepped: Stepped<O>,
        extras: Extras,
    ) -> Decided<O> {
        match stepped {
            Ok(Some(to)) if extras.are_only_observed() => {
                let spent = self.go_on_observed(fom, to, extras);
                Ok(next(Step::Visit(self.visit(spent))))
            }
            Ok(Some(to)) if !extras.settle() => {
                let from = self.visited_index(fom);
                self.phase = to;
                self.enter(fom, Some(from), TransitionCause::Returned, None);
                Ok(next(Step::Visit(self.visit(hand::spent()))))
            }
            stepped => self.settle(fom, Ok(stepped), Entry::Enter),
        }
    }

    /// Stays in the visit, for its next event. The caller has checked that there are no hooks.
    #[inline(always)]
    pub(super) fn stay(&mut self, fom: &Typed<O>) -> Next {
        // A step counts like a phase, so that a flood of events does not occupy the locality.
        let (_, spent) = hand::step(fom.env());
        if fom.is_noted() {
            fom.visit().leave_event();
            fom.outbox().send();
        }
        next(Step::Visit(Visit {
            spent,
            ..Visit::CALM
        }))
    }

    /// Enters the phase that the fom is in now.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        fom: &Typed<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
    ) {
        if const { O::GRAPH.needs().gates() } {
            self.leave_gate(fom);
        }
        let env = fom.env();
        let now = match from {
            Some(_) => hand::step(env).0,
            None => hand::first_step(env),
        };
        self.take_events(fom);
        let extras = env.hooks.extras();
        if !extras.are_only_observed() || fom.is_noted() {
            self.enter_noted(fom, from, cause, left, now);
        } else if extras.are_any() {
            let last = LastVisit::of(fom);
            let now = self.enter_unheard(fom, left, now);
            observe(fom, last, from, self.index(), cause, now);
        } else {
            self.enter_unheard(fom, left, now);
        }
    }

    /// Begins to take the events of this phase.
    #[inline(always)]
    fn take_events(&self, fom: &Typed<O>) {
        if const { O::GRAPH.needs().events() } {
            fom.set_takes((!self.info().takes().is_empty()).then(|| O::kind(&self.phase)));
        }
    }

    /// Enters the phase without telling a listener. Most transitions have no listener and no deadline. Returns the time
    /// of the transition.
    #[inline(always)]
    fn enter_unheard(&self, fom: &Typed<O>, left: Option<u64>, now: u64) -> u64 {
        if const { O::GRAPH.needs().deadlines() } {
            self.enter_timed(fom, left, now)
        } else {
            fom.visit().enter(self.index(), now);
            now
        }
    }

    /// Enters the phase and arms its deadlines, without telling a listener. Returns the time of the transition.
    #[inline(never)]
    fn enter_timed(&self, fom: &Typed<O>, left: Option<u64>, mut now: u64) -> u64 {
        let index = self.index();
        let left = left.or_else(|| self.asked_time(fom));
        if let Some(timing) = fom.timing()
            && (self.info().deadline().within().is_some() || left.is_some() || !timing.is_calm())
        {
            // Deadlines use the current time. Other uses get the time as of a few steps ago.
            now = hand::look(fom.env());
            timing.enter(fom, index, now, left);
        }
        fom.visit().enter(index, now);
        now
    }

    #[inline(never)]
    fn enter_noted(
        &mut self,
        fom: &Typed<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
        mut now: u64,
    ) {
        let env = fom.env();
        let hooks = env.hooks.heard();
        let index = self.index();
        let last = LastVisit::of(fom);
        let tried = fom.visit().attempt();
        let error = hooks.as_ref().and_then(|_| fom.visit().last_error());
        now = self.enter_timed(fom, left, now);
        observe(fom, last, from, self.index(), cause, now);
        let cold = fom.cold();
        if let Some(cold) = cold {
            cold.remember(index, now, env.history);
            if cause != TransitionCause::Resumed
                && let Some(rare) = cold.rare()
            {
                rare.begin_visit();
                if fom.told_to_end().is_some() {
                    // This phase hears a cancel that an earlier phase did not hear. The fom looks again when it stops.
                    fom.wake();
                }
            }
        }
        if let Some(hooks) = hooks {
            let transition = Transition::new(fom, from, Some(index), cause, last.since())
                .tried(tried)
                .after(error);
            typed::tell(&hooks, env, &transition, &self.operation, Some(&self.phase));
            if let Some(at) = transition.asked_time() {
                // The next transition tells how long the fom stayed since that time.
                fom.visit().began(at);
            }
        }
        if fom.marks.is_observed() {
            fom.waiters().arrived(index);
        }
        if cold.is_some() {
            fom.outbox().send();
        }
    }

    /// Returns the result of an interposer that replaces the step.
    #[inline]
    pub(super) fn before(&mut self, fom: &Typed<O>) -> Option<Returned<O>> {
        if fom.env().hooks.interpose() {
            self.interposed(fom)
        } else {
            None
        }
    }

    #[cold]
    fn interposed(&mut self, fom: &Typed<O>) -> Option<Returned<O>> {
        let hooks = fom.env().hooks.interposing()?;
        match typed::before(&hooks, &mut self.operation, &mut self.phase) {
            Ok(result) => result.map(|result| Ok(result.map(Some))),
            Err(panic) => Some(Err(panic)),
        }
    }

    #[cold]
    fn after(
        &mut self,
        fom: &Typed<O>,
        stepped: Stepped<O>,
    ) -> Result<Stepped<O>, Cause<O::Error>> {
        let Some(hooks) = fom
            .env()
            .hooks
            .interposing()
            .filter(|hooks| typed::interposes::<O>(hooks))
        else {
            return Ok(stepped);
        };
        let result = match stepped {
            Ok(None) => return Ok(stepped),
            Ok(Some(next)) => Ok(next),
            Err(error) => Err(error),
        };
        let result = typed::after(&hooks, &mut self.operation, &mut self.phase, result)
            .map_err(|panic| Cause::Panicked(panic_message(panic)))?;
        // Only interposers can name a phase that is not a declared exit. All other exits are checked by their types.
        if let Ok(next) = &result {
            let to = O::index(O::kind(next));
            if !self
                .visited(fom)
                .exit_indexes()
                .iter()
                .any(|exit| usize::from(*exit) == to)
            {
                return Err(Cause::UndeclaredExit {
                    to: O::GRAPH.phases()[to].name(),
                });
            }
        }
        Ok(result.map(Some))
    }

    /// Decides after a function has returned.
    pub(super) fn settle(
        &mut self,
        fom: &Typed<O>,
        returned: Returned<O>,
        function: Function,
    ) -> Decided<O> {
        let stepped = match returned {
            Ok(stepped) if function == Entry::Failed || !fom.env().hooks.interpose() => stepped,
            Ok(stepped) => match self.after(fom, stepped) {
                Ok(stepped) => stepped,
                Err(cause) => return self.fails(fom, cause),
            },
            Err(panic) => return self.fails(fom, cause_of(fom, panic)),
        };
        let then = match stepped {
            Ok(Some(next)) => {
                let from = self.visited_index(fom) as u8;
                let left = mem::replace(&mut self.phase, next);
                if fom.is_noted() {
                    keep_left(fom, left);
                }
                Then::Enter { from, by: function }
            }
            Ok(None) => Then::Stay,
            Err(error) => return self.erred(fom, Cause::Error(error), function),
        };
        let durable = fom.is_journaled();
        if durable && matches!(then, Then::Stay) {
            // A step counts like a phase, so that a flood of events does not occupy the locality.
            hand::step(fom.env());
        }
        self.run(fom).after_step(Step::Made { then, durable })
    }

    /// Decides after this function failed.
    #[cold]
    pub(super) fn erred(
        &mut self,
        fom: &Typed<O>,
        cause: Cause<O::Error>,
        function: Function,
    ) -> Decided<O> {
        fom.outbox().discard();
        let attempt = self.retries(fom).zip(fom.timing());
        let now = || fom.env().clock.nanos();
        let decided = next_cold(Step::Error {
            function,
            retry: attempt.and_then(|(retry, timing)| due(retry, timing.attempt(), now())),
            exhausted: attempt.is_some_and(|(retry, _)| retry.exhausted),
            way_out: self.has_way_out(fom),
            durable: fom.is_journaled(),
        });
        match decided {
            Next::Commit(Then::Retry(at)) | Next::Proceed(Then::Retry(at)) => {
                self.attempt_failed(fom, &cause, Some(at));
                if fom.env().hooks.are_counted() {
                    count_retry(fom);
                }
                if let Some((_, timing)) = attempt {
                    timing.set_attempt(timing.attempt() + 1);
                }
                Ok(decided)
            }
            Next::Call(Entry::Exhausted) => {
                self.attempt_failed(fom, &cause, None);
                if let Some(kept) = fom.journaled() {
                    kept.enter(Entry::Exhausted);
                }
                Ok(decided)
            }
            decided => self.fails_unless(fom, decided, cause),
        }
    }

    pub(super) fn ended(self) -> Outcome<O> {
        Ok(AtEnd::new(self.operation, self.phase))
    }

    pub(super) fn failed(self, fom: &Typed<O>, cause: Cause<O::Error>) -> Failure<O> {
        let mut failure = Failure::new(
            cause,
            O::kind_at(self.visited_index(fom)),
            Some(self.operation),
        );
        failure.attempts = fom.visit().attempts();
        failure
    }
}

/// Keeps the phase that the fom leaves, if the store may refuse the transition.
#[cold]
fn keep_left<O: Operation>(fom: &Typed<O>, left: O::Phase) {
    fom.outbox().with(|outbox| {
        if outbox.may_fail() {
            outbox.keep_phase(Box::new(left));
        }
    });
}

/// Counts and records the transition into the phase `to`, as the runtime does.
#[inline]
fn observe(
    fom: &Header,
    last: LastVisit,
    from: Option<usize>,
    to: usize,
    cause: TransitionCause,
    now: u64,
) {
    let extras = fom.env().hooks.extras();
    if extras.are_counted() {
        count_transition(fom, last, from, to, cause, now);
    }
    if extras.are_recorded() {
        flight::record_transition(fom, from, Some(to), cause);
    }
}

/// Keeps the arguments of a rare call out of the frequent path.
#[cold]
#[inline(never)]
fn go_on_noted<O: Operation>(instance: &mut Instance<O>, fom: &Typed<O>, from: usize, now: u64) {
    instance.enter_noted(fom, Some(from), TransitionCause::Returned, None, now);
}

/// Returns the cause for a panic of the user's function, which the flight recorder notes.
#[cold]
pub(super) fn cause_of<E>(fom: &Header, panic: Box<dyn Any + Send>) -> Cause<E> {
    match panic.downcast::<BlockError>() {
        // A blocking phase that found no thread leaves the user's function by this panic.
        Ok(error) => Cause::NoThread(*error),
        Err(panic) => {
            let message = panic_message(panic);
            if fom.env().flight().is_some() {
                flight::record_panic(fom);
            }
            fom.env().owned().host().panicked(fom, &message);
            Cause::Panicked(message)
        }
    }
}

/// Returns when the next attempt is due, or `None` if this was the last. The pause doubles from the shortest to the
/// longest.
fn due(retry: Retry, tries: u32, now: u64) -> Option<u64> {
    let pause = nanos(retry.min)
        .saturating_mul(1 << tries.min(32))
        .min(nanos(retry.max));
    (tries < retry.times).then(|| now.saturating_add(pause))
}

/// Returns the cause of a transition for which this function chose the exit.
pub(super) fn transition_cause(function: Function, fom: &Header) -> TransitionCause {
    match function {
        Entry::Enter => TransitionCause::Returned,
        Entry::Late => TransitionCause::Late,
        Entry::Exhausted => TransitionCause::Exhausted,
        Entry::Failed => TransitionCause::Failed(fom.failure().word()),
    }
}

/// Counts, records and tells the last transition of a failed fom: into the standard failed outcome.
#[cold]
pub(super) fn tell_failure<O: Operation>(fom: &Typed<O>, failure: &Failure<O>) {
    let env = fom.env();
    if env.hooks.are_counted() {
        count_failure(fom, failure.cause.name(), env.clock.nanos());
    }
    let from = O::index(failure.phase);
    let cause = TransitionCause::Failed(failure.cause.name());
    if env.hooks.are_recorded() {
        flight::record_transition(fom, Some(from), None, cause);
    }
    let Some(hooks) = env.hooks.heard() else {
        return;
    };
    let error = fom
        .visit()
        .failing(|| typed::text::<O>(&failure.cause))
        .error;
    let transition =
        Transition::new(fom, Some(from), None, cause, fom.visit().since()).after(Some(error));
    match &failure.operation {
        Some(operation) => {
            // SAFETY: the failure is in the body of a fom, which only this thread reaches.
            let operation = unsafe { operation.peek() };
            typed::tell(&hooks, env, &transition, operation, None);
        }
        None => hooks.tell_untyped(env, &transition),
    }
}
