//! What the requests of an inspector share.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fom_runtime::{
    Runtime,
    observe::{Counters, OperationCounters},
    time::Instant as ClockTime,
};

use serde_json::Value;

use crate::{
    catalog::{Catalog, Machine, same},
    journal,
    problem::Problem,
    samples::Samples,
    source::WarningSource,
    suspended::SuspendedKeys,
    types::Types,
};

/// How long counters that were read serve all clients.
const FRESH: Duration = Duration::from_millis(200);
/// How long after a request a client counts as present.
const PRESENT: Duration = Duration::from_secs(10);

/// What the requests share.
#[derive(Debug)]
pub(crate) struct State {
    /// A handle that does not keep the runtime alive.
    pub(crate) runtime: Runtime,
    pub(crate) catalog: Catalog,
    pub(crate) types: Types,
    pub(crate) warnings: WarningSource,
    /// The number of warnings, when they were last listed.
    warning_count: AtomicUsize,
    /// When a client was last here.
    visited: Mutex<Option<Instant>>,
    /// Whether actions are allowed.
    pub(crate) acts: bool,
    /// The journal with the data of the foms, if clients may see them.
    pub(crate) data: Option<PathBuf>,
    /// The time of the runtime's clock since which it counts, as far as the inspector knows.
    pub(crate) counting_since: f64,
    /// The keys that clients suspended.
    pub(crate) suspended: SuspendedKeys,
    samples: Mutex<Samples>,
    read: Mutex<Option<(Instant, Arc<Reading>)>>,
}

/// The counters of one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    counters: Counters,
}

impl Reading {
    pub(crate) fn of(&self, machine: &Machine) -> Option<&OperationCounters> {
        let all = self.counters.operations.iter();
        all.clone()
            .find(|of| std::ptr::eq(of.graph, machine.graph))
            .or_else(|| all.clone().find(|of| same(of.graph, machine.graph)))
    }
}

impl State {
    pub(crate) fn new(
        runtime: &Runtime,
        types: Types,
        warnings: WarningSource,
        acts: bool,
        data: Option<PathBuf>,
    ) -> Self {
        let runtime = runtime.detached();
        // A runtime that counts already did so from its start, as far as can be known.
        let counts = runtime
            .inspect()
            .loads()
            .iter()
            .any(|of| of.measured.is_some());
        let counting_since = if counts { 0.0 } else { clock(runtime.now()) };
        runtime.observe();
        Self {
            counting_since,
            catalog: Catalog::new(),
            runtime,
            types,
            warnings,
            warning_count: AtomicUsize::new(0),
            visited: Mutex::default(),
            acts,
            data,
            suspended: SuspendedKeys::default(),
            samples: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Notes that a client is here.
    pub(crate) fn visit(&self) {
        let visited = self.visited.lock();
        *visited.unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Instant::now());
    }

    /// Returns whether a client was here a short time ago.
    pub(crate) fn has_clients(&self) -> bool {
        let visited = self.visited.lock();
        let visited = *visited.unwrap_or_else(|poisoned| poisoned.into_inner());
        visited.is_some_and(|at| at.elapsed() < PRESENT)
    }

    /// Lists the warnings. `None` if the program does not watch. This calls code of the program.
    pub(crate) fn list_warnings(&self) -> Result<Option<Value>, Problem> {
        let Some(source) = &self.warnings.0 else {
            return Ok(None);
        };
        let wrong = |error| {
            let message = format!("the warnings cannot be written as JSON: {error}");
            Problem::unavailable(message)
        };
        let mut listed = source.list().map_err(wrong)?;
        // A list, or the listing of `fom-watch`, which has such a list.
        let list = match &mut listed {
            Value::Object(fields) => fields.remove("warnings").unwrap_or(Value::Null),
            _ => listed,
        };
        let count = list.as_array().map_or(0, Vec::len);
        self.warning_count.store(count, Ordering::Relaxed);
        Ok(Some(list))
    }

    /// Returns the number of warnings when they were last listed. `None` if the program does not watch.
    pub(crate) fn warning_count(&self) -> Option<usize> {
        let count = self.warning_count.load(Ordering::Relaxed);
        self.warnings.0.is_some().then_some(count)
    }

    pub(crate) fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads the counters. All callers within a short time get the same.
    pub(crate) fn reading(&self) -> Arc<Reading> {
        let mut read = self
            .read
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*read {
            Some((at, reading)) if at.elapsed() < FRESH => Arc::clone(reading),
            _ => {
                let reading = Arc::new(self.read_now());
                *read = Some((Instant::now(), Arc::clone(&reading)));
                reading
            }
        }
    }

    fn read_now(&self) -> Reading {
        let counters = self.runtime.inspect().counters();
        self.catalog.see(&counters);
        Reading { counters }
    }

    /// Takes a sample, every two seconds.
    pub(crate) fn sample(&self) {
        let counters = self.read_now().counters;
        let loads = self.runtime.inspect().loads();
        let journal = journal::written(&self.runtime);
        self.samples().take(&counters, &loads, journal);
    }
}

/// Returns a time of the runtime's clock in seconds.
pub(crate) fn clock(at: ClockTime) -> f64 {
    at.duration_since(ClockTime::START).as_secs_f64()
}
