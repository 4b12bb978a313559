//! The two directions of a connection, encrypted or not.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

#[cfg(feature = "tls")]
pub use super::tls::Tls;

/// No connection is encrypted without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tls {}

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Calls = b'c' as isize,
    Answers = b'a' as isize,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Calls => Self::Answers,
            Self::Answers => Self::Calls,
        }
    }
}

/// Divides a connection, and encrypts it if there is a `tls`. `to` is the address that was called.
pub(super) async fn divide(
    stream: TcpStream,
    (side, to): (Side, &str),
    tls: Option<&Tls>,
) -> io::Result<(Reader, Writer)> {
    match tls {
        None => {
            let _ = (side, to);
            let (reader, writer) = stream.into_split();
            Ok((Box::new(reader), Box::new(writer)))
        }
        #[cfg(feature = "tls")]
        Some(tls) => {
            let stream = match side {
                Side::Calls => tls.connect(stream, to).await?,
                Side::Answers => tls.accept(stream).await?,
            };
            let (reader, writer) = tokio::io::split(stream);
            Ok((Box::new(reader), Box::new(writer)))
        }
        #[cfg(not(feature = "tls"))]
        Some(tls) => match *tls {},
    }
}
