//! Runs an operation at once, on the stack of the fom that submits it. That fom stays in its run meanwhile.

use crate::{
    fom::{
        Env, NewFom, Progress,
        hand::context::{self, peek},
    },
    locality::{recorded::record_rest, with_core},
    operation::{Form, Operation},
    typed::{Ended, Failure, GoesOn, RunInPlace, Seed, TypedRef},
};

/// Makes a fom of the operation, and runs it once. The fom gets a budget of its own. If the fom ends, its outcome goes to
/// `outcome`, or is left to the returned handle. `operation` must not call user code.
///
/// # Panics
///
/// Panics if this thread runs no fom with the core of its locality.
#[inline]
pub(crate) fn run_in_place<O: Operation>(
    env: &Env,
    mut birth: NewFom,
    operation: impl FnOnce() -> O,
    phase: O::Phase,
    outcome: &mut Option<Result<Ended<O>, Failure<O>>>,
) -> Option<TypedRef<O>> {
    let (fom, submitter, left) = {
        // SAFETY: no code of the operation runs while the guard is held. A future is made, and does not run.
        let hand = unsafe { peek() };
        let mut hand = hand.expect("the caller has looked, on this thread");
        (birth.id, birth.now, birth.home) = (hand.one_numbered(), hand.now(), hand.index());
        let launched = O::Form::build(Seed {
            stocks: &mut hand.stocks,
            env,
            birth,
            operation,
            phase,
        });
        let fom = launched.resident;
        let submitter = hand.running.replace(fom.as_ptr());
        (fom, submitter, hand.run_budget.lend())
    };
    let submitter = submitter.expect("a thread that has laid a core down runs a fom");
    let recorded = env.hooks.extras().are_noted();
    let end = if recorded {
        with_core(|core| core.record_run(&fom)).flatten()
    } else {
        None
    };
    fom.token.start(fom.is_alone());
    let nested = context::nest(&fom);
    // SAFETY: the fom of `O` was just made, and has just begun to run. It has no handle and is not counted.
    let ran = O::Form::build(unsafe { RunInPlace::new(&fom, outcome) });
    drop(nested);
    {
        // SAFETY: only numbers and pointers are written.
        let hand = unsafe { peek() };
        let mut hand = hand.expect("a run ends with the core");
        hand.running = Some(submitter);
        hand.run_budget.take_back(left);
    }
    if recorded {
        with_core(|core| {
            core.record_run_end(end);
            // SAFETY: the submitter is in its run.
            record_rest(core, unsafe { submitter.as_ref() });
        });
    }
    let GoesOn { progress, handle } = ran?;
    // A fom that has ended has given up its resident reference.
    if progress != Progress::Finished {
        with_core(|core| core.after_run(Some(fom), progress));
    }
    Some(handle)
}
