//! The bodies of answers and of requests.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::connection::Busy;
use crate::problem::Problem;

/// The largest body of a request.
const LARGEST: usize = 64 * 1024;
/// How much of a body that is too large is still read, so that its client reads the answer.
const DISCARDED: usize = 4 * 1024 * 1024;

/// The body of an answer.
pub(crate) struct Body {
    kind: Kind,
    /// The connection is busy until the body is on its way.
    _busy: Option<Busy>,
}

enum Kind {
    Whole(Option<Bytes>),
    Stream(
        mpsc::Receiver<Bytes>,
        #[allow(dead_code, reason = "dropped with it")] Arc<OwnedSemaphorePermit>,
    ),
}

impl Body {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            kind: Kind::Whole((!bytes.is_empty()).then_some(bytes)),
            _busy: None,
        }
    }

    /// Returns a body that ends with its sender. It has one place of the streams.
    pub(super) fn stream(from: mpsc::Receiver<Bytes>, place: Arc<OwnedSemaphorePermit>) -> Self {
        Self {
            kind: Kind::Stream(from, place),
            _busy: None,
        }
    }

    pub(super) fn during(self, busy: Busy) -> Self {
        Self {
            _busy: Some(busy),
            ..self
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(from, _) => from
                .poll_recv(cx)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(length.try_into().unwrap_or(u64::MAX))
            }
            Kind::Stream(..) => SizeHint::default(),
        }
    }
}

/// The size of a piece of a long body.
const PIECE: usize = 64 * 1024;

/// Writes a body in pieces, from a thread that may block. It waits for its reader.
pub(super) struct Pieces {
    to: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(to: mpsc::Sender<Bytes>) -> Self {
        let piece = Vec::new();
        Self { to, piece }
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.to.blocking_send(piece.into()).map_err(gone)
    }

    /// Sends the rest.
    pub(super) fn end(mut self) {
        if !self.piece.is_empty() {
            // An error means that the reader is gone.
            let _ = self.send();
        }
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the body of a request.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, Problem> {
    let large = || Problem::too_large("a body has at most 64 KiB");
    if body.size_hint().lower() > DISCARDED as u64 {
        return Err(large());
    }
    let (mut bytes, mut length) = (Vec::new(), 0_usize);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| Problem::body("the body broke off"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length = length.saturating_add(data.len());
        if length <= LARGEST {
            bytes.extend_from_slice(&data);
        } else if length > DISCARDED {
            break;
        }
    }
    if length > LARGEST {
        return Err(large());
    }
    Ok(bytes)
}
