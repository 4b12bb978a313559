//! Enter-block and leave-block: the core goes to another thread while a fom blocks this one.

use crate::{
    error::BlockError,
    fom::{Header, WaitingFor},
    locality::{Core, crew::NoReserve, here, outlook},
};

/// A thread between enter-block and leave-block. Dropping it is leave-block: it waits until the locality is back.
pub(crate) struct Away {
    /// As long as this is.
    fom: &'static Header,
    /// When it began, as far as the locality knew the time; only if it was guessed short.
    short_since: Option<u64>,
}

/// Gives the core of this thread away.
///
/// Who comes back from a section of its own gets it at once. Else it is left in the slot, from where leave-block takes it back
/// if nobody needed it meanwhile. With work ready, or with foms whose reactor and timers must be minded, a follower is called
/// at once, or by the patrol when the section was guessed short and is not; whoever is first at the slot has it.
pub(crate) fn enter_block() -> Result<Away, BlockError> {
    let Some(mut core) = here::take() else {
        return Err(BlockError::NotInPhase);
    };
    let Some(running) = core.running else {
        here::lay(core);
        return Err(BlockError::NotInPhase);
    };
    // SAFETY: a fom does not end while it runs, nor in a blocking section.
    let fom = unsafe { running.as_ref() };
    // Nobody may come to do it while this thread blocks.
    core.hand_over(true);
    // What came meanwhile may be work, or a thread that returns.
    if core.home.inbox.has_mail() {
        core.drain();
    }
    let short_since = if core.home.crew.somebody_returns() {
        wait_for_turn(core)
    } else if core.home.crew.has_reserve() {
        leave_in_slot(core, fom)
    } else {
        match core.home.crew.reserve(&core.home) {
            Ok(()) => leave_in_slot(core, fom),
            Err(NoReserve::AtMost) => wait_for_turn(core),
            Err(NoReserve::Failed(error)) => {
                here::lay(core);
                return Err(BlockError::NoThread(error));
            }
        }
    };
    fom.set_waiting_for(WaitingFor::Blocking);
    fom.set_blocked(true);
    Ok(Away { fom, short_since })
}

/// `Some` if nobody was called because the section will be short: when that was.
fn leave_in_slot(mut core: Box<Core>, fom: &Header) -> Option<u64> {
    // The fom that runs keeps its runtime.
    let (home, world) = (fom.home(), fom.world());
    let needed = core.has_work()
        || !core.timers.is_empty()
        // Others here may wait for their sockets; the blocked fom itself is one of the live ones.
        || home.counts.in_flight() > 1
        || core.reactor.has_tasks()
        // Those that were moved away may wait for sockets of the reactor here.
        || core.gave;
    let now = core.now();
    let short = needed && core.outlook.is_short(fom, now) && world.patrol.is_there(world);
    let number = short.then(|| core.outlook.number());
    core.publish();
    home.slot.put(core);
    // After the core is in the slot: from now on a push may call somebody to take it.
    if !home.inbox.vacate() {
        home.crew.wake_one();
    } else if let Some(number) = number {
        if home.watched.open(number) {
            world.patrol.wake();
        }
    } else if needed {
        home.crew.wake_one();
    }
    short.then_some(now)
}

/// The core of a fom whose code returned without ending its blocking section: a leaked guard.
#[inline]
pub(crate) fn regain_leaked(fom: &Header) {
    if !here::has_core() {
        regain(fom);
    }
}

#[cold]
fn regain(fom: &Header) {
    drop(Away {
        // SAFETY: as in `enter_block`; it is dropped here.
        fom: unsafe { fom.whole().as_ref() },
        short_since: None,
    });
}

/// Gives the core to a thread that comes back; waits for one where none does, since as many are blocked as may be.
#[cold]
fn wait_for_turn(mut core: Box<Core>) -> Option<u64> {
    let home = core.home.clone();
    core.running = None;
    loop {
        if home.crew.somebody_returns() {
            // Counted before the other one has the core: else it could block again as if there were a thread left,
            // and nobody would run the locality until one of the two is back.
            home.crew.block();
            match home.crew.give(core) {
                None => return None,
                Some(mine) => core = mine,
            }
            home.crew.unblock();
        }
        core.drain();
        if !home.crew.somebody_returns() {
            core.reactor.park(&home, None);
        }
    }
}

impl Away {
    /// Somebody has taken the core out of the slot meanwhile.
    #[cold]
    fn regain(&self) -> Box<Core> {
        let home = self.fom.home();
        let core = home.crew.regain(home);
        home.crew.unblock();
        core
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let fom = self.fom;
        let mut core = fom.home().slot.take().unwrap_or_else(|| self.regain());
        // Who takes the core from another one's section blocks that one instead of itself: as many as before.
        if let Some(since) = self.short_since {
            let long = core.running != Some(fom.whole())
                && fom.world().clock.nanos().saturating_sub(since) > outlook::SHORT;
            core.outlook.was(fom, !long);
        }
        // Before anything of this fom: what it posted while it was away came before what it does from now on. The
        // marks of the inbox go as well.
        core.drain();
        fom.set_blocked(false);
        fom.set_waiting_for(WaitingFor::Nothing);
        core.running = Some(fom.whole());
        here::lay(core);
    }
}
