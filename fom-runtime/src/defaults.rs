//! The types of errors and events of a machine that declares none.

use serde::{Deserialize, Serialize};

/// The error type of a machine that declares none: anything that `?` can convert to it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The event type of a machine that takes no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoEvent {}
