//! The line to one client: bytes in, replies out, and what is on its way between.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::TcpStream;

use super::replies::{Replies, Slot};
use crate::wire::{Limits, Reader, Reply};

/// Bytes that are written into the buffer before the socket has taken some.
const AT_ONCE: usize = 64 * 1024;

/// What happened on the line.
#[derive(Debug)]
pub(crate) enum News {
    /// There are more bytes to be understood.
    Bytes,
    /// Commands were answered.
    Answered,
    /// The client has sent all it will send.
    End,
    /// It does not read what it is answered.
    Slow,
}

/// The line to one client.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    pub(crate) reader: Reader,
    replies: Arc<Replies>,
    /// Numbers given to commands.
    numbered: u64,
    /// Commands that were answered.
    answered: u64,
    /// Replies that were taken and are not in the buffer yet, and their bytes.
    queue: VecDeque<Reply>,
    queued: usize,
    taken: VecDeque<Reply>,
    out: BytesMut,
}

impl Line {
    pub(crate) fn new(stream: TcpStream, limits: Limits) -> Self {
        Self {
            stream,
            reader: Reader::new(limits),
            replies: Arc::default(),
            numbered: 0,
            answered: 0,
            queue: VecDeque::new(),
            queued: 0,
            taken: VecDeque::new(),
            out: BytesMut::new(),
        }
    }

    /// The place of the reply to the next command.
    pub(crate) fn slot(&mut self) -> Slot {
        let number = self.numbered;
        self.numbered += 1;
        Slot::new(&self.replies, number)
    }

    /// Answers the next command at once, behind those before it.
    pub(crate) fn answer(&mut self, reply: Reply) {
        if self.in_flight() == 0 {
            self.numbered += 1;
            self.answered += 1;
            self.replies.skip();
            self.enqueue(reply);
        } else {
            self.slot().put(reply);
        }
    }

    /// Commands that are not answered yet.
    pub(crate) fn in_flight(&self) -> u64 {
        self.numbered - self.answered
    }

    /// Bytes that the client has not read, as far as we know.
    pub(crate) fn unread(&self) -> usize {
        self.out.len() + self.queued
    }

    fn enqueue(&mut self, reply: Reply) {
        if self.queue.is_empty() && self.out.len() < AT_ONCE {
            reply.write(&mut self.out);
        } else {
            self.queued += reply.size();
            self.queue.push_back(reply);
        }
    }

    /// Takes the replies that are there. Ready when there were some; the task is woken when there are more.
    fn poll_replies(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let before = self.answered;
        let mut taken = std::mem::take(&mut self.taken);
        while let Poll::Ready(count) = self.replies.poll_take(&mut taken, task) {
            self.answered += count;
            for reply in taken.drain(..) {
                self.enqueue(reply);
            }
        }
        self.taken = taken;
        if self.answered > before {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Ready when all there is to write is written.
    fn poll_write(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.out.len() < AT_ONCE
                && let Some(reply) = self.queue.pop_front()
            {
                self.queued -= reply.size();
                reply.write(&mut self.out);
            }
            if self.out.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(task, &self.out))?;
            self.out.advance(written);
        }
    }

    /// Serves the line until there are news. Reads only if it `may_read`.
    pub(crate) fn poll(
        &mut self,
        task: &mut Context<'_>,
        may_read: bool,
        most_unread: usize,
    ) -> Poll<io::Result<News>> {
        let answered = self.poll_replies(task).is_ready();
        if let Poll::Ready(written) = self.poll_write(task) {
            written?;
        }
        if self.unread() > most_unread {
            return Poll::Ready(Ok(News::Slow));
        }
        if may_read {
            let read = pin!(self.stream.read_buf(self.reader.room())).poll(task);
            if let Poll::Ready(read) = read {
                return Poll::Ready(Ok(if read? == 0 { News::End } else { News::Bytes }));
            }
        }
        if answered {
            Poll::Ready(Ok(News::Answered))
        } else {
            Poll::Pending
        }
    }

    /// Waits until all commands are answered, and the socket has taken the answers.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|task| {
            while self.in_flight() > 0 {
                ready!(self.poll_replies(task));
            }
            self.poll_write(task)
        })
        .await
    }
}
