//! What the server does with each request of a client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fom_runtime::{prelude::*, submission::Now};

use super::{Connection, Multi, Task, Why, admin, batch::Batch};
use crate::command::{Command, Kind, OfClient, Spec, find, scripts, wrong_number};
use crate::pop::Pop;
use crate::rate::{Beyond, LIMITED, unless_started};
use crate::shard::{Run, Side};
use crate::transaction::Part;
use crate::wire::{Reply, Request};

/// The most unanswered commands of one client. Beyond, the server takes no more requests from the client.
const IN_FLIGHT: u64 = 1024;
/// The most requests of one client in a turn. They may run in place, and other clients wait meanwhile.
const TURN: usize = 256;

/// The reason why the server takes no more requests for now.
pub(super) enum Stop {
    /// No request is whole, too many commands are under way, too much is unread, or other clients have their turn.
    More,
    /// This task must run alone.
    Alone(Task),
    /// The connection ends.
    Say(Why),
}

impl Connection {
    /// Takes the requests that have come.
    pub(super) fn understand(&mut self, cx: &mut Cx<'_>) -> Stop {
        let stop = self.take_all(cx);
        self.send_away(cx);
        if self.multi.is_some() {
            self.count(0);
        }
        stop
    }

    fn take_all(&mut self, cx: &mut Cx<'_>) -> Stop {
        let most = self.common.live.unread();
        for _ in 0..TURN {
            if self.line.in_flight() >= IN_FLIGHT || self.line.unread() > most {
                break;
            }
            match self.line.reader.next_request() {
                Ok(None) => return Stop::More,
                Ok(Some(request)) => {
                    if let Some(stop) = self.take(cx, request) {
                        return stop;
                    }
                }
                Err(malformed) => {
                    self.line
                        .answer(Reply::Error(format!("ERR {malformed}").into()));
                    return Stop::Say(Why::Malformed);
                }
            }
        }
        Stop::More
    }

    fn take(&mut self, cx: &mut Cx<'_>, request: Request) -> Option<Stop> {
        self.me.one_more();
        let spec = match find(&request) {
            Ok(spec) => spec,
            Err(error) => {
                let error = match self.multi {
                    Some(_) => self.spoil(error),
                    None => error,
                };
                self.line.answer(error);
                return None;
            }
        };
        if self.multi.is_some() && !is_control(spec) {
            let reply = self.queue(cx, spec, request);
            self.line.answer(reply);
            return None;
        }
        match spec.kind {
            Kind::Key(run) => self.send(cx, spec, run, request),
            Kind::Keys(run, stride, together)
                if request.len() == 1 + stride && together.is_of_one() =>
            {
                self.send(cx, spec, run, request);
            }
            Kind::Keys(..) | Kind::All(..) => {
                let part = Part {
                    spec,
                    request,
                    ready: None,
                };
                return Some(Stop::Alone(Task::Several(part)));
            }
            Kind::Pop(side) => match self.pop_of(&request, side) {
                Ok(pop) => return Some(Stop::Alone(Task::Pop(pop))),
                Err(error) => self.line.answer(error),
            },
            Kind::OfClient(what) => return self.of_client(cx, what, request),
            Kind::Script(by) => match scripts::command(by, request) {
                Ok((spec, run, request)) => self.send(cx, spec, run, request),
                Err(error) => self.line.answer(error),
            },
        }
        None
    }

    /// Sends a command to the home of its key. The home takes the commands of one client in the order in which they are
    /// sent.
    fn send(&mut self, cx: &mut Cx<'_>, spec: &'static Spec, run: Run, request: Request) {
        let beyond = self.common.rate.beyond();
        // Also behind the client's own commands that are still in the queue.
        self.queues = beyond.is_some() || self.queues && self.line.in_flight() > 0;
        let home = self.common.places.home(request.word(Command::KEY));
        let slot = self.line.slot();
        let command = Command {
            request,
            spec,
            run,
            slot,
        };
        // The slot of a refused command tells the client.
        if self.queues {
            self.send_away(cx);
            let queued = self.common.rate.intake().submit(command);
            let queued = queued
                .client(self.me.key.clone())
                .place(Placement::Locality(home));
            if beyond != Some(Beyond::Reject) {
                drop(queued.detach());
            } else if let Ok(queued) = queued.start()
                && let Some(mut command) = unless_started(queued)
            {
                command.slot.put(LIMITED);
            }
        } else if home == cx.locality() {
            // Otherwise the command goes on, or its slot has told the client.
            if let Ok(Now::Ended(Ok(ended))) = cx.submit(command).now() {
                self.line.give(ended.operation.slot);
            }
        } else {
            self.away.entry(home).or_default().push(command);
        }
    }

    /// Sends the commands on keys of other localities there.
    fn send_away(&mut self, cx: &Cx<'_>) {
        while let Some((home, commands)) = self.away.pop_first() {
            let batch = cx.submit(Batch { commands });
            // The slots of refused commands tell the client.
            drop(batch.place(Placement::Locality(home)).detach());
        }
    }

    fn queue(&mut self, cx: &Cx<'_>, spec: &'static Spec, request: Request) -> Reply {
        let (spec, request) = match spec.kind {
            Kind::Script(by) => match scripts::command(by, request) {
                Ok((spec, _, request)) => (spec, request),
                Err(error) => return self.spoil(error),
            },
            _ => (spec, request),
        };
        let ready = match spec.kind {
            Kind::OfClient(what) => {
                match admin::at_once(cx, &self.common, &self.me, what, &request) {
                    Some(ready) => Some(ready),
                    None => {
                        return self
                            .spoil(Reply::error("ERR Command not allowed inside a transaction"));
                    }
                }
            }
            // A pop in a transaction does not wait, but its time must be valid.
            Kind::Pop(side) => match self.pop_of(&request, side) {
                Ok(_) => None,
                Err(error) => return self.spoil(error),
            },
            _ => None,
        };
        let most = self.common.settings.limits.request;
        let multi = self.multi.get_or_insert_default();
        // A copy, since the command may stay for long and would keep the buffer of its line.
        let part = Part {
            spec,
            request: request.compact(),
            ready,
        };
        if !multi.spoilt {
            multi.bytes += part.size();
            if multi.bytes > most {
                return self.spoil(Reply::error("ERR the transaction is too large"));
            }
            multi.parts.push(part);
        }
        Reply::Status("QUEUED")
    }

    fn spoil(&mut self, error: Reply) -> Reply {
        let multi = self.multi.get_or_insert_default();
        *multi = Multi {
            spoilt: true,
            ..Multi::default()
        };
        error
    }

    fn pop_of(&self, request: &Request, side: Side) -> Result<Pop, Reply> {
        let last = request.len() - 1;
        Ok(Pop {
            keys: (1..last)
                .map(|at| Bytes::copy_from_slice(request.word(at)))
                .collect(),
            side,
            patience: patience(request.word(last))?,
            places: Arc::clone(&self.common.places),
            log: self.common.log.clone(),
            claim: Arc::default(),
            queued: 0,
            got: None,
            runtime: self.runtime.clone(),
        })
    }

    fn of_client(&mut self, cx: &Cx<'_>, what: OfClient, request: Request) -> Option<Stop> {
        let reply = match what {
            OfClient::Quit => {
                self.line.answer(Reply::OK);
                return Some(Stop::Say(Why::Quit));
            }
            OfClient::Multi if self.multi.is_some() => {
                Reply::error("ERR MULTI calls can not be nested")
            }
            OfClient::Multi => {
                self.multi = Some(Multi::default());
                Reply::OK
            }
            OfClient::Discard => match self.multi.take() {
                None => Reply::error("ERR DISCARD without MULTI"),
                Some(_) => return Some(Stop::Alone(Task::Unwatch)),
            },
            OfClient::Exec => return Some(Stop::Alone(Task::Exec)),
            OfClient::Watch if self.multi.is_some() => {
                Reply::error("ERR WATCH inside MULTI is not allowed")
            }
            OfClient::Watch => return Some(Stop::Alone(Task::Watch(request))),
            OfClient::Unwatch => return Some(Stop::Alone(Task::Unwatch)),
            OfClient::Hello => return Some(Stop::Alone(Task::Hello(request))),
            OfClient::Reset => return Some(Stop::Alone(Task::Reset)),
            OfClient::Info => return Some(Stop::Alone(Task::Info)),
            OfClient::Scan => return Some(Stop::Alone(Task::Scan(request))),
            _ => match admin::at_once(cx, &self.common, &self.me, what, &request) {
                Some(reply) => reply,
                None => wrong_number(&request.name()),
            },
        };
        self.line.answer(reply);
        None
    }
}

/// Returns whether the command is not queued between MULTI and EXEC.
fn is_control(spec: &Spec) -> bool {
    matches!(
        spec.kind,
        Kind::OfClient(
            OfClient::Multi
                | OfClient::Exec
                | OfClient::Discard
                | OfClient::Watch
                | OfClient::Quit
                | OfClient::Reset
        )
    )
}

/// Reads the time to wait, in seconds; 0 is forever.
fn patience(word: &[u8]) -> Result<Option<Duration>, Reply> {
    let seconds: f64 = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse().ok())
        .filter(|seconds: &f64| seconds.is_finite())
        .ok_or(Reply::error("ERR timeout is not a float or out of range"))?;
    if seconds < 0.0 {
        return Err(Reply::error("ERR timeout is negative"));
    }
    if seconds == 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(|_| Reply::error("ERR timeout is out of range"))
}
