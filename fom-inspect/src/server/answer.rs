//! Answers with their headers.

use hyper::{
    Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
        HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::{assets::Asset, body::Body};
use crate::problem::Problem;

pub(super) type Answer = Response<Body>;

/// What the page may do: it loads only its own files, and no page frames it.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns an answer with the headers that each answer has.
fn answer(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    headers.insert("fom-api", HeaderValue::from_static("1"));
    answer
}

pub(super) fn json(text: Vec<u8>) -> Answer {
    answer(StatusCode::OK, "application/json", Body::whole(text))
}

/// Returns metrics in the text format of Prometheus.
pub(super) fn metrics(text: String) -> Answer {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    answer(StatusCode::OK, kind, Body::whole(text))
}

pub(super) fn asset(asset: &'static Asset) -> Answer {
    answer(StatusCode::OK, asset.kind, Body::whole(asset.bytes))
}

pub(super) fn nothing() -> Answer {
    answer(
        StatusCode::NO_CONTENT,
        "text/plain",
        Body::whole(Vec::new()),
    )
}

pub(super) fn stream(body: Body) -> Answer {
    answer(StatusCode::OK, "text/event-stream", body)
}

/// Returns a download with the name of its file.
pub(super) fn attachment(body: Body, kind: &'static str, name: &str) -> Answer {
    let mut answer = answer(StatusCode::OK, kind, body);
    let name = format!("attachment; filename=\"{name}\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    answer
}

pub(super) fn problem(problem: &Problem) -> Answer {
    let text = problem.json().to_string();
    let mut answer = answer(problem.status, "application/json", Body::whole(text));
    if let Some(allowed) = problem.allow_header()
        && let Ok(allowed) = HeaderValue::from_str(allowed)
    {
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}

/// Returns a whole answer in bytes, for a connection on which there is no request. The connection is closed behind it.
pub(super) fn last_words(problem: &Problem) -> Vec<u8> {
    let text = problem.json().to_string();
    let (status, length) = (problem.status, text.len());
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         fom-api: 1\r\nconnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}
