//! What a request says and what an answer looks like: the same code for the server and its twin.

use std::time::Duration;

use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Bytes, server::conn::http1};
use hyper_util::rt::TokioTimer;

/// How long the bank may take.
pub(crate) const BANK_LIMIT: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// The bank declines more than this, in cents.
const MOST: u64 = 1_000_000;
/// The bank never answers about more than this, in cents: it asks a person.
const SILENT_ABOVE: u64 = 100_000_000;

/// An answer to a client.
pub(crate) type Answer = Response<Full<Bytes>>;

/// What a client wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// The sum with the fee.
    Quote { cents: u64 },
    /// To pay, once the bank agrees.
    Pay { cents: u64 },
    /// Something that is not here.
    Nothing(StatusCode),
}

/// Reads the line of a request. The body of a request is ignored.
pub(crate) fn wanted<B>(request: &Request<B>) -> Wanted {
    let path = request.uri().path();
    let (get, post) = (
        request.method() == Method::GET,
        request.method() == Method::POST,
    );
    let cents = |cents: &str| cents.parse().ok().filter(|cents| *cents < u64::MAX / 200);
    if let Some(rest) = path.strip_prefix("/quote/") {
        match cents(rest) {
            Some(cents) if get => Wanted::Quote { cents },
            Some(_) => Wanted::Nothing(StatusCode::METHOD_NOT_ALLOWED),
            None => Wanted::Nothing(StatusCode::BAD_REQUEST),
        }
    } else if let Some(rest) = path.strip_prefix("/pay/") {
        match cents(rest) {
            Some(cents) if post => Wanted::Pay { cents },
            Some(_) => Wanted::Nothing(StatusCode::METHOD_NOT_ALLOWED),
            None => Wanted::Nothing(StatusCode::BAD_REQUEST),
        }
    } else {
        Wanted::Nothing(StatusCode::NOT_FOUND)
    }
}

/// Returns a sum with the fee of one and a half percent.
pub(crate) fn with_fee(cents: u64) -> u64 {
    cents + (cents * 15).div_ceil(1000)
}

/// What the bank thinks of a payment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Agreed,
    Declined,
}

/// Returns what the bank says to a payment, or `None` if it says nothing.
pub(crate) fn verdict(cents: u64) -> Option<Verdict> {
    if cents > SILENT_ABOVE {
        return None;
    }
    Some(match cents > MOST {
        true => Verdict::Declined,
        false => Verdict::Agreed,
    })
}

/// An answer with a sum.
pub(crate) fn sum(cents: u64) -> Answer {
    let text = format!("{}.{:02}\n", cents / 100, cents % 100);
    with_body(StatusCode::OK, text.into())
}

/// An answer without a sum.
pub(crate) fn plain(status: StatusCode) -> Answer {
    let reason = status.canonical_reason().unwrap_or_default();
    with_body(status, Bytes::from_static(reason.as_bytes()))
}

fn with_body(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}

/// How hyper serves a connection.
pub(crate) fn protocol() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT);
    protocol
}
