//! Moving processors: threads that wait for a processor may also run on the processors of an idle locality.
//!
//! A loan is a larger set of processors for each thread of the borrower. Nothing else changes, least of all the
//! lender's threads. So a loan that ends late, or never, only costs the lender some of its speed.
//!
//! A lender has at most one borrower (`lent_to`), and that borrower has the lender in its list. A loan begins under the
//! lock of the list. The thread that ends a loan first takes `lent_to` and then waits for that lock, so it finds the
//! lender in the list.

use std::time::Duration;

use crate::{
    balance::{
        Distance, Load,
        processors::{self, LOOK},
    },
    incident::IncidentKind,
    locality::{Core, Home, Locality},
    topology::{Thread, bind_thread},
};
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

const NOBODY: usize = usize::MAX;

/// The processors on which the threads of a locality run.
pub(super) struct Processors {
    bound: Mutex<Bound>,
    /// When the locality ran out of work, by the runtime's clock. Zero while it has work.
    idle_since: AtomicU64,
    lent_to: AtomicUsize,
}

#[derive(Default)]
struct Bound {
    threads: Vec<Thread>,
    lenders: Vec<usize>,
}

impl Default for Processors {
    fn default() -> Self {
        Self {
            bound: Mutex::default(),
            idle_since: AtomicU64::new(0),
            lent_to: AtomicUsize::new(NOBODY),
        }
    }
}

/// An enlisted thread of a locality. Until it ends, its processors may change.
pub(super) struct Enlisted<'a>(&'a Home, Option<u32>);

impl Drop for Enlisted<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            let mut bound = self.0.processors.bound.lock();
            bound.threads.retain(|thread| thread.id() != id);
        }
    }
}

impl Home {
    /// Binds this thread to the processors of its locality.
    pub(super) fn register(&self) -> Enlisted<'_> {
        if !self.bound {
            return Enlisted(self, None);
        }
        let mut bound = self.processors.bound.lock();
        let cpus = self.cpus(&bound.lenders);
        if let Err(error) = bind_thread(None, &cpus) {
            self.cannot_bind(&error);
        }
        // If the system has no statistics for its threads, nothing is lent to this thread.
        let thread = Thread::current()
            .ok()
            .filter(|_| self.localities().balance.moves_processors());
        let id = thread.as_ref().map(Thread::id);
        bound.threads.extend(thread);
        Enlisted(self, id)
    }

    fn cpus(&self, lenders: &[usize]) -> Vec<usize> {
        let localities = self.localities();
        let lent = lenders.iter().map(|lender| &localities[*lender].plan);
        let cpus = std::iter::once(&self.plan).chain(lent);
        cpus.flat_map(|plan| plan.cpus.iter().copied()).collect()
    }

    fn rebind(&self, bound: &Bound) {
        let cpus = self.cpus(&bound.lenders);
        for thread in &bound.threads {
            if let Err(error) = bind_thread(Some(thread), &cpus) {
                self.cannot_bind(&error);
            }
        }
    }

    /// Reports a failed binding. The thread runs where it ran before, or anywhere: slower, but correct.
    fn cannot_bind(&self, error: &std::io::Error) {
        self.env().report(
            IncidentKind::Machine,
            format!("locality {}", self.index),
            format!(
                "cannot bind a thread of locality {} to its processors: {error}",
                self.index
            ),
        );
    }

    /// Ends the loan of this lender.
    fn give_back(&self, lender: usize) {
        let mut bound = self.processors.bound.lock();
        let before = bound.lenders.len();
        bound.lenders.retain(|other| *other != lender);
        if bound.lenders.len() != before {
            self.rebind(&bound);
        }
    }

    fn borrow(&self, lender: usize) {
        let mut bound = self.processors.bound.lock();
        let of = &self.localities()[lender].processors;
        let change = |from, to| {
            of.lent_to
                .compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        };
        if !change(NOBODY, self.index) {
            return;
        }
        // A lender that has work again first says so and then looks for its borrower. So one of the two sees the other.
        if of.idle_since.load(Ordering::SeqCst) == 0 && change(self.index, NOBODY) {
            return;
        }
        bound.lenders.push(lender);
        self.rebind(&bound);
    }

    /// Notes that there is work: ends the loan of this locality's own processors.
    pub(super) fn take_back(&self) {
        self.processors.idle_since.store(0, Ordering::SeqCst);
        if self.processors.lent_to.load(Ordering::SeqCst) != NOBODY {
            let borrower = self.processors.lent_to.swap(NOBODY, Ordering::SeqCst);
            if borrower != NOBODY {
                Self::new(self.env().clone(), borrower).give_back(self.index);
            }
        }
    }

    /// Notes that there is no work: the processors may be lent.
    pub(super) fn offer(&self, now: u64) {
        self.processors
            .idle_since
            .store(now.max(1), Ordering::Relaxed);
    }

    /// Checks whether the threads wait for processors more than they run. If so, borrows those of a lender.
    #[cold]
    pub(super) fn look_for_processors(&self, ready: usize, now: u64) {
        let load = {
            let mut bound = self.processors.bound.lock();
            let Some(share) = share(&mut bound.threads) else {
                return;
            };
            Load {
                ready,
                share,
                borrowed: bound.lenders.len(),
                ..Load::default()
            }
        };
        let localities = self.localities();
        let lender = processors::choose_lender(
            &load,
            localities.iter().map(|other| {
                let distance = Distance::between(&self.plan, &other.plan);
                (
                    other.index,
                    other.as_lender(self.localities(), now),
                    distance,
                )
            }),
        );
        let Some(lender) = lender else { return };
        let borrower = localities[lender]
            .processors
            .lent_to
            .load(Ordering::Acquire);
        if borrower != NOBODY {
            // That borrower has had nothing to do for a while.
            localities[lender]
                .processors
                .lent_to
                .store(NOBODY, Ordering::Release);
            Self::new(self.env().clone(), borrower).give_back(lender);
        }
        self.borrow(lender);
    }
}

impl Locality {
    /// Returns how long the locality has had nothing to do.
    fn idle(&self, now: u64) -> Option<Duration> {
        match self.processors.idle_since.load(Ordering::Relaxed) {
            0 => None,
            since => Some(Duration::from_nanos(now.saturating_sub(since))),
        }
    }

    /// Returns the load of this locality as a possible lender. An unfinished loan rules it out.
    fn as_lender(&self, localities: &[Self], now: u64) -> Load {
        let of = |locality: &Self| Load {
            idle: locality.idle(now),
            ..Load::default()
        };
        let mut load = of(self);
        let lent_to = self.processors.lent_to.load(Ordering::Relaxed);
        if let Some(borrower) = localities.get(lent_to)
            && !processors::gives_back(&of(borrower), &load)
        {
            load.idle = None;
        }
        load
    }
}

/// Returns the share of time with a processor, out of the time since the last look in which these threads wanted one.
/// Returns `None` if that time was too short to tell.
fn share(threads: &mut [Thread]) -> Option<f64> {
    let (mut ran, mut waited) = (0, 0);
    for thread in threads {
        let (more, longer) = thread.fares();
        ran += more;
        waited += longer;
    }
    (ran + waited > 0).then(|| ran as f64 / (ran + waited) as f64)
}

/// What a core knows of its share of a processor.
#[derive(Debug)]
pub(super) struct Share {
    /// Whether processors are borrowed and lent.
    pub(super) moves: bool,
    /// When the handler last checked whether it needs some.
    looked_at: u64,
}

impl Share {
    pub(super) fn new(home: &Home, now: u64) -> Self {
        Self {
            moves: home.bound && home.localities().balance.moves_processors(),
            looked_at: now,
        }
    }
}

impl Core {
    /// Checks the share of a processor, between two rounds, if the last check is long enough ago.
    #[inline]
    pub(super) fn look_at_share(&mut self) {
        if self.share.moves {
            let now = self.look();
            if now.saturating_sub(self.share.looked_at) >= LOOK.as_nanos() as u64 {
                self.share.looked_at = now;
                self.home.look_for_processors(self.queue.len(), now);
            }
        }
    }
}
