//! The named parts of a program, as they are listed.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{id::FomId, instant::Instant, serial};

/// The named parts of a program, such as admissions, streams, lock tables, active objects and services. Each part was
/// read at its own moment. `Display` prints a line for each.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Parts {
    /// The time of the wall clock.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// The parts, in the order in which they were made.
    pub parts: Vec<PartInfo>,
}

/// One named part of a program. The package that the part belongs to makes this value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PartInfo {
    /// The kind of the part, such as `admission` or `lock table`.
    pub kind: &'static str,
    /// The name of the part. Several parts can have the same name.
    pub name: String,
    /// Whether the part did not answer within 100 ms. Its list of counters is then incomplete.
    pub busy: bool,
    /// The number of requests that wait in the part, if the part has a queue. For a stream, these are all requests that
    /// have not ended.
    pub queued: Option<u64>,
    /// How long the oldest of these requests has waited, if the part knows it.
    #[serde(serialize_with = "serial::some_seconds")]
    pub oldest: Option<Duration>,
    /// The fom of the part, if the part is a fom.
    pub fom: Option<FomId>,
    /// The counters and settings of the part, by name. Serialized as one map.
    #[serde(serialize_with = "as_map")]
    pub counters: Vec<(&'static str, PartValue)>,
}

/// A counter or a setting of a part.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PartValue {
    /// A number.
    Count(u64),
    /// A time. Serialized in seconds.
    Time(Duration),
    /// A text.
    Text(String),
    /// Something that is true or not.
    Flag(bool),
    /// Several values.
    List(Vec<PartValue>),
    /// Several values with names. Serialized as one map.
    Fields(Vec<(&'static str, PartValue)>),
}

impl PartInfo {
    /// Returns a part without counters.
    pub fn new(kind: &'static str, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            busy: false,
            queued: None,
            oldest: None,
            fom: None,
            counters: Vec::new(),
        }
    }

    /// Sets the number of requests that wait in the part.
    #[must_use]
    pub fn queued(mut self, requests: usize) -> Self {
        self.queued = Some(requests as u64);
        self
    }

    /// Adds a counter or a setting.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<PartValue>) -> Self {
        self.counters.push((name, value.into()));
        self
    }

    /// Returns the counter or setting with this name.
    pub fn get(&self, name: &str) -> Option<&PartValue> {
        let mut all = self.counters.iter();
        all.find(|(one, _)| *one == name).map(|(_, value)| value)
    }

    /// Returns the counter with this name, if it is a number.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(PartValue::Count(count)) => Some(*count),
            _ => None,
        }
    }
}

impl fmt::Display for PartInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:", self.kind, self.name)?;
        if self.busy {
            f.write_str(" busy")?;
        }
        if let Some(queued) = self.queued {
            write!(f, " {queued} queued")?;
        }
        if let Some(fom) = self.fom {
            write!(f, " fom {fom}")?;
        }
        for (name, value) in &self.counters {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| writeln!(f, "{part}"))
    }
}

impl fmt::Display for PartValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Flag(flag) => flag.fmt(f),
            Self::List(list) => {
                let texts: Vec<_> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(" "))
            }
            Self::Fields(fields) => {
                let text = |(name, value): &(&str, Self)| format!("{name}={value}");
                let texts: Vec<_> = fields.iter().map(text).collect();
                write!(f, "({})", texts.join(" "))
            }
        }
    }
}

impl Serialize for PartValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => to.serialize_u64(*count),
            Self::Time(time) => to.serialize_f64(time.as_secs_f64()),
            Self::Text(text) => to.serialize_str(text),
            Self::Flag(flag) => to.serialize_bool(*flag),
            Self::List(list) => to.collect_seq(list),
            Self::Fields(fields) => as_map(fields, to),
        }
    }
}

fn as_map<S: Serializer>(fields: &[(&'static str, PartValue)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(fields.len()))?;
    for (name, value) in fields {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

impl From<u64> for PartValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for PartValue {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<Duration> for PartValue {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

impl From<bool> for PartValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<String> for PartValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for PartValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
