//! The adaptive times of one locality. Each adaptive phase has an estimator, made with the first visit.

use std::{any::TypeId, sync::Arc};

use crate::{
    adaptive::{Estimator, Ticket},
    fom::{Header, hand::context::peek},
    graph::Graph,
};
use fom_protocol::{
    nanos,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The estimates of a core. Only the handler touches them.
#[derive(Default)]
pub(crate) struct Estimates(Vec<OfType>);

struct OfType {
    type_id: TypeId,
    /// The estimates by phase.
    phases: Box<[Option<Estimate>]>,
}

/// The estimate of one phase of one operation type.
pub(crate) struct Estimate {
    estimator: Estimator,
    gauge: Arc<Gauge>,
}

/// The time that a phase gets now, for listings. Only the handler writes it.
pub(crate) struct Gauge {
    pub(crate) type_id: TypeId,
    pub(crate) graph: &'static Graph,
    pub(crate) phase: usize,
    time: AtomicU64,
}

/// All gauges of a locality. Any thread may read them.
#[derive(Default)]
pub(crate) struct Gauges(Mutex<Vec<Arc<Gauge>>>);

impl Estimates {
    /// Returns the estimate of a phase, if its time is adaptive. For a new estimate, the first window
    /// begins at `now`.
    #[inline]
    fn of(
        &mut self,
        gauges: &Gauges,
        type_id: TypeId,
        graph: &'static Graph,
        phase: usize,
        now: u64,
    ) -> Option<&mut Estimate> {
        let place = self.0.iter().position(|of| of.type_id == type_id);
        let place = place.unwrap_or_else(|| self.add(type_id, graph));
        let estimate = self.0[place].phases.get_mut(phase)?;
        if estimate.is_none() {
            *estimate = gauges.add(type_id, graph, phase, now);
        }
        estimate.as_mut()
    }

    #[cold]
    fn add(&mut self, type_id: TypeId, graph: &'static Graph) -> usize {
        let phases = graph.phases().iter().map(|_| None).collect();
        self.0.push(OfType { type_id, phases });
        self.0.len() - 1
    }
}

impl Estimate {
    /// Begins a visit: see [`Estimator::enter`].
    #[inline]
    pub(crate) fn enter(&mut self) -> (Ticket, u64) {
        self.estimator.enter()
    }

    /// Goes on with a visit that was saved: see [`Estimator::resume`].
    pub(crate) fn resume(&mut self) -> Ticket {
        self.estimator.resume()
    }

    #[inline]
    pub(crate) fn answered(&mut self, ticket: Ticket, took: u64, now: u64) {
        self.estimator.answered(ticket, took, now);
        self.show();
    }

    pub(crate) fn late(&mut self, ticket: Ticket, now: u64) {
        self.estimator.late(ticket, now);
        self.show();
    }

    /// Ends a visit without a measurement: see [`Estimator::leave`].
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.estimator.leave(ticket);
    }

    fn show(&self) {
        let time = self.estimator.time();
        self.gauge.time.store(time, Ordering::Relaxed);
    }
}

/// Runs `f` with the estimate of a phase, in the locality of the core that this thread holds.
///
/// # Safety
///
/// `f` keeps the promise that [`peek`] asks for.
#[inline]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn estimate<R>(
    fom: &Header,
    phase: usize,
    now: u64,
    f: impl FnOnce(&mut Estimate) -> R,
) -> Option<R> {
    // SAFETY: the caller's promise; a new estimate calls no user code.
    let mut hand = unsafe { peek() }?;
    let hand = &mut *hand;
    let gauges = &hand.foms.gauges;
    let of = hand
        .estimates
        .of(gauges, fom.type_id(), fom.graph(), phase, now);
    of.map(f)
}

impl Gauge {
    /// Returns the time that a visit gets while no more visits are under way than were measured, in
    /// nanoseconds.
    pub(crate) fn time(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }
}

impl Gauges {
    #[cold]
    fn add(
        &self,
        type_id: TypeId,
        graph: &'static Graph,
        phase: usize,
        now: u64,
    ) -> Option<Estimate> {
        let bounds = graph.phases()[phase].deadline().adaptive()?;
        let (floor, ceiling) = (nanos(bounds.floor), nanos(bounds.ceiling));
        let gauge = Arc::new(Gauge {
            type_id,
            graph,
            phase,
            time: AtomicU64::new(ceiling),
        });
        self.0.lock().push(Arc::clone(&gauge));
        Some(Estimate {
            estimator: Estimator::new(floor, ceiling, now),
            gauge,
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Gauge>> {
        self.0.lock().clone()
    }
}
