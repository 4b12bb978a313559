//! One connection's bytes, with limits.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Sleep, sleep},
};

use super::connection::Conn;

/// How long a client may read nothing of what is sent.
const STALLED: Duration = Duration::from_secs(10);

/// A TCP connection, or one of a Unix socket.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that is closed if its client reads nothing for some time. What hyper sends before the first request is dropped:
/// the answer to a head that is no request, for which the inspector has its own.
pub(super) struct Guarded {
    io: TokioIo<Box<dyn Io>>,
    conn: Arc<Conn>,
    /// The time at which the client has read nothing for too long.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    pub(super) fn new(io: Box<dyn Io>, conn: Arc<Conn>) -> Self {
        Self {
            io: TokioIo::new(io),
            conn,
            stalled: None,
        }
    }

    pub(super) fn into_inner(self) -> Box<dyn Io> {
        self.io.into_inner()
    }

    /// Ends a wait for the client that is too long.
    fn limited<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Read for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, to)
    }
}

impl Write for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.conn.had_request() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.limited(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.limited(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
