//! Migration of a saved layer. It has two versions: its own, and that of the inner operation.
//!
//! Hidden items here are for generated code.

use crate::{
    graph::versions,
    layer::{Layer, inner_name},
    operation::{Operation, Persistent},
    snapshot::{RestoreError, Saved, field},
};

/// The migrations of a [`Persistent`] operation. This type does not require that trait; the code that passes the
/// function does.
type Migrate = fn(&mut Saved) -> Result<(), RestoreError>;

/// Runs the migrations of the layer, then those of the inner operation, which the layer keeps in the field `place`.
#[doc(hidden)]
pub fn migrate<L: Layer + Persistent>(
    saved: &mut Saved,
    place: &'static str,
    migrate: Migrate,
) -> Result<(), RestoreError> {
    let (own, inner) = versions(saved.version, <L::Inner as Operation>::GRAPH);
    let machine = L::OWN.name();
    saved.version = own;
    saved.migrate(machine, L::OWN.version(), L::MIGRATIONS)?;
    if inner != <L::Inner as Operation>::GRAPH.version() {
        inside::<L>(saved, inner, place, migrate)?;
    }
    Ok(())
}

/// Migrates the inner operation as if it had been saved by itself. In one of the layer's own phases it counts as not
/// started.
fn inside<L: Layer>(
    saved: &mut Saved,
    version: u32,
    place: &'static str,
    migrate: Migrate,
) -> Result<(), RestoreError> {
    let graph = <L::Inner as Operation>::GRAPH;
    let Some(at) = field(&saved.operation, place) else {
        return Err(RestoreError::MigrationFailed {
            machine: graph.name(),
            from: version,
            reason: format!("the operation of the layer was saved without the field `{place}`"),
        });
    };
    let phase = inner_name::<L>(&saved.phase).map(str::to_owned);
    let is_inside = phase.is_some();
    let mut inner = Saved {
        version,
        phase: phase.unwrap_or_else(|| graph.start().map_or("", |start| start.name()).to_owned()),
        fields: Vec::new(),
        operation: saved.operation[at.clone()].to_vec(),
    };
    if is_inside {
        inner.fields = std::mem::take(&mut saved.fields);
    }
    migrate(&mut inner)?;
    saved.operation.splice(at, inner.operation);
    if is_inside {
        let holder = saved.phase.len()
            - saved
                .phase
                .split_once('.')
                .map_or(0, |(_, name)| name.len());
        saved.phase.truncate(holder);
        saved.phase.push_str(&inner.phase);
        saved.fields = inner.fields;
    }
    Ok(())
}
