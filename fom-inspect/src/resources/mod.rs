//! What `GET` answers, by resource.

mod family;
mod foms;
mod localities;
mod machine;
mod parts;
mod recorder;
mod summary;
mod waits;

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    problem::{Answered, Problem},
    query::{Query, decode, short},
    state::{State, clock},
};

pub(crate) use foms::{FILTER, entry, filter, id, info, keys, waits_for_attempt};
pub(crate) use recorder::{check as check_recorder, write_trace};

/// A resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Summary,
    Session,
    Machines,
    Machine(String),
    /// The drawing of a machine.
    Graph(String),
    Foms,
    Fom(u64),
    /// The data of a fom.
    Data(u64),
    /// The parent and the children of a fom.
    Family(u64),
    Find,
    Waits,
    Keys,
    Localities,
    Journal,
    Entry(u64),
    Warnings,
    Failures,
    /// The named parts of the program.
    Parts,
    Admissions,
    Services,
    Recorder,
    /// The recording, for Perfetto.
    Trace,
    Stream,
}

/// The resources without one more part in the path.
const PLAIN: [(&str, Resource); 16] = [
    ("summary", Resource::Summary),
    ("session", Resource::Session),
    ("machines", Resource::Machines),
    ("foms", Resource::Foms),
    ("find", Resource::Find),
    ("waits", Resource::Waits),
    ("keys", Resource::Keys),
    ("localities", Resource::Localities),
    ("journal", Resource::Journal),
    ("parts", Resource::Parts),
    ("admissions", Resource::Admissions),
    ("services", Resource::Services),
    ("warnings", Resource::Warnings),
    ("failures", Resource::Failures),
    ("recorder", Resource::Recorder),
    ("stream", Resource::Stream),
];

impl Resource {
    /// Returns the resource of a path below `/api/v1/`.
    pub(crate) fn of(path: &str) -> Result<Self, Problem> {
        let unknown = || {
            let names = PLAIN.iter().map(|(name, _)| *name);
            let message = format!("there is no resource `{}`", short(path));
            Problem::not_found(message).allow(names)
        };
        let (name, rest) = match path.split_once('/') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let id = |rest: &str| {
            let wrong = || Problem::not_found(format!("`{}` is no id", short(rest)));
            rest.parse().map_err(|_| wrong())
        };
        match (name, rest) {
            ("machines", Some(rest)) => {
                let (name, is_graph) = match rest.strip_suffix("/graph") {
                    Some(name) => (name, true),
                    None => (rest, false),
                };
                let name = decode(name, false).ok_or_else(unknown)?;
                Ok(if is_graph {
                    Self::Graph(name)
                } else {
                    Self::Machine(name)
                })
            }
            ("foms", Some(rest)) => match rest.split_once('/') {
                Some((rest, "data")) => Ok(Self::Data(id(rest)?)),
                Some((rest, "family")) => Ok(Self::Family(id(rest)?)),
                Some(_) => Err(unknown()),
                None => Ok(Self::Fom(id(rest)?)),
            },
            ("journal", Some(rest)) => Ok(Self::Entry(id(rest)?)),
            ("recorder", Some("trace")) => Ok(Self::Trace),
            (_, Some(_)) => Err(unknown()),
            (name, None) => {
                let plain = PLAIN.into_iter().find(|(plain, _)| *plain == name);
                plain.map(|(_, resource)| resource).ok_or_else(unknown)
            }
        }
    }

    /// Returns the parameters that the resource takes.
    pub(crate) fn parameters(&self) -> &'static [&'static str] {
        match self {
            Self::Foms => foms::PARAMETERS,
            Self::Find => &["q"],
            Self::Waits | Self::Keys | Self::Journal => &["limit"],
            Self::Failures => &["limit", "type"],
            Self::Stream => &["machine"],
            Self::Graph(_) => &["form"],
            _ => &[],
        }
    }

    /// Whether the answer may take long: it walks over foms or lists, calls code of the program, or draws.
    pub(crate) fn walks(&self) -> bool {
        !matches!(self, Self::Summary | Self::Machines | Self::Localities)
    }
}

/// Answers a request for a resource.
pub(crate) fn answer(state: &State, resource: &Resource, query: &Query) -> Answered {
    let answer = match resource {
        Resource::Summary => summary::summary(state),
        Resource::Machines => summary::machines(state),
        Resource::Machine(name) => machine::machine(state, name)?,
        Resource::Graph(name) => {
            return stamped(state, machine::graph(state, name, query)?, usize::MAX);
        }
        Resource::Foms => foms::foms(state, query)?,
        Resource::Fom(id) => return stamped(state, foms::fom(state, *id)?, usize::MAX),
        Resource::Data(id) => return stamped(state, foms::data(state, *id)?, usize::MAX),
        Resource::Family(id) => family::family(state, *id)?,
        Resource::Find => foms::find(state, query)?,
        Resource::Waits => waits::waits(state, query)?,
        Resource::Keys => waits::keys(state, query)?,
        Resource::Localities => localities::localities(state),
        Resource::Journal => parts::journal(state, query)?,
        Resource::Warnings => parts::warnings(state)?,
        Resource::Parts => parts::parts(state, None),
        Resource::Admissions => parts::parts(state, Some("admission")),
        Resource::Services => parts::parts(state, Some("service")),
        Resource::Recorder => recorder::recorder(state)?,
        Resource::Failures => parts::failures(state, query)?,
        Resource::Session | Resource::Entry(_) | Resource::Stream | Resource::Trace => {
            return Err(Problem::not_found("this resource has no listing"));
        }
    };
    stamped(state, answer, LONGEST)
}

/// The longest text in a list, in characters.
const LONGEST: usize = 1024;

/// Adds the times, and cuts long texts.
#[allow(
    clippy::unnecessary_wraps,
    reason = "the last call of what answers a request"
)]
fn stamped(state: &State, mut answer: Value, longest: usize) -> Answered {
    cut(&mut answer, longest);
    if let Value::Object(fields) = &mut answer {
        fields.insert("at".into(), now().into());
        fields.insert("now".into(), clock(state.runtime.now()).into());
    }
    Ok(answer)
}

/// Returns the time of the wall clock, in seconds since 1970.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Cuts texts to this number of characters.
fn cut(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) if text.len() > longest => {
            if let Some((end, _)) = text.char_indices().nth(longest) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cut(value, longest)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cut(value, longest)),
        _ => {}
    }
}

/// Writes a value that can be written.
fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_else(|error| json!({"unreadable": error.to_string()}))
}
