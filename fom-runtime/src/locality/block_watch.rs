//! The block watch: a thread that calls a follower where a section lasts longer than was guessed.
//!
//! A runtime has one block watch, made for the first section that needs it. It goes round the localities while sections
//! are guessed short, and sleeps when there have been none for a while. A section that is still open at the next look
//! counts as long, and the block watch relieves it.
//!
//! A look takes a processor from the threads that work. So the wait between two looks is a share of the time between long
//! sections: one part in `SHARE`, at least `LEAST` and at most `MOST`.

use std::{
    io,
    num::NonZeroU32,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{fom::EnvRef, locality::Localities};
use fom_protocol::{
    panic_message,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU8, Ordering},
        sleep,
    },
};

const LEAST: Duration = Duration::from_micros(50);
const MOST: Duration = Duration::from_millis(2);
/// The most between a look that found a section open and the next one. The kernel stops short sections, too, for some time.
const AGAIN: Duration = Duration::from_micros(400);
/// Long sections are relieved late by about one part in this number of the time between them.
const SHARE: u32 = 16;
/// How long the block watch goes on when there are no sections to watch.
const CALM: Duration = if cfg!(fom_shuttle) {
    LEAST
} else {
    Duration::from_millis(5)
};

const THERE: u8 = 1;
const CANNOT: u8 = 2;

#[derive(Default)]
pub(crate) struct BlockWatch {
    /// Whether the thread exists, or cannot be created.
    made: AtomicU8,
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    look: bool,
    end: bool,
}

/// What the block watch knows of a locality.
#[derive(Clone, Copy, Default)]
struct Seen {
    section: Option<NonZeroU32>,
    called: bool,
}

impl BlockWatch {
    /// Returns whether a block watch watches the sections. Creates its thread if necessary.
    #[inline]
    pub(super) fn is_there(&self, env: &EnvRef) -> bool {
        match self.made.load(Ordering::Relaxed) {
            0 => self.make(env),
            made => made == THERE,
        }
    }

    #[cold]
    fn make(&self, env: &EnvRef) -> bool {
        // Until the thread exists, other localities do without it.
        let first = |made| (made == 0).then_some(CANNOT);
        let order = Ordering::Relaxed;
        if self.made.fetch_update(order, order, first).is_err() {
            return false;
        }
        let of = env.clone();
        let main = Box::new(move || {
            let localities = Localities::of(&of);
            localities.block_watch.main(localities);
        });
        let localities = Localities::of(env);
        // The caller holds the core, so a panic of the user's spawner must not drop it.
        let made = AssertUnwindSafe(|| (localities.spawner.0)("fom-block-watch".to_owned(), main));
        let made = catch_unwind(made)
            .unwrap_or_else(|panic| Err(io::Error::other(panic_message(panic))))
            .is_ok();
        if made {
            self.made.store(THERE, Ordering::Relaxed);
        }
        made
    }

    #[cold]
    pub(super) fn wake(&self) {
        self.orders.lock().look = true;
        self.changed.notify_one();
    }

    /// Ends the block watch, after every locality has ended.
    pub(crate) fn end(&self) {
        self.orders.lock().end = true;
        self.changed.notify_one();
    }

    fn main(&self, localities: &Localities) {
        let mut seen = vec![Seen::default(); localities.len()];
        // About the time between long sections, as far as the wait depends on it.
        let mut between_long = Duration::ZERO;
        loop {
            {
                let mut orders = self.orders.lock();
                while !orders.look && !orders.end {
                    orders = self.changed.wait(orders);
                }
                orders.look = false;
            }
            self.go_round(localities, &mut seen, &mut between_long);
            if self.orders.lock().end {
                return;
            }
        }
    }

    /// Goes round until there has been nothing to watch for a while.
    fn go_round(&self, localities: &Localities, seen: &mut [Seen], between_long: &mut Duration) {
        let mut is_open = false;
        let mut calm = Duration::ZERO;
        while !self.orders.lock().end {
            let most = if is_open { AGAIN } else { MOST };
            let wait = (*between_long / SHARE).clamp(LEAST, most);
            sleep(wait);
            calm += wait;
            *between_long = (*between_long + wait).min(MOST * SHARE);
            is_open = false;
            for (home, seen) in localities.iter().zip(&mut *seen) {
                let section = home.watched.last();
                let is_laid = home.slot.is_laid();
                if section != seen.section {
                    let called = false;
                    *seen = Seen { section, called };
                    calm = Duration::ZERO;
                    is_open |= is_laid;
                } else if section.is_some() && !seen.called && is_laid {
                    home.threads.wake_one();
                    seen.called = true;
                    *between_long /= 2;
                }
            }
            let mut all = localities.iter().zip(&mut *seen);
            if calm >= CALM && all.all(|(home, seen)| home.watched.leave(seen.section)) {
                return;
            }
        }
    }
}
