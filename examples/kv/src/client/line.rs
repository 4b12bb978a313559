//! The line to one client: bytes in, replies out, and the commands between.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::TcpStream;

use super::memory::{EVICTED, Memory};
use super::replies::{Replies, Slot};
use crate::wire::{Limits, Protocol, Reader, Reply};

/// The bytes to put into the buffer before the socket takes some.
const AT_ONCE: usize = 64 * 1024;
/// Bytes of an idle client, without its buffers.
const BASE: usize = 4096;
/// The line does not report changes by fewer bytes.
const GRAIN: usize = 4096;
/// A client does not ask for room for requests up to this many bytes.
const SMALL: usize = 32 * 1024;

/// Something that happened on the line.
#[derive(Debug)]
pub(crate) enum News {
    /// There are more bytes to understand.
    Bytes,
    /// Commands were answered.
    Answered,
    /// The client sends nothing more.
    End,
    /// The client does not read its replies.
    Slow,
    /// All clients together take too much memory, and this one takes the most.
    Evicted,
}

/// The line to one client.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    pub(crate) reader: Reader,
    replies: Arc<Replies>,
    /// The number of commands that got a number.
    numbered: u64,
    /// The number of answered commands.
    answered: u64,
    /// How many of them the line answered itself since it last took replies. `Replies` does not know of them yet.
    unskipped: u64,
    /// Replies that were taken and are not in the buffer yet, and their bytes.
    queue: VecDeque<Reply>,
    queued: usize,
    taken: VecDeque<Reply>,
    out: BytesMut,
    /// The largest capacity of `out` since it was new. Its written bytes are freed only when all are written.
    out_room: usize,
    protocol: Protocol,
    /// True until other clients have had a turn. A write wakes the client's process. Writes one after the other, after
    /// the requests of all clients that had some, wake it once.
    lets_others: bool,
    under_way: UnderWay,
    /// Bytes that the client's fom holds besides the line: its queue and its watched keys.
    besides: usize,
    /// Bytes that the line has reported to `Memory`.
    charged: usize,
}

/// Counts the bytes of requests under way: those behind a mark. All requests before the mark are answered. Two marks
/// take turns.
#[derive(Debug, Default)]
struct UnderWay {
    since: usize,
    later: usize,
    /// After so many answers, all requests up to `later` are answered.
    mark: u64,
}

impl UnderWay {
    /// Returns how many of the first `taken` bytes are under way, or some more. Those bytes hold `numbered` commands,
    /// and `answered` of them have their replies.
    fn bytes(&mut self, taken: usize, numbered: u64, answered: u64) -> usize {
        if answered == numbered {
            (self.since, self.later, self.mark) = (taken, taken, numbered);
        } else if answered >= self.mark {
            (self.since, self.later, self.mark) = (self.later, taken, numbered);
        }
        taken - self.since
    }
}

impl Line {
    pub(crate) fn new(stream: TcpStream, limits: Limits, memory: &Arc<Memory>) -> Self {
        let mut line = Self {
            stream,
            reader: Reader::new(limits),
            replies: memory.seat(),
            numbered: 0,
            answered: 0,
            unskipped: 0,
            queue: VecDeque::new(),
            queued: 0,
            taken: VecDeque::new(),
            out: BytesMut::new(),
            out_room: 0,
            protocol: Protocol::default(),
            lets_others: false,
            under_way: UnderWay::default(),
            besides: 0,
            charged: 0,
        };
        line.charge();
        line
    }

    /// Returns the version of the protocol for replies.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Writes all later replies in this version. All commands before must be answered.
    pub(crate) fn speak(&mut self, protocol: Protocol) {
        while let Some(reply) = self.queue.pop_front() {
            self.write(&reply);
        }
        self.queued = 0;
        self.protocol = protocol;
    }

    /// Sets how many bytes the client's fom holds besides the line.
    pub(crate) fn holds_besides(&mut self, bytes: usize) {
        self.besides = bytes;
        self.charge();
    }

    /// Reports to `Memory` how many bytes this client takes.
    #[inline]
    fn charge(&mut self) {
        let replies = 2 * self.taken.capacity() + self.queue.capacity();
        let requests = self
            .under_way
            .bytes(self.reader.taken(), self.numbered, self.answered);
        let takes = BASE
            + self.reader.capacity()
            + self.out_room
            + self.queued
            + replies * size_of::<Reply>()
            + requests
            + self.besides;
        if takes.abs_diff(self.charged) >= GRAIN {
            self.charged = takes;
            self.replies.charge(takes);
        }
    }

    /// Returns the place of the reply to the next command.
    pub(crate) fn slot(&mut self) -> Slot {
        let number = self.numbered;
        self.numbered += 1;
        Slot::new(&self.replies, number)
    }

    /// Answers the next command at once, behind the commands before it.
    pub(crate) fn answer(&mut self, reply: Reply) {
        if self.in_flight() == 0 {
            self.numbered += 1;
            self.answered += 1;
            self.unskipped += 1;
            self.enqueue(reply);
        } else {
            self.slot().put(reply);
        }
    }

    /// Answers the command of the slot, which was the last to get one.
    pub(crate) fn give(&mut self, slot: Slot) {
        // The drop of a slot answers, too, but through the lock and with a wake.
        if self.in_flight() == 1 {
            self.answered += 1;
            self.unskipped += 1;
            self.lets_others = true;
            self.enqueue(slot.take());
            if self.unread() >= GRAIN {
                self.charge();
            }
        }
    }

    /// Returns whether the next poll only lets other clients have a turn.
    pub(crate) fn lets_others(&self) -> bool {
        self.lets_others
    }

    /// Returns the number of commands without an answer.
    pub(crate) fn in_flight(&self) -> u64 {
        self.numbered - self.answered
    }

    /// Returns how many bytes the client has not read, as far as the server knows.
    pub(crate) fn unread(&self) -> usize {
        self.out.len() + self.queued
    }

    fn write(&mut self, reply: &Reply) {
        reply.write(&mut self.out, self.protocol);
        self.out_room = self.out_room.max(self.out.capacity());
    }

    fn enqueue(&mut self, reply: Reply) {
        if self.queue.is_empty() && self.out.len() < AT_ONCE {
            self.write(&reply);
        } else {
            self.queued += reply.size();
            self.queue.push_back(reply);
        }
    }

    /// Takes the replies that are ready. Ready if there were some. The task wakes when there are more.
    fn poll_replies(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let unskipped = std::mem::take(&mut self.unskipped);
        if unskipped > 0 {
            self.replies.skip(unskipped);
        }
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

    /// Ready when everything is written.
    fn poll_write(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.out.len() < AT_ONCE
                && let Some(reply) = self.queue.pop_front()
            {
                self.queued -= reply.size();
                self.write(&reply);
            }
            if self.out.is_empty() {
                if self.out_room > 2 * AT_ONCE {
                    (self.out, self.out_room) = (BytesMut::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(task, &self.out))?;
            self.out.advance(written);
        }
    }

    /// Serves the line until there is news. Reads only if `may_read` is true.
    pub(crate) fn poll(
        &mut self,
        task: &mut Context<'_>,
        may_read: bool,
        most_unread: usize,
    ) -> Poll<io::Result<News>> {
        let news = self.poll_news(task, may_read, most_unread);
        // Without news, a small line takes as much as before.
        if news.is_ready() || self.charged > SMALL || self.unread() > 0 {
            self.charge();
        }
        if self.replies.is_evicted() {
            return Poll::Ready(Ok(News::Evicted));
        }
        news
    }

    fn poll_news(
        &mut self,
        task: &mut Context<'_>,
        may_read: bool,
        most_unread: usize,
    ) -> Poll<io::Result<News>> {
        if std::mem::take(&mut self.lets_others) {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        let answered = self.poll_replies(task).is_ready();
        if let Poll::Ready(written) = self.poll_write(task) {
            written?;
        }
        if self.unread() > most_unread {
            return Poll::Ready(Ok(News::Slow));
        }
        if may_read && self.poll_room(task).is_ready() {
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

    /// Ready when the limit leaves room for more bytes.
    fn poll_room(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let more = self.reader.growth();
        if more == 0 || self.reader.capacity() + more <= SMALL {
            return Poll::Ready(());
        }
        // `Memory` compares the clients, so it must know the bytes of this one.
        self.charge();
        ready!(self.replies.poll_room(more, task));
        self.charged += more;
        Poll::Ready(())
    }

    /// Tells an evicted client the reason, if no reply must go first.
    pub(crate) fn say_evicted(&mut self) {
        if self.in_flight() == 0 && self.unread() == 0 {
            // The buffer of the socket is empty, so this does not wait.
            let _ = self.stream.try_write(EVICTED);
        }
    }

    /// Waits until all commands are answered, and the socket has taken the answers.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|task| {
            while self.in_flight() > 0 {
                if self.replies.is_evicted() {
                    return Poll::Ready(Ok(()));
                }
                ready!(self.poll_replies(task));
            }
            self.poll_write(task)
        })
        .await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Free the bytes before `Memory` counts them as free.
        self.reader.clear();
        self.queue = VecDeque::new();
        self.out = BytesMut::new();
        self.replies.memory().leave(&self.replies);
    }
}
