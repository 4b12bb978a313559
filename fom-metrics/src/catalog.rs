//! All metrics, with their names, units and labels.

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A number that only grows, until the program starts anew.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Times or numbers of things in buckets.
    Histogram,
}

/// One metric, without its values.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
    /// How gauges with the same labels make one.
    pub(crate) join: Join,
}

/// How several gauges make one, such as those of two parts with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    Sum,
    Largest,
}

const fn described(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    Described {
        name,
        kind,
        labels,
        help,
        join: Join::Sum,
    }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    described(name, Kind::Counter, labels, help)
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    described(name, Kind::Gauge, labels, help)
}

const fn largest(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    Described {
        join: Join::Largest,
        ..described(name, Kind::Gauge, labels, help)
    }
}

/// A histogram of times, or of numbers of things.
const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    described(name, Kind::Histogram, labels, help)
}

/// Names each metric, and lists all of them in this order.
macro_rules! catalog {
    ($($constant:ident = $make:ident($name:literal, [$($label:literal),*], $help:literal);)*) => {
        $(
            #[doc = $help]
            pub(crate) const $constant: &Described = &$make($name, &[$($label),*], $help);
        )*

        /// All metrics.
        pub(crate) const ALL: &[&Described] = &[$($constant),*];
    };
}

catalog! {
    IN_FLIGHT = gauge("fom_in_flight", [],
        "Foms that were submitted and have not ended, with pending work.");
    PENDING = gauge("fom_pending", [],
        "Pieces of pending work in front of the localities, such as the queues of admissions.");

    STARTED = counter("fom_operations_started_total", ["operation"],
        "Operations that began.");
    ENDED = counter("fom_operations_ended_total", ["operation", "outcome"],
        "Operations that ended. The outcome is done or failed.");
    TRANSITIONS = counter("fom_transitions_total", ["operation", "from", "to", "cause"],
        "Transitions. A start has no from, a failure without an end phase has no to.");
    PHASE_FOMS = gauge("fom_phase_foms", ["operation", "phase"],
        "Foms in the phase. End phases are left out.");
    PHASE_SECONDS = histogram("fom_phase_seconds", ["operation", "phase"],
        "How long the foms that left the phase were in it.");
    RETRIES = counter("fom_retries_total", ["operation", "phase"],
        "Attempts at the phase that failed and were followed by another.");

    LOCALITY_FOMS = gauge("fom_locality_foms", ["locality"],
        "Foms with their home in the locality.");
    LOCALITY_READY = gauge("fom_locality_ready_foms", ["locality"],
        "Foms in the run queue of the locality.");
    LOCALITY_INBOX = gauge("fom_locality_inbox", ["locality"],
        "Foms and jobs that the locality found in its inbox at its last look.");
    LOCALITY_THREADS = gauge("fom_locality_threads", ["locality"],
        "Threads of the locality.");
    LOCALITY_BLOCKED = gauge("fom_locality_blocked_threads", ["locality"],
        "Threads of the locality that are in a blocking section.");
    LOCALITY_RUNS = counter("fom_locality_runs_total", ["locality"],
        "Runs of foms and jobs.");
    LOCALITY_IDLE_RUNS = counter("fom_locality_idle_runs_total", ["locality"],
        "Runs in which a fom made no step.");
    LOCALITY_BUSY = counter("fom_locality_busy_seconds_total", ["locality"],
        "Time in which the locality had work.");
    LOCALITY_RUN = gauge("fom_locality_current_run_seconds", ["locality"],
        "How long the current run goes on. Zero if no fom runs.");
    LOCALITY_LONGEST_RUN = gauge("fom_locality_longest_run_seconds", ["locality"],
        "The longest run so far.");
    LOCALITY_READY_WAIT = histogram("fom_locality_ready_wait_seconds", ["locality"],
        "How long foms were ready before they ran.");
    LOCALITY_QUEUED = histogram("fom_locality_queued_foms", ["locality"],
        "Foms in the run queue when a run began.");
    LOCALITY_RUN_TIMES = histogram("fom_locality_run_seconds", ["locality"],
        "How long the runs took that did not give the locality away.");
    LOCALITY_SECTIONS = histogram("fom_locality_blocking_seconds", ["locality"],
        "How long the blocking sections took.");

    INCIDENTS = counter("fom_incidents_total", ["kind"],
        "Problems that ended no operation.");
    FAILURES = gauge("fom_failures_kept", ["operation", "phase"],
        "The last failures that the runtime keeps, by the phase in which they failed.");
    QUARANTINED = gauge("fom_quarantined", ["operation", "kind"],
        "Entries of the journal that do not run.");

    PART_QUEUED = gauge("fom_part_queued", ["kind", "part"],
        "Requests that wait in the part.");
    PART_OLDEST = largest("fom_part_oldest_seconds", ["kind", "part"],
        "How long the oldest of these requests has waited.");
    PART_BUSY = gauge("fom_part_busy", ["kind", "part"],
        "One if the part did not answer within 100 ms. Its other metrics are then missing.");

    JOURNAL_ENTRIES = gauge("fom_journal_entries", [],
        "Entries of the journal.");
    JOURNAL_LIVE = gauge("fom_journal_live_bytes", [],
        "Total length of these entries.");
    JOURNAL_SIZE = gauge("fom_journal_size_bytes", [],
        "Size of the journal on the disk.");
    JOURNAL_WRITTEN = counter("fom_journal_written_bytes_total", [],
        "Bytes written to the journal.");
    JOURNAL_MOVED = counter("fom_journal_moved_bytes_total", [],
        "Of these, bytes of entries that were written again to free space.");
    JOURNAL_SYNCS = counter("fom_journal_syncs_total", [],
        "Syncs of the journal.");
    JOURNAL_TERM = gauge("fom_journal_term", [],
        "Term of this process, if another process can take the journal over.");
    JOURNAL_LEASE = gauge("fom_journal_lease", [],
        "One while the lease of this journal holds. Zero: no operation goes on.");

    ADMISSION_RUNNING = gauge("fom_admission_running", ["admission"],
        "Foms of the admission that run.");
    ADMISSION_LIMIT = gauge("fom_admission_limit", ["admission"],
        "The most foms of the admission that may run.");
    ADMISSION_WAITING = gauge("fom_admission_waiting_for_room", ["admission"],
        "Submissions that wait for room in the queue.");
    ADMISSION_FULL = gauge("fom_admission_full", ["admission"],
        "One if the queue is full.");
    ADMISSION_THROTTLED = largest("fom_admission_throttled_seconds", ["admission"],
        "The time until a throttled request may start.");
    ADMISSION_FILLED = counter("fom_admission_filled_total", ["admission"],
        "How often the queue became full.");
    ADMISSION_REFUSED = counter("fom_admission_refused_total", ["admission"],
        "Submissions that were given back.");
    ADMISSION_ENDED = counter("fom_admission_ended_total", ["admission"],
        "Requests that were started and have ended.");
    ADMISSION_CANCELLED = counter("fom_admission_cancelled_total", ["admission"],
        "Requests that were cancelled in the queue.");
    ADMISSION_SHED = counter("fom_admission_shed_total", ["admission"],
        "Requests that were shed.");

    LOCKS = gauge("fom_locks", ["table"],
        "Locks in the table.");
    LOCK_HOLDERS = gauge("fom_lock_holders", ["table"],
        "Foms that hold a lock.");
    LOCK_READS = counter("fom_lock_reads_total", ["table"],
        "Grants to read.");
    LOCK_WRITES = counter("fom_lock_writes_total", ["table"],
        "Grants to write.");
    LOCK_WAITS = counter("fom_lock_waits_total", ["table"],
        "Requests that did not get the lock at once.");
    LOCK_GIVEN_UP = counter("fom_lock_given_up_total", ["table"],
        "Of these, requests that were cancelled or timed out.");
    LOCK_WAIT_SECONDS = counter("fom_lock_wait_seconds_total", ["table"],
        "Total time of the waits.");
    LOCK_HOLD_SECONDS = counter("fom_lock_hold_seconds_total", ["table"],
        "Time that locks were held, summed over their holders.");
    LOCK_LONGEST_WAIT = largest("fom_lock_longest_wait_seconds", ["table"],
        "The longest wait so far.");
    LOCK_LONGEST_HOLD = largest("fom_lock_longest_hold_seconds", ["table"],
        "The longest hold so far.");

    STREAM_BOUND = gauge("fom_stream_bound", ["stream"],
        "The most requests that the stream takes in each locality.");
    STREAM_FULL_KEYS = gauge("fom_stream_full_keys", ["stream"],
        "Keys with as many waiting requests as one key may have.");
    STREAM_REFUSED = gauge("fom_stream_refused", ["stream"],
        "Refused requests that the program has not taken back.");

    OBJECTS = gauge("fom_active_objects", ["object"],
        "Active objects.");
    OBJECT_RUNNING = gauge("fom_active_object_running", ["object"],
        "Requests that run.");
    OBJECT_FULL = gauge("fom_active_object_full", ["object"],
        "Objects with a full list of requests.");

    SERVICE_STATE = gauge("fom_service_state", ["service", "state"],
        "One for the state that the service is in.");
    SERVICE_RUNNING = gauge("fom_service_running", ["service"],
        "Calls that run.");
    SERVICE_CALLERS = gauge("fom_service_callers", ["service"],
        "Calls with a caller that waits for the answer.");
    SERVICE_DONE = counter("fom_service_done_total", ["service"],
        "Calls that were answered.");
    SERVICE_FAILED = counter("fom_service_failed_total", ["service"],
        "Calls that failed.");
    SERVICE_CANCELLED = counter("fom_service_cancelled_total", ["service"],
        "Calls that were cancelled.");
    SERVICE_REFUSED = counter("fom_service_refused_total", ["service"],
        "Calls that were refused.");

    LIMIT_RUNNING = gauge("fom_limit_running", ["limit"],
        "Foms that hold a place of the limit.");
    LIMIT_PLACES = gauge("fom_limit_places", ["limit"],
        "The places of the limit. Missing if it has no bound.");
}
