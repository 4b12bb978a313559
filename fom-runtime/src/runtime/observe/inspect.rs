//! The view of a runtime: each listing and measurement by itself.

use crate::{
    fom::FailedFom,
    incident::Incident,
    runtime::{
        Runtime,
        observe::{
            Counters, Deadlock, Filter, FomWait, KeyInfo, Listing, LocalityInfo, MatchingFom, Page,
            Survey, counters, deadlocks, localities, matching, survey, waits_of_all,
        },
    },
    snapshot::Quarantined,
};

/// What a runtime shows of itself. [`Runtime::inspect`] returns this view. The calls change no fom.
///
/// | to | see |
/// | --- | --- |
/// | count and list foms by a filter | [`survey`](Self::survey), [`matching`](Self::matching) |
/// | measure | [`counters`](Self::counters), [`loads`](Self::loads), [`queued`](Self::queued) |
/// | find what a fom waits for | [`waits`](Self::waits), [`deadlocks`](Self::deadlocks), [`keys`](Self::keys) |
/// | find what went wrong | [`failures`](Self::failures), [`incidents`](Self::incidents), [`quarantined`](Self::quarantined) |
/// | read the flight recorder | [`recording`](Self::recording) |
/// | list admissions, streams, locks and services | [`parts`](Self::parts) |
///
/// A listing has the time of the wall clock once. [`Runtime::operations`] lists the foms and most of this at once.
#[derive(Clone, Copy, Debug)]
pub struct Inspect<'a> {
    runtime: &'a Runtime,
}

impl Runtime {
    /// Returns a view with each listing and measurement of this runtime by itself.
    #[inline]
    pub fn inspect(&self) -> Inspect<'_> {
        Inspect { runtime: self }
    }
}

impl<'a> Inspect<'a> {
    /// Returns the runtime of this view, for packages that add listings.
    pub fn runtime(self) -> &'a Runtime {
        self.runtime
    }
}

impl Inspect<'_> {
    /// Counts the foms in flight that the filter covers, and lists one page of them.
    ///
    /// The survey asks no locality and stops no fom. Its time is in proportion to the number of foms in flight, and its
    /// memory to the size of the page. It covers no resting foms.
    ///
    /// ```
    /// # use fom_runtime::{observe::{Filter, Page}, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// let failing = runtime.inspect().survey(&Filter::default().attempts(1), &Page::of(20));
    /// for fom in &failing.page {
    ///     println!("{} {} in {}", fom.operation, fom.id, fom.phase);
    /// }
    /// println!("{} operations try again", failing.foms);
    /// # Ok(())
    /// # }
    /// ```
    pub fn survey(self, filter: &Filter, page: &Page) -> Survey {
        survey(&self.runtime.shared, filter, page)
    }

    /// Returns those foms in flight that the filter covers and that `choose` takes, in no order. The calls of `choose`
    /// come from one walk over the foms, as in a [survey](Self::survey). It covers no resting foms.
    ///
    /// ```
    /// # use fom_runtime::{observe::Filter, prelude::*};
    /// # fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::new()?;
    /// let stuck = Filter::default().operation("Charge").phase("Ask");
    /// for fom in runtime.inspect().matching(&stuck, |_| true) {
    ///     fom.cancel();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn matching(
        self,
        filter: &Filter,
        choose: impl FnMut(&MatchingFom) -> bool,
    ) -> Vec<MatchingFom> {
        matching(&self.runtime.shared, filter, choose)
    }

    /// Returns the counters: how often foms took each edge, how many are in each phase, and how long foms stay there. An
    /// edge is a way that a fom can take, such as a start, a transition or a failure. Without [`Builder::observe`](crate::Builder::observe) or
    /// [`observe`](Runtime::observe), nothing is counted.
    ///
    /// The call reads some numbers for each type. It walks no foms, and stops none. Counting costs a transition a few
    /// nanoseconds.
    ///
    /// The times in the phases use the time that the locality last read. A locality reads its clock at least every 64
    /// steps. If these steps take longer than 0.1 ms together, it reads the clock at each step. So a time is off by at
    /// most 0.1 ms. If steps become long suddenly, it is off by at most 64 of them.
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// struct Knock;
    ///
    /// #[fom(operation(Knock), transient)]
    /// enum Knocking {
    ///     #[phase(start, sync, to(Open))]
    ///     Wait,
    ///     #[phase(end)]
    ///     Open,
    /// }
    ///
    /// impl KnockingTransitions for Knock {
    ///     fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().observe().build()?;
    /// runtime.submit(Knock).start()?.wait()?;
    /// let counters = runtime.inspect().counters();
    /// let knocks = &counters.operations[0];
    /// let wait = &knocks.phases[0];
    /// assert_eq!((wait.phase, wait.foms, wait.times.count()), ("Wait", 0, 1));
    /// let opened = knocks.edges.iter().find(|edge| edge.to == Some("Open"));
    /// assert_eq!(opened.map(|edge| edge.count), Some(1));
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn counters(self) -> Counters {
        counters(&self.runtime.shared)
    }

    /// Returns the wait-for graph: each wait of a fom for another fom that the runtime knows of. It knows the same waits
    /// as [`deadlocks`](Self::deadlocks). A fom that waits for several foms is in the list several times.
    ///
    /// The search stops no fom, so each wait was read at its own moment.
    pub fn waits(self) -> Listing<FomWait> {
        self.listing(waits_of_all(&self.runtime.shared))
    }

    /// Returns the foms that wait for each other in cycles, as far as the runtime can tell. It knows the waits for keys.
    /// It also knows the waits that other packages [report](crate::extension::Attached::blockers), such as waits for helpers,
    /// long locks and the answers of services.
    ///
    /// The search stops no fom, and each cycle existed when it was found. A cycle may still resolve by itself if its
    /// foms have deadlines or wait for something else as well.
    ///
    /// Of cycles that share foms, one call may return only some.
    pub fn deadlocks(self) -> Listing<Deadlock> {
        self.listing(deadlocks(&self.runtime.shared))
    }

    /// Lists the keys that foms [wait](crate::Submission::queue) for, or that are [suspended](Runtime::suspend_key), by
    /// operation and key. This walks the keys and no foms.
    pub fn keys(self) -> Listing<KeyInfo> {
        self.listing(self.runtime.shared.key_index.waited_for())
    }

    /// Lists the localities with their loads. The call walks no foms, and asks no locality.
    pub fn loads(self) -> Listing<LocalityInfo> {
        self.listing(localities(&self.runtime.shared))
    }

    /// Returns the number of pieces of [pending work](crate::extension::PendingWork) in front of the localities, such as
    /// operations in the queue of an admission. They are a part of [`in_flight`](Runtime::in_flight).
    pub fn queued(self) -> usize {
        self.runtime.shared.queued.in_flight()
    }

    /// Returns the last failures, the latest last. At most 64 are kept of each operation type, or as many as
    /// [`Builder::failures`](crate::Builder::failures) sets. A failure is an error without a further attempt, a panic or a missed deadline. An end
    /// phase with `failure` is an end, and no failure. With a journal, the quarantine keeps the failures instead, except
    /// those of machines with `#[fom(failed = "forget")]`.
    ///
    /// A snapshot of the operation is kept if its machine can be saved. [`resume`](Runtime::resume) submits it again in the
    /// phase in which it failed, with a new id:
    ///
    /// ```
    /// # use fom_runtime::{Operation, Persistent, Runtime, prelude::*};
    /// # fn again<Order: Persistent>(runtime: &Runtime) -> Result<(), BoxError> {
    /// for failed in runtime.inspect().failures() {
    ///     println!("{failed}");
    ///     if failed.operation == Order::GRAPH.operation()
    ///         && let Some(snapshot) = &failed.snapshot
    ///     {
    ///         runtime.resume::<Order>(snapshot)?.detach()?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn failures(self) -> Listing<FailedFom> {
        let env = &self.runtime.shared.env;
        self.listing(env.failures().list(env.clock.nanos()))
    }

    /// Lists the entries of the journal that do not run, by id. Empty without a journal.
    pub fn quarantined(self) -> Listing<Quarantined> {
        let recorder = self.runtime.shared.env.recorder();
        self.listing(recorder.map_or_else(Vec::new, |recorder| recorder.quarantined()))
    }

    /// Returns the problems that ended no operation, the latest last. At most 64 are kept. This walks no foms.
    pub fn incidents(self) -> Listing<Incident> {
        self.listing(self.runtime.shared.env.incidents())
    }

    fn listing<T>(self, list: Vec<T>) -> Listing<T> {
        Listing::new(&self.runtime.shared.env, list)
    }
}
