//! One client: a fom in the locality that serves its socket.

pub(crate) mod admin;
mod batch;
mod clients;
mod hello;
mod line;
mod memory;
mod replies;
mod take;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fom_runtime::prelude::*;
use fom_runtime::time::Sleep;

pub(crate) use clients::{Client, Clients};
pub(crate) use line::Line;
pub(crate) use memory::Memory;
use replies::LOST;
pub(crate) use replies::Slot;

use crate::command::Command;
use crate::common::Common;
use crate::pop::{Pop, PoppingEnd, Told};
use crate::rate::{Beyond, LIMITED, Ticket, unless_started};
use crate::shard::Shard;
use crate::transaction::{ExchangeEnd, Part, Transaction, Watched};
use crate::wire::{Reply, Request};
use line::News;
use take::Stop;

/// The connection of one client.
#[derive(Debug)]
pub(crate) struct Connection {
    line: Line,
    common: Arc<Common>,
    me: Arc<Client>,
    /// The commands since MULTI.
    multi: Option<Multi>,
    watched: Watches,
    /// Commands that have come, on keys of other localities, by locality.
    away: BTreeMap<usize, Vec<Command>>,
    /// True if its last command went through the queue of the admission.
    queues: bool,
    runtime: Runtime,
}

/// The keys that a client watches.
type Watches = BTreeMap<Bytes, Watched>;

/// Bytes of a watched key, here and in its home, without its name.
const WATCH: usize = 256;
/// Bytes of a key with a waiting pop, here and in its home, without its name.
const WAIT: usize = 256;

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
struct Multi {
    parts: Vec<Part>,
    bytes: usize,
    /// True if a command was wrong: EXEC then does nothing.
    spoilt: bool,
}

/// A task that no other command of the same client may overlap.
#[derive(Debug)]
pub(crate) enum Task {
    /// Several keys, or all.
    Several(Part),
    /// EXEC.
    Exec,
    /// BLPOP and BRPOP, with the time to wait.
    Pop(Pop),
    /// WATCH.
    Watch(Request),
    /// UNWATCH.
    Unwatch,
    /// HELLO.
    Hello(Request),
    /// RESET.
    Reset,
    /// INFO.
    Info,
    /// SCAN.
    Scan(Request),
}

impl Task {
    /// Returns about how many bytes the task takes.
    fn size(&self) -> usize {
        match self {
            Task::Several(part) => part.size(),
            Task::Pop(pop) => pop.keys.iter().map(|key| key.len() + WAIT).sum(),
            Task::Watch(request) => {
                let keys: usize = request.words_from(1).map(|key| key.len() + WATCH).sum();
                request.size() + keys
            }
            Task::Hello(request) | Task::Scan(request) => request.size(),
            Task::Exec | Task::Unwatch | Task::Reset | Task::Info => 0,
        }
    }
}

/// The reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The client closed the connection, or is gone.
    Left,
    /// The client asked for the end.
    Quit,
    /// The client sent something other than the protocol.
    Malformed,
    /// The client did not read its replies.
    Slow,
    /// The client was silent for too long.
    Idle,
    /// All clients together took too much memory, and this one took the most.
    Evicted,
    /// The server ends.
    Stopping,
}

/// The phases of a connection.
#[fom(operation(Connection), error(Infallible), transient)]
pub(crate) enum Talking {
    /// Reads, sends each command to the home of its key, and answers in order, until a command must run alone.
    #[phase(start, to(Alone, Say, Closed))]
    Stream,
    /// All earlier commands are answered, and the task runs alone.
    #[phase(to(Stream, Say, Closed))]
    Alone { task: Task },
    /// Sends the last replies, for a client that reads them in time.
    #[phase(to(Closed), within = "5s", late)]
    Say { why: Why },
    #[phase(end)]
    Closed,
}

impl Connection {
    pub(crate) fn new(line: Line, common: Arc<Common>, me: Arc<Client>, runtime: Runtime) -> Self {
        Self {
            line,
            common,
            me,
            multi: None,
            watched: Watches::new(),
            away: BTreeMap::new(),
            queues: false,
            runtime,
        }
    }

    /// Waits for news of the line, and serves the line meanwhile.
    async fn news(&mut self, idle: &mut Idle) -> Result<News, Why> {
        let may_read = self.line.reader.is_hungry();
        poll_fn(|task| {
            if self.common.is_stopping() {
                return Poll::Ready(Err(Why::Stopping));
            }
            let lets_others = self.line.lets_others();
            if let Poll::Ready(news) = self.line.poll(task, may_read, self.common.live.unread()) {
                return Poll::Ready(match news {
                    Ok(News::End) | Err(_) => Err(Why::Left),
                    Ok(News::Slow) => Err(Why::Slow),
                    Ok(News::Evicted) => Err(Why::Evicted),
                    Ok(news) => Ok(news),
                });
            }
            // The requests had to wait because too much was unread, or for other clients. The socket has taken some of it.
            if !may_read && !lets_others && self.line.in_flight() == 0 {
                return Poll::Ready(Ok(News::Answered));
            }
            idle.poll(task, &self.me, self.line.in_flight() > 0)
        })
        .await
    }

    /// Waits for `work`, and serves the line meanwhile. Returns an error if the client leaves; `work` then continues.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Why> {
        let mut work = pin!(work);
        poll_fn(|task| {
            if let Poll::Ready(done) = work.as_mut().poll(task) {
                return Poll::Ready(Ok(done));
            }
            if self.common.is_stopping() {
                return Poll::Ready(Err(Why::Stopping));
            }
            loop {
                let may_read = self.line.reader.len() < AHEAD;
                return match self.line.poll(task, may_read, self.common.live.unread()) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(News::Bytes | News::Answered)) => continue,
                    Poll::Ready(Ok(News::Slow)) => Poll::Ready(Err(Why::Slow)),
                    Poll::Ready(Ok(News::Evicted)) => Poll::Ready(Err(Why::Evicted)),
                    Poll::Ready(Ok(News::End) | Err(_)) => Poll::Ready(Err(Why::Left)),
                };
            }
        })
        .await
    }

    /// Waits for the client's turn, if there is a rate. An inner error is the reply to a command that came too soon.
    async fn admit(&mut self) -> Result<Result<(), Reply>, Why> {
        let Some(beyond) = self.common.rate.beyond() else {
            return Ok(Ok(()));
        };
        let ticket = self.common.rate.intake().submit(Ticket);
        let Ok(queued) = ticket.client(self.me.key.clone()).start() else {
            return Err(Why::Stopping);
        };
        if beyond == Beyond::Wait {
            return match self.beside(queued).await? {
                Ok(_) => Ok(Ok(())),
                Err(_) => Err(Why::Stopping),
            };
        }
        Ok(match unless_started(queued) {
            None => Ok(()),
            Some(Ticket) => Err(LIMITED),
        })
    }

    async fn several(&mut self, parts: Vec<Part>, exec: bool) -> Result<Reply, Why> {
        let watched = std::mem::take(&mut self.watched);
        let transaction = Transaction {
            parts,
            watched: watched.values().cloned().collect(),
            exec,
            most: self.common.live.unread(),
            places: Arc::clone(&self.common.places),
            log: self.common.log.clone(),
        };
        let (runtime, home) = (self.runtime.clone(), transaction.home());
        let ended = self
            .beside(async move {
                let submission = runtime.submit(transaction);
                submission.place(Placement::Locality(home)).await
            })
            .await;
        if exec {
            self.forget(watched);
        } else {
            self.watched = watched;
        }
        Ok(match ended? {
            Ok(Ended {
                end: ExchangeEnd::Done { reply },
                ..
            }) => reply,
            _ => LOST,
        })
    }

    async fn pop(&mut self, pop: Pop) -> Result<Reply, Why> {
        let home = pop
            .keys
            .first()
            .map_or(0, |key| self.common.places.home(key));
        let runtime = self.runtime.clone();
        let submission = runtime.submit(pop).place(Placement::Locality(home));
        let Ok(mut handle) = submission.start() else {
            return Err(Why::Stopping);
        };
        match self.beside(&mut handle).await {
            Ok(Ok(Ended {
                end: PoppingEnd::Served { reply },
                ..
            })) => Ok(reply),
            Ok(_) => Ok(LOST),
            Err(why) => {
                // The pop may be served at this moment. If it has ended already, the event has no receiver.
                let _ = handle.send(Told::Gone);
                if let Ok(mut ended) = handle.await {
                    ended.operation.take_back();
                }
                Err(why)
            }
        }
    }

    async fn watch(&mut self, request: &Request) -> Result<Reply, Why> {
        for key in request.words_from(1) {
            if self.watched.contains_key(key) {
                continue;
            }
            let home = self.common.places.home(key);
            let key = Bytes::copy_from_slice(key);
            let wanted = key.clone();
            let runtime = self.runtime.clone();
            let version = runtime
                .call(home, move |local| local.data::<Shard>().watch(&wanted))
                .await
                .map_err(|_| Why::Stopping)?;
            let watched = Watched {
                key: key.clone(),
                home,
                version,
            };
            self.watched.insert(key, watched);
        }
        Ok(Reply::OK)
    }

    /// Ends the watches of these keys.
    fn forget(&self, watched: Watches) {
        for Watched { key, home, .. } in watched.into_values() {
            // If the runtime has ended, the shard is gone, too.
            let _ = self
                .runtime
                .post(home, move |local| local.data::<Shard>().unwatch(&key));
        }
    }

    /// Counts the bytes that the fom holds besides its line. Its task holds `task` of them.
    fn count(&mut self, task: usize) {
        let multi = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let watched: usize = self.watched.keys().map(|key| key.len() + WATCH).sum();
        self.line.holds_besides(task + multi + watched);
    }

    async fn run(&mut self, task: &mut Task) -> Result<Reply, Why> {
        self.count(task.size());
        self.beside_replies().await?;
        if matches!(task, Task::Several(_) | Task::Exec | Task::Pop(_))
            && let Err(limited) = self.admit().await?
        {
            return Ok(limited);
        }
        match std::mem::replace(task, Task::Unwatch) {
            Task::Several(part) => self.several(vec![part], false).await,
            Task::Exec => match self.multi.take() {
                None => Ok(Reply::error("ERR EXEC without MULTI")),
                Some(Multi { spoilt: true, .. }) => {
                    let watched = std::mem::take(&mut self.watched);
                    self.forget(watched);
                    Ok(Reply::error(
                        "EXECABORT Transaction discarded because of previous errors.",
                    ))
                }
                Some(multi) => self.several(multi.parts, true).await,
            },
            Task::Pop(pop) => self.pop(pop).await,
            Task::Watch(request) => self.watch(&request).await,
            Task::Unwatch => {
                let watched = std::mem::take(&mut self.watched);
                self.forget(watched);
                Ok(Reply::OK)
            }
            Task::Hello(request) => Ok(self.hello(&request)),
            Task::Reset => Ok(self.reset()),
            Task::Info => admin::info(&self.runtime, &self.common).await,
            Task::Scan(request) => admin::scan(&self.runtime, &request).await,
        }
    }

    /// Ends the connection of a client that is sent away.
    fn close(&mut self, why: Why) {
        if why == Why::Evicted {
            self.line.say_evicted();
        }
        self.common.clients.sent_away(why);
    }

    /// Waits until all earlier commands are answered.
    async fn beside_replies(&mut self) -> Result<(), Why> {
        while self.line.in_flight() > 0 {
            let most = self.common.live.unread();
            let news = poll_fn(|task| self.line.poll(task, false, most)).await;
            match news {
                Ok(News::Slow) => return Err(Why::Slow),
                Ok(News::Evicted) => return Err(Why::Evicted),
                Ok(_) => {}
                Err(_) => return Err(Why::Left),
            }
        }
        Ok(())
    }
}

/// Bytes to read ahead of a command that runs alone: enough to notice that the client leaves.
const AHEAD: usize = 256 * 1024;

/// The watch for an idle client.
struct Idle {
    most: Option<Duration>,
    timer: Option<std::pin::Pin<Box<Sleep>>>,
    runtime: Runtime,
}

impl Idle {
    /// Fails if the client was idle for too long.
    fn poll(
        &mut self,
        task: &mut std::task::Context<'_>,
        me: &Client,
        is_busy: bool,
    ) -> Poll<Result<News, Why>> {
        let (Some(most), Some(timer)) = (self.most, &mut self.timer) else {
            return Poll::Pending;
        };
        if timer.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        let idle = self.runtime.now() - me.last_heard();
        if idle >= most && !is_busy {
            return Poll::Ready(Err(Why::Idle));
        }
        // The time of the last command is checked only now: a timer for each command would cost more.
        self.timer = None;
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl TalkingTransitions for Connection {
    async fn stream(&mut self, cx: &mut Cx<'_>) -> Result<TalkingAfterStream, Infallible> {
        let mut idle = Idle {
            most: None,
            timer: None,
            runtime: cx.runtime(),
        };
        loop {
            match self.understand(cx) {
                Stop::More => {}
                Stop::Alone(task) => return Ok(TalkingAfterStream::Alone { task }),
                Stop::Say(why) => return Ok(TalkingAfterStream::Say { why }),
            }
            idle.most = self.common.live.idle();
            if let Some(most) = idle.most
                && idle.timer.is_none()
            {
                self.me.heard(cx.now());
                idle.timer = Some(Box::pin(cx.sleep(most)));
            }
            match self.news(&mut idle).await {
                Ok(News::Bytes) if idle.most.is_some() => self.me.heard(cx.now()),
                Ok(_) => {}
                Err(why @ (Why::Left | Why::Stopping)) => {
                    return Ok(TalkingAfterStream::Say { why });
                }
                Err(why) => {
                    self.close(why);
                    return Ok(TalkingAfterStream::Closed);
                }
            }
        }
    }

    async fn alone(
        &mut self,
        _: &mut Cx<'_>,
        task: &mut Task,
    ) -> Result<TalkingAfterAlone, Infallible> {
        let ran = self.run(task).await;
        self.count(0);
        Ok(match ran {
            Ok(reply) => {
                self.line.answer(reply);
                TalkingAfterAlone::Stream
            }
            Err(why @ Why::Stopping) => TalkingAfterAlone::Say { why },
            Err(why) => {
                self.close(why);
                TalkingAfterAlone::Closed
            }
        })
    }

    async fn say(&mut self, _: &mut Cx<'_>, why: &mut Why) -> Result<(), Infallible> {
        // A client that is gone hears no last words.
        let _ = self.line.flush().await;
        self.common.clients.sent_away(*why);
        Ok(())
    }

    async fn say_late(&mut self, _: &mut Cx<'_>, why: &mut Why) -> Result<(), Infallible> {
        self.common.clients.sent_away(*why);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let watched = std::mem::take(&mut self.watched);
        self.forget(watched);
        self.common.clients.left(&self.me);
    }
}
