//! The engine in memory keeps the promises of an engine.

use fom_cluster::{MemoryEngine, conformance};

#[test]
fn the_engine_in_memory_keeps_the_promises() {
    conformance::check(MemoryEngine::new);
}
