//! What the program tells the inspector beside its runtime.

use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;

/// Lists something of a program for an inspector. Each closure without arguments is a source if its result is
/// `Serialize`.
///
/// The inspector calls a source on a thread of its own, only while it has clients, and at most once at a time. It waits one
/// second for the result. A panic of the source is the answer to that client, and affects nothing else.
pub trait Source: Send + Sync + 'static {
    /// Lists what is there now.
    ///
    /// # Errors
    ///
    /// Fails if the listing cannot be written as JSON, such as a map with keys that are no texts.
    fn list(&self) -> Result<Value, serde_json::Error>;
}

impl<T: Serialize, F: Fn() -> T + Send + Sync + 'static> Source for F {
    fn list(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self())
    }
}

/// Writes the metrics of the program.
type WriteMetrics = dyn Fn() -> Result<String, fmt::Error> + Send + Sync;

/// The source of the metrics, if there is one.
#[derive(Clone, Default)]
pub(crate) struct MetricsSource(pub(crate) Option<Arc<WriteMetrics>>);

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.0.is_some();
        f.debug_tuple("MetricsSource").field(&is_there).finish()
    }
}

/// The source of the warnings, if there is one.
#[derive(Clone, Default)]
pub(crate) struct WarningSource(pub(crate) Option<Arc<dyn Source>>);

impl fmt::Debug for WarningSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.0.is_some();
        f.debug_tuple("WarningSource").field(&is_there).finish()
    }
}
