//! How listings are serialized: times in seconds, names as text.

use std::{
    fmt::Display,
    time::{Duration, SystemTime},
};

use serde::Serializer;

use crate::instant::Instant;

/// Writes a time in seconds.
pub(crate) fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// As [`seconds`], for a time that may be missing.
pub(crate) fn some_seconds<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&time.as_secs_f64()),
        None => to.serialize_none(),
    }
}

/// Writes a time of the runtime's clock, in seconds since its start.
pub(crate) fn clock_time<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
    seconds(&at.duration_since(Instant::START), to)
}

/// Writes a time of the wall clock in seconds since 1970.
pub(crate) fn since_1970<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    to.serialize_f64(since.unwrap_or_default().as_secs_f64())
}

/// Writes the text of a value.
pub(crate) fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// As [`text`], for a value that may be missing.
pub(crate) fn some_text<T: Display, S: Serializer>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_some(&value.to_string()),
        None => to.serialize_none(),
    }
}
