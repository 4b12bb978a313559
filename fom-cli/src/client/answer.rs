//! What an answer means.

use hyper::{StatusCode, http::response::Parts};
use serde_json::Value;

use super::{address::Address, http::VERSION};
use crate::failure::Failure;

/// The names of a refusal that its message shows.
const NAMES: usize = 12;

/// The head of an answer of an inspector.
pub(super) struct Known<'a> {
    address: &'a Address,
    status: StatusCode,
    /// The version of the API that the program speaks.
    version: String,
}

impl<'a> Known<'a> {
    /// Reads the head of an answer. Fails if no inspector sent it.
    pub(super) fn of(address: &'a Address, head: &Parts) -> Result<Self, Failure> {
        let version = head.headers.get("fom-api");
        let Some(version) = version.and_then(|version| version.to_str().ok()) else {
            return Err(foreign(address));
        };
        Ok(Self {
            address,
            status: head.status,
            version: version.chars().take(16).collect(),
        })
    }

    /// Whether the request was carried out, by a program that speaks this version.
    pub(super) fn is_done(&self) -> bool {
        self.status == StatusCode::OK && self.version == VERSION
    }

    /// Returns the body of an answer.
    pub(super) fn json(self, body: &[u8]) -> Result<Value, Failure> {
        if !self.is_done() {
            return Err(self.refusal(body));
        }
        match serde_json::from_slice(body) {
            Ok(answer @ Value::Object(_)) => Ok(answer),
            _ => Err(foreign(self.address)),
        }
    }

    /// Returns why the request was refused.
    pub(super) fn refusal(self, body: &[u8]) -> Failure {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let message = error["message"].as_str();
        match (error["code"].as_str(), message) {
            // A program of another release says which command it needs.
            (Some("version"), Some(message)) => Failure::new(format!("{message}{}", ours())),
            _ if self.version != VERSION => Failure::new(format!(
                "the program at {} speaks version {} of the API, and this command version {VERSION}; use the command of \
                 the program's release{}",
                self.address,
                self.version,
                ours()
            )),
            (Some(code), Some(message)) => Failure::Refused {
                code: code.to_owned(),
                message: format!("{message}{}{}", allowed(error, message), remedy(code)),
            },
            _ => foreign(self.address),
        }
    }
}

/// Returns this command's own version, in brackets.
fn ours() -> String {
    format!(
        " (this is the command of fom {})",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the names that a refusal allows, if its message does not have them.
fn allowed(error: &Value, message: &str) -> String {
    let names = error["allowed"].as_array().into_iter().flatten();
    let mut names = names.filter_map(Value::as_str);
    let shown: Vec<_> = names.by_ref().take(NAMES).collect();
    if shown.iter().all(|name| message.contains(name)) {
        return String::new();
    }
    let more = if names.next().is_some() { ", .." } else { "" };
    format!("; allowed: {}{more}", shown.join(", "))
}

/// Returns what the user of the command can do.
fn remedy(code: &str) -> &'static str {
    match code {
        "token" => "; FOM_INSPECT_TOKEN has the token, or the file of `--token-file`",
        _ => "",
    }
}

/// What answered is no inspector.
fn foreign(address: &Address) -> Failure {
    Failure::Away(format!(
        "what answers at {address} is no inspector of a program of fom"
    ))
}
