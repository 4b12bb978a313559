//! Enter-block and leave-block: the core goes to another thread while a fom blocks this one.

use crate::{
    fom::{BlockError, Header, WaitingFor, flight::Kind},
    locality::{
        Core, Localities, Locality, block_guess, context, parts::Pause, threads::NoReserve,
    },
};

/// A thread between enter-block and leave-block. Dropping this value is leave-block: the drop waits until the thread
/// has the locality back.
pub(crate) struct Away {
    /// The fom that blocks. It outlives this value.
    fom: &'static Header,
    /// The time at which a section that was guessed short began, as far as the locality knew it. `None` for other
    /// sections.
    short_since: Option<u64>,
    /// The time at which the section began, if the runtime counts.
    counted_since: Option<u64>,
}

/// Gives away the core of this thread.
///
/// A thread that returns from its own section gets the core at once. Otherwise the core goes into the slot, and
/// leave-block takes it back if no other thread needed it meanwhile. A follower is called at once if work is ready, or
/// if other foms need the reactor or the timers. If the section was guessed short, the block watch calls that follower
/// when the guess turns out wrong. The first thread at the slot takes the core.
pub(crate) fn enter_block() -> Result<Away, BlockError> {
    let Some(mut core) = context::take() else {
        return Err(BlockError::NotInPhase);
    };
    let Some(running) = core.running else {
        context::set(core);
        return Err(BlockError::NotInPhase);
    };
    // SAFETY: a fom does not end while it runs or while it is in a blocking section.
    let fom = unsafe { running.as_ref() };
    // No other thread may come to do this while this thread blocks.
    core.pause(Pause::Blocking);
    // The mail may be work, or a thread that returns.
    if core.home.inbox.has_mail() {
        core.drain();
    }
    let is_counted = fom.env().hooks.are_counted();
    let counted_since = is_counted.then(|| core.look());
    let short_since = if core.home.threads.is_awaited() {
        wait_for_turn(core, fom)
    } else if core.home.threads.has_reserve() {
        leave_in_slot(core, fom)
    } else {
        match core.home.threads.reserve(&core.home) {
            Ok(()) => leave_in_slot(core, fom),
            Err(NoReserve::AtMost) => wait_for_turn(core, fom),
            Err(NoReserve::Failed(error)) => {
                context::set(core);
                return Err(BlockError::NoThread(error));
            }
        }
    };
    fom.waiting.set(WaitingFor::Blocking);
    fom.flags.set_blocked(true);
    Ok(Away {
        fom,
        short_since,
        counted_since,
    })
}

/// Lays the core into the slot. Returns the time if the section was guessed short.
fn leave_in_slot(mut core: Box<Core>, fom: &Header) -> Option<u64> {
    core.record_section(Kind::BlockBegins, fom);
    // The running fom keeps its runtime alive.
    let home = Locality::of(fom);
    let localities = Localities::of(fom.env());
    let needed = core.has_work()
        || !core.timers.is_empty()
        // Other foms here may wait for their sockets. The blocked fom itself counts as one in flight.
        || home.counts.in_flight() > 1
        || core.reactor.has_tasks()
        // Foms that were moved away may wait for sockets of this reactor.
        || core.busy.gave;
    let now = core.now();
    let watching = || home.watched.last().is_some();
    let short = needed
        && core.block_guess.is_short(fom, now, watching)
        && localities.block_watch.is_there(fom.env());
    let number = short.then(|| core.block_guess.number());
    core.publish();
    home.slot.put(core);
    // After the core is in the slot: from here on, a push may call a thread to take the core.
    if !home.inbox.vacate() {
        home.threads.wake_one();
    } else if let Some(number) = number {
        if home.watched.open(number) {
            localities.block_watch.wake();
        }
    } else if needed {
        home.threads.wake_one();
    }
    short.then_some(now)
}

/// Takes the core back for the thread that runs this fom.
#[cold]
pub(crate) fn regain(fom: &Header) {
    drop(Away {
        // SAFETY: as in `enter_block`; the value is dropped here.
        fom: unsafe { fom.whole().as_ref() },
        short_since: None,
        counted_since: None,
    });
}

/// Gives the core to a returning thread. Waits for such a thread if there is none, because no further thread may block.
#[cold]
fn wait_for_turn(mut core: Box<Core>, fom: &Header) -> Option<u64> {
    core.record_section(Kind::BlockBegins, fom);
    let home = core.home.clone();
    core.running = None;
    core.leave_turn();
    loop {
        if home.threads.is_awaited() {
            // Counted before the returner has the core. Otherwise the returner could block again although no other
            // thread is left. No thread would then run the locality until one of the two is back.
            home.threads.block();
            match home.threads.give(core) {
                None => return None,
                Some(mine) => core = mine,
            }
            home.threads.unblock();
        }
        core.drain();
        if !home.threads.is_awaited() {
            core.reactor.park(&home, None);
        }
    }
}

impl Away {
    /// Gets the core back after another thread took it out of the slot.
    #[cold]
    fn regain(&self) -> Box<Core> {
        let home = Locality::of(self.fom);
        let core = home.threads.regain(home);
        home.threads.unblock();
        core
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let fom = self.fom;
        let now = || fom.env().clock.nanos();
        let counted = self.counted_since.map(|since| (since, now()));
        // The end of the section, if another thread took its core.
        let (mut core, lost_until) = if let Some(core) = Locality::of(fom).slot.take() {
            // A thread that takes the core of another thread's section blocks that thread instead of itself, so the
            // count stays.
            let lost = core.running != Some(fom.whole());
            (core, lost.then(now))
        } else {
            // The wait for the core is no part of the section.
            let now = now();
            (self.regain(), Some(now))
        };
        if let Some((since, until)) = counted {
            core.home.load.section_ended(since, until);
        }
        if let Some(since) = self.short_since {
            let long = lost_until.is_some_and(|now| now.saturating_sub(since) > block_guess::SHORT);
            core.block_guess.was(fom, !long);
        }
        if (core.parts.running).is_some_and(|running| running.fom != fom.whole()) {
            // This thread takes the core of the section of that fom.
            core.leave_turn();
        }
        // Before anything else of this fom: what it posted during the section precedes what it does from now on. The
        // drain also removes the marks of the inbox.
        core.record_section(Kind::BlockEnds, fom);
        core.drain();
        fom.flags.set_blocked(false);
        fom.waiting.set(WaitingFor::Nothing);
        core.running = Some(fom.whole());
        context::set(core);
    }
}
