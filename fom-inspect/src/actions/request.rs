//! What a client asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    problem::Problem,
    query::{Query, short},
    resources::FILTER,
};

/// The longest reason and the longest name of an actor, in characters.
const REASON: usize = 400;
const ACTOR: usize = 100;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) action: Action,
    reason: String,
    actor: Option<String>,
    pub(super) id: Option<u64>,
    #[serde(rename = "type")]
    pub(super) name: Option<String>,
    pub(super) key: Option<KeyText>,
    /// The name of an admission, and its new policy.
    pub(super) admission: Option<String>,
    pub(super) policy: Option<String>,
    /// A client of the admission.
    pub(super) client: Option<String>,
    /// The inner option is for an event that serde writes as `null`.
    #[serde(default, deserialize_with = "present")]
    pub(super) event: Option<Value>,
    filter: Option<BTreeMap<String, Value>>,
    pub(super) dry_run: Option<DryRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Cancel,
    Wake,
    NextAttempt,
    Resubmit,
    Retry,
    Discard,
    Suspend,
    Resume,
    Send,
    Policy,
    Promote,
}

impl Action {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Wake => "wake",
            Self::NextAttempt => "next_attempt",
            Self::Resubmit => "resubmit",
            Self::Retry => "retry",
            Self::Discard => "discard",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Send => "send",
            Self::Policy => "policy",
            Self::Promote => "promote",
        }
    }
}

/// A key, as the API writes it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum KeyText {
    Text(String),
    Number(u64),
}

impl KeyText {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum DryRun {
    /// Whether this is one.
    Is(bool),
    /// The name of the one to carry out.
    Named(String),
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Request {
    pub(super) fn read(body: &[u8]) -> Result<Self, Problem> {
        let read: Result<Self, _> = serde_json::from_slice(body);
        let request = read.map_err(|error| {
            Problem::body(format!(
                "the body is no action: {error}; see API.md of fom-inspect"
            ))
        })?;
        let characters = request.reason.trim().chars().count();
        if !(1..=REASON).contains(&characters) {
            let message = format!("`reason` has {characters} characters; say why in 1 to {REASON}");
            return Err(Problem::body(message));
        }
        let actor = request.actor.as_deref().unwrap_or_default();
        if actor.chars().count() > ACTOR {
            let message = format!("`actor` can have at most {ACTOR} characters");
            return Err(Problem::body(message));
        }
        Ok(request)
    }

    pub(super) fn reason(&self) -> String {
        line(&self.reason)
    }

    /// Returns the name that the client gave, and its address.
    pub(super) fn actor(&self, peer: &str) -> String {
        match self.actor.as_deref().map(str::trim) {
            None | Some("") => peer.to_owned(),
            Some(actor) => format!("{} ({peer})", line(actor)),
        }
    }

    /// Returns the id that the action needs.
    pub(super) fn id(&self) -> Result<u64, Problem> {
        let missing = || Problem::body(format!("`{}` needs `id`", self.action.name()));
        self.id.ok_or_else(missing)
    }

    /// Returns the filter, with the parameters of `foms`.
    pub(super) fn filter(&self) -> Result<Option<Query>, Problem> {
        let Some(filter) = &self.filter else {
            return Ok(None);
        };
        let mut parameters = BTreeMap::new();
        for (name, value) in filter {
            if !FILTER.contains(&name.as_str()) {
                let message = format!("a filter has no `{}`", short(name));
                return Err(Problem::body(message).allow(FILTER.to_vec()));
            }
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => {
                    let message = format!("`{name}` of the filter is no text and no number");
                    return Err(Problem::body(message));
                }
            };
            parameters.insert(name.clone(), text);
        }
        Ok(Some(Query::of(parameters)))
    }
}

/// Makes one line of a text, for the record.
fn line(text: &str) -> String {
    let is_space = |char: char| char.is_control() || char.is_whitespace();
    let words: Vec<_> = text
        .split(is_space)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}
