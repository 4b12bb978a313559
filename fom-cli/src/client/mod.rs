//! The client of a program's inspector, over its HTTP API.
//!
//! | file | what |
//! | --- | --- |
//! | `address.rs` | where the inspector listens |
//! | `token.rs` | the token |
//! | `http.rs` | one request, with limits of time and size |
//! | `answer.rs` | what an answer means |

mod address;
mod answer;
mod http;
mod token;

use std::{io, time::Duration};

use hyper::{Method, header::HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{args::Program, failure::Failure, filter::Filter};

use address::Address;
use answer::Known;
use http::Request;

/// How long the command waits for a connection, and for an answer. The inspector gives up after 11 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// A client of one inspector.
#[derive(Debug)]
pub(crate) struct Client {
    address: Address,
    token: Option<HeaderValue>,
    tokio: tokio::runtime::Runtime,
}

impl Client {
    /// Returns a client of the program that the command line or the environment names.
    pub(crate) fn new(program: &Program) -> Result<Self, Failure> {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start the client: {error}")))?;
        Ok(Self {
            address: Address::of(program)?,
            token: token::of(program)?,
            tokio,
        })
    }

    /// Reads a resource, such as `foms?type=Call`.
    pub(crate) fn get(&self, resource: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, resource, None)
    }

    /// Reads a resource that may be missing.
    pub(crate) fn find(&self, resource: &str) -> Result<Option<Value>, Failure> {
        match self.get(resource) {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Refused { code, .. }) if code == "not_found" || code == "unavailable" => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Carries out an action.
    pub(crate) fn act(&self, body: &Value) -> Result<Value, Failure> {
        self.ask(Method::POST, "actions", Some(body))
    }

    fn ask(&self, method: Method, resource: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let request = Request {
            address: &self.address,
            token: self.token.as_ref(),
            method,
            resource,
            body: body.map(Value::to_string),
        };
        self.tokio.block_on(async {
            let asked = tokio::time::timeout(PATIENCE, request.whole()).await;
            let (head, body) = asked.map_err(|_| self.address.silent(PATIENCE))??;
            Known::of(&self.address, &head)?.json(&body)
        })
    }

    /// Passes the bytes of a download to `to`, piece by piece. Returns their number.
    pub(crate) fn download(
        &self,
        resource: &str,
        to: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<u64, Failure> {
        let request = Request {
            address: &self.address,
            token: self.token.as_ref(),
            method: Method::GET,
            resource,
            body: None,
        };
        let silent = || self.address.silent(PATIENCE);
        self.tokio.block_on(async {
            let opened = tokio::time::timeout(PATIENCE, request.open()).await;
            let mut opened = opened.map_err(|_| silent())??;
            let known = Known::of(&self.address, &opened.head)?;
            if !known.is_done() {
                let rest = tokio::time::timeout(PATIENCE, opened.rest()).await;
                let rest = rest.map_err(|_| silent())??;
                return Err(known.refusal(&rest));
            }
            let mut bytes = 0;
            loop {
                let piece = tokio::time::timeout(PATIENCE, opened.piece()).await;
                let Some(piece) = piece.map_err(|_| silent())?? else {
                    return Ok(bytes);
                };
                to(&piece)?;
                bytes += piece.len() as u64;
            }
        })
    }
}

/// Returns a resource with the parameters of a filter, and with others.
pub(crate) fn foms(filter: &Filter, others: &[(&str, &str)]) -> String {
    let mut resource = "foms?".to_owned();
    let filter = filter.parameters().iter();
    let filter = filter.map(|(name, value)| (*name, value.as_str()));
    for (name, value) in filter.chain(others.iter().copied()) {
        resource.push_str(&format!("{name}={}&", encoded(value)));
    }
    resource.pop();
    resource
}

/// Returns a text as a part of a path or of a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
