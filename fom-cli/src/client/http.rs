//! One request on a connection of its own.

use std::io;

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
    http::response::Parts,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::address::Address;
use crate::failure::Failure;

/// The largest answer that is read whole. An inspector sends 1 MiB at most.
const LARGEST: usize = 2 * 1024 * 1024;
/// The largest head of an answer.
const HEAD: usize = 64 * 1024;
/// The version of the API that this command speaks.
pub(super) const VERSION: &str = "1";

/// A connection of any kind.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A request for a resource below `/api/v1/`.
pub(super) struct Request<'a> {
    pub(super) address: &'a Address,
    pub(super) token: Option<&'a HeaderValue>,
    pub(super) method: Method,
    pub(super) resource: &'a str,
    pub(super) body: Option<String>,
}

/// An answer of which only the head was read.
pub(super) struct Opened<'a> {
    address: &'a Address,
    pub(super) head: Parts,
    body: Incoming,
}

impl<'a> Request<'a> {
    /// Sends the request, and reads the whole answer.
    pub(super) async fn whole(self) -> Result<(Parts, Vec<u8>), Failure> {
        let mut opened = self.open().await?;
        let body = opened.rest().await?;
        Ok((opened.head, body))
    }

    /// Sends the request, and reads the head of the answer.
    pub(super) async fn open(self) -> Result<Opened<'a>, Failure> {
        let address = self.address;
        let broken = |error: hyper::Error| broken(address, &error);
        let io = TokioIo::new(connect(address).await?);
        let mut http = http1::Builder::new();
        let shaken = http.max_buf_size(HEAD).handshake(io).await;
        let (mut sender, connection) = shaken.map_err(broken)?;
        // It ends with the answer. Its error is that of the answer.
        tokio::spawn(connection);
        let request = self.request()?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = answer.into_parts();
        Ok(Opened {
            address,
            head,
            body,
        })
    }

    fn request(self) -> Result<hyper::Request<Full<Bytes>>, Failure> {
        let mut request = hyper::Request::builder()
            .method(self.method)
            .uri(format!("/api/v{VERSION}/{}", self.resource))
            .header(HOST, self.address.host())
            .header("fom-api", VERSION);
        if let Some(token) = self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::from(self.body.unwrap_or_default());
        let wrong = |error| Failure::usage(format!("this is no request: {error}"));
        request.body(body).map_err(wrong)
    }
}

impl Opened<'_> {
    /// Returns the next piece of the body. `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| broken(self.address, &error))?;
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Returns the rest of the body, if it is not too large.
    pub(super) async fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > LARGEST {
                let address = self.address;
                return Err(Failure::Away(format!(
                    "{address} sends more than {LARGEST} bytes, which no inspector does"
                )));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

async fn connect(address: &Address) -> Result<Box<dyn Io>, Failure> {
    let connected: io::Result<Box<dyn Io>> = match address {
        Address::Tcp { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            stream.map(|stream| Box::new(stream) as Box<dyn Io>)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await;
            stream.map(|stream| Box::new(stream) as Box<dyn Io>)
        }
    };
    connected.map_err(|error| {
        Failure::Away(format!(
            "no program answers at {address}: {error}; it needs an `Inspector` that is bound there"
        ))
    })
}

/// What answers is no HTTP server, or the connection broke.
fn broken(address: &Address, error: &hyper::Error) -> Failure {
    use std::error::Error as _;

    let cause = error.source().map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    Failure::Away(format!(
        "{address} does not answer as an inspector does: {error}{cause}"
    ))
}
