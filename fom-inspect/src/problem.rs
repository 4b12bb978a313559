//! The errors of the API, as its clients get them.

use std::{borrow::Cow, fmt::Display};

use hyper::StatusCode;
use serde_json::{Value, json};

/// Why a request is refused. The message states what is allowed.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    allowed: Vec<Cow<'static, str>>,
}

pub(crate) type Answered = Result<Value, Problem>;

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            allowed: Vec::new(),
        }
    }

    /// States what is allowed instead.
    pub(crate) fn allow<T: Into<Cow<'static, str>>>(
        mut self,
        allowed: impl IntoIterator<Item = T>,
    ) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) fn query(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "query", message)
    }

    pub(crate) fn body(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "body", message)
    }

    pub(crate) fn version(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "version", message).allow(["1"])
    }

    pub(crate) fn http() -> Self {
        let message = "this is no HTTP/1.1 request; see API.md of fom-inspect";
        Self::new(StatusCode::BAD_REQUEST, "http", message)
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// No fom has this id.
    pub(crate) fn no_fom(id: u64) -> Self {
        Self::not_found(format!("no fom has the id {id}; it may have ended"))
    }

    /// No entry of the quarantine has this id.
    pub(crate) fn no_entry(id: impl Display) -> Self {
        Self::not_found(format!("the quarantine has no entry {id}"))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unavailable", message)
    }

    pub(crate) fn method(allowed: &'static str) -> Self {
        let message = format!("use {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message).allow([allowed])
    }

    pub(crate) fn slow() -> Self {
        let message = "head and body of a request must arrive within 10 s";
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn head() -> Self {
        let message = "the head of a request has at most 16 KiB";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "head", message)
    }

    pub(crate) fn panicked() -> Self {
        let message = "code of the program panicked while it answered; its output has the panic";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "panicked", message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    /// Returns what the header `Allow` has, for a wrong method.
    pub(crate) fn allow_header(&self) -> Option<&str> {
        let is_method = self.status == StatusCode::METHOD_NOT_ALLOWED;
        self.allowed.first().filter(|_| is_method).map(|it| &**it)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "error": {
                "status": self.status.as_u16(),
                "code": self.code,
                "message": self.message,
                "allowed": self.allowed,
            }
        })
    }
}
