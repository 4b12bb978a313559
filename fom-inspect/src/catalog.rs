//! The machines of the program, by the names that paths and filters use.

use std::sync::{Arc, OnceLock, RwLock};

use fom_runtime::{machine::Graph, observe::Counters};

use serde_json::Value;

use crate::{layout, problem::Problem, query::short};

/// One machine of the program.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The name in paths: that of the operation, or of operation and enum if operations share a name.
    pub(crate) name: String,
    pub(crate) graph: &'static Graph,
    layout: OnceLock<Value>,
}

impl Machine {
    /// Returns the positions of the phases. The first call may take a second for a large machine.
    pub(crate) fn layout(&self) -> &Value {
        self.layout.get_or_init(|| layout::of(self.graph))
    }
}

/// The machines, sorted by name. A machine with generic parameters is known from its first transition on.
#[derive(Debug, Default)]
pub(crate) struct Catalog(RwLock<Arc<[Arc<Machine>]>>);

impl Catalog {
    /// Returns the machines that the program is linked with.
    pub(crate) fn new() -> Self {
        let catalog = Self::default();
        catalog.add(fom_runtime::machine::all());
        catalog
    }

    /// Adds machines that have counts.
    pub(crate) fn see(&self, counters: &Counters) {
        self.add(counters.operations.iter().map(|of| of.graph));
    }

    fn add(&self, graphs: impl IntoIterator<Item = &'static Graph>) {
        let known = self.all();
        let is_known = |graph: &&Graph| known.iter().any(|one| same(one.graph, graph));
        let mut new: Vec<&'static Graph> = Vec::new();
        for graph in graphs {
            if !is_known(&graph) && !new.iter().any(|one| same(one, graph)) {
                new.push(graph);
            }
        }
        if !new.is_empty() {
            let graphs = known.iter().map(|one| one.graph).chain(new).collect();
            *self.0.write().unwrap_or_else(|lock| lock.into_inner()) = named(graphs);
        }
    }

    pub(crate) fn all(&self) -> Arc<[Arc<Machine>]> {
        self.0
            .read()
            .unwrap_or_else(|lock| lock.into_inner())
            .clone()
    }

    /// Returns the machine with this name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Machine>, Problem> {
        let all = self.all();
        let found = all.iter().find(|machine| machine.name == name);
        found.cloned().ok_or_else(|| {
            let names = all.iter().map(|machine| machine.name.clone());
            let message = format!("the program has no machine of type `{}`", short(name));
            Problem::not_found(message).allow(names)
        })
    }

    /// Returns the machine of an operation in this phase. Of operations that share a name, the phase tells.
    pub(crate) fn machine_of(&self, operation: &str, phase: &str) -> Result<Arc<Machine>, Problem> {
        let all = self.all();
        let mut found = all
            .iter()
            .filter(|machine| machine.graph.operation() == operation);
        let is_it = |machine: &&Arc<Machine>| machine.graph.find(phase).is_some();
        match found.clone().find(is_it).or_else(|| found.next()) {
            Some(machine) => Ok(Arc::clone(machine)),
            None => self.find(operation),
        }
    }
}

/// Whether two graphs are of the same machine. A graph is a constant, and can be in the program several times.
pub(crate) fn same(one: &Graph, other: &Graph) -> bool {
    let phases = |graph: &Graph| graph.phases().iter().map(|phase| phase.name());
    one.operation() == other.operation()
        && one.name() == other.name()
        && phases(one).eq(phases(other))
}

fn named(mut graphs: Vec<&'static Graph>) -> Arc<[Arc<Machine>]> {
    graphs.sort_by_key(|graph| (graph.operation(), graph.name()));
    let shared = |graph: &Graph| {
        let same = graphs
            .iter()
            .filter(|one| one.operation() == graph.operation());
        same.count() > 1
    };
    let machine = |graph: &&'static Graph| Machine {
        name: match shared(graph) {
            true => format!("{}.{}", graph.operation(), graph.name()),
            false => graph.operation().to_owned(),
        },
        graph,
        layout: OnceLock::new(),
    };
    graphs.iter().map(machine).map(Arc::new).collect()
}
