//! Enter-block and leave-block: the core goes to another thread while a fom blocks this one.

use crate::{
    error::BlockError,
    fom::{Header, WaitingFor},
    locality::{Core, Home, crew::NoReserve, here},
};

/// A thread between enter-block and leave-block. Dropping it is leave-block: it waits until the locality is back.
pub(crate) struct Away {
    home: Home,
    /// As long as this is.
    fom: &'static Header,
}

/// Gives the core of this thread away.
///
/// It is left in the slot, from where leave-block takes it back if nobody needed it meanwhile. With work ready, or with
/// foms whose reactor and timers must be minded, a follower is called at once; whoever is first at the slot has it.
pub(crate) fn enter_block() -> Result<Away, BlockError> {
    let Some(mut core) = here::take() else {
        return Err(BlockError::NotInPhase);
    };
    let Some(fom) = core.running.take() else {
        here::lay(core);
        return Err(BlockError::NotInPhase);
    };
    let home = core.home.clone();
    match home.crew.reserve(&home) {
        Ok(()) => leave_in_slot(core),
        Err(NoReserve::AtMost) => wait_for_turn(core),
        Err(NoReserve::Failed(error)) => {
            core.running = Some(fom);
            here::lay(core);
            return Err(BlockError::NoThread(error));
        }
    }
    // SAFETY: a fom does not end while it is in a blocking section.
    let fom = unsafe { fom.as_ref() };
    fom.set_waiting_for(WaitingFor::Blocking);
    fom.set_blocked(true);
    Ok(Away { home, fom })
}

fn leave_in_slot(core: Box<Core>) {
    let home = core.home.clone();
    let needed = core.has_work()
        || !core.timers.is_empty()
        // Others here may wait for their sockets; the blocked fom itself is one of the live ones.
        || home.counts.in_flight() > 1
        || core.reactor.has_tasks()
        // Its poke may have been taken in already, by a drain since the handler last looked.
        || home.crew.somebody_returns();
    core.publish();
    home.slot.put(core);
    // After the core is in the slot: from now on a push may call somebody to take it.
    if !home.inbox.vacate() || needed {
        home.crew.wake_one();
    }
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
        home: fom.home_owned(),
        // SAFETY: as in `enter_block`; it is dropped here.
        fom: unsafe { fom.whole().as_ref() },
    });
}

/// As many threads are blocked as may be: waits until one of them is back, and gives it the core.
fn wait_for_turn(mut core: Box<Core>) {
    let home = core.home.clone();
    loop {
        if home.crew.somebody_returns() {
            // Counted before the other one has the core: else it could block again as if there were a thread left,
            // and nobody would run the locality until one of the two is back.
            home.crew.block_in_turn();
            match home.crew.give(core) {
                None => return,
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

impl Drop for Away {
    fn drop(&mut self) {
        let mut core = self
            .home
            .slot
            .take()
            .unwrap_or_else(|| self.home.crew.regain(&self.home));
        self.home.crew.unblock();
        // Before anything of this fom: what it posted while it was away came before what it does from now on. The
        // marks of the inbox go as well.
        core.drain();
        self.fom.set_blocked(false);
        self.fom.set_waiting_for(WaitingFor::Nothing);
        core.running = Some(self.fom.whole());
        here::lay(core);
    }
}
