//! How listings are serialized: times in seconds, names as text.

use std::{
    fmt::{self, Display, Write as _},
    time::{Duration, SystemTime},
};

use serde::Serializer;

use crate::instant::Instant;

/// Writes a time in seconds.
pub fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// As [`seconds`], for a time that may be missing.
pub fn some_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&time.as_secs_f64()),
        None => to.serialize_none(),
    }
}

/// Writes a time of the runtime's clock, in seconds since its start.
pub fn clock_time<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
    seconds(&at.duration_since(Instant::START), to)
}

/// Writes a time of the wall clock in seconds since 1970.
pub fn since_1970<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    to.serialize_f64(since.unwrap_or_default().as_secs_f64())
}

/// Writes the text of a value.
pub fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// As [`text`], for a value that may be missing.
pub fn some_text<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_some(&value.to_string()),
        None => to.serialize_none(),
    }
}

/// Text as a string of JSON. `serde_json` would be one more dependency of every user.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                char if u32::from(char) < 0x20 => write!(f, "\\u{:04x}", u32::from(char))?,
                char => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}
