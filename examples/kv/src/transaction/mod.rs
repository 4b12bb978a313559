//! Several keys at once: MULTI and EXEC, and commands that name more than one key.

mod part;
mod turn;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use fom_patterns::lock::{LockMode, LockSet, LongLocks};
use fom_runtime::error::CallError;
use fom_runtime::prelude::*;

pub(crate) use part::{Part, Watched};
pub(crate) use turn::Turn;

use crate::command::{Kind, NOT_SAVED};
use crate::places::Places;
use crate::save::{Change, Log};
use crate::shard::Shard;
use crate::wire::Reply;

/// Several commands, or one with several keys. No client sees them half done.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) parts: Vec<Part>,
    pub(crate) watched: Vec<Watched>,
    /// True if the reply is a list of the parts' replies.
    pub(crate) exec: bool,
    /// The most bytes of replies. For more, the server would send the client away.
    pub(crate) most: usize,
    pub(crate) places: Arc<Places>,
    pub(crate) log: Option<Arc<Log>>,
}

/// The phases of a transaction.
#[fom(operation(Transaction), error(Infallible), transient)]
pub(crate) enum Exchange {
    /// All its keys are in this locality, where nothing else runs meanwhile. Runs at once, unless another operation has
    /// a key.
    #[phase(start, sync, to(Want, Keep, Done))]
    AtOnce,
    /// Marks its keys as wanted: from now on every command on one of them queues.
    #[phase(to(Run, Done))]
    Want,
    /// Holds the locks of all its keys, and runs each command where its keys are.
    #[phase(locks, to(Keep, Done))]
    Run { turns: Vec<Turn> },
    /// Waits for the disk. Then the client is told.
    #[phase(take, to(Done))]
    Keep { reply: Reply, ticket: u64 },
    #[phase(end)]
    Done { reply: Reply },
}

/// The result of a command in another locality: its replies and its changes.
type Ran = (Vec<Reply>, Vec<Change>);

impl Transaction {
    /// Returns the locality where the transaction begins, and where it ends if all its keys are there.
    pub(crate) fn home(&self) -> usize {
        let first = self.parts.iter().find_map(|part| part.keys().next());
        first.map_or(0, |key| self.places.home(key))
    }

    fn is_all_in(&self, home: usize) -> bool {
        let here = |key: &[u8]| self.places.home(key) == home;
        self.watched.iter().all(|watched| watched.home == home)
            && self
                .parts
                .iter()
                .all(|part| part.keys().all(here) && (self.places.is_one() || !part.is_about_all()))
    }

    fn replies(&self) -> Replies {
        Replies {
            replies: Vec::new(),
            left: Some(self.most),
        }
    }

    fn reply(&self, mut replies: Replies) -> Reply {
        if !self.exec && replies.replies.len() == 1 {
            return replies.replies.remove(0);
        }
        match replies.left {
            Some(_) => Reply::Array(replies.replies),
            None => TOO_LARGE,
        }
    }

    /// Runs all parts in one locality.
    fn run_here(&self, shard: &mut Shard) -> Reply {
        for watched in &self.watched {
            if !shard.is_unchanged(&watched.key, watched.version) {
                return Reply::NullArray;
            }
        }
        let mut replies = self.replies();
        for part in &self.parts {
            replies.push(part.run(shard));
        }
        self.reply(replies)
    }

    /// Returns its keys, each once, with the mode of its lock.
    fn keys(&self) -> BTreeMap<&[u8], LockMode> {
        let mut keys = BTreeMap::new();
        for part in &self.parts {
            let mode = part.spec.lock_mode();
            for key in part.keys() {
                let wanted = keys.entry(key).or_insert(mode);
                *wanted = mode.max(*wanted);
            }
        }
        keys
    }

    /// Returns whether all watched keys are unchanged.
    async fn is_unchanged(&self, runtime: &Runtime) -> Result<bool, CallError> {
        for watched in &self.watched {
            let (key, version) = (watched.key.clone(), watched.version);
            let unchanged = runtime
                .call(watched.home, move |local| {
                    local.data::<Shard>().is_unchanged(&key, version)
                })
                .await?;
            if !unchanged {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs one part where its keys are.
    async fn run_part(
        &self,
        runtime: &Runtime,
        part: &Part,
        changes: &mut Vec<Change>,
    ) -> Result<Reply, CallError> {
        if let Some(ready) = &part.ready {
            return Ok(ready.clone());
        }
        let homes = part.homes(&self.places);
        match part.spec.kind {
            Kind::All(run, together) => {
                let request = part.request.clone();
                let ran = runtime
                    .each(move |local| {
                        let shard = local.data::<Shard>();
                        let reply = run(shard, &request);
                        (reply, shard.take_changes())
                    })
                    .await?;
                let (replies, changed): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
                changes.extend(changed.into_iter().flatten());
                Ok(together.put(replies))
            }
            Kind::Keys(run, _, together) => {
                let mut replies: Vec<(usize, Reply)> = Vec::new();
                for (home, keys) in homes {
                    let (request, places) = (part.request.clone(), keys.clone());
                    let (ran, changed): Ran = runtime
                        .call(home, move |local| {
                            let shard = local.data::<Shard>();
                            let each = |at: &usize| {
                                run(shard, &request, *at).unwrap_or_else(|error| error)
                            };
                            let replies = keys.iter().map(each).collect();
                            (replies, shard.take_changes())
                        })
                        .await?;
                    replies.extend(places.into_iter().zip(ran));
                    changes.extend(changed);
                }
                replies.sort_by_key(|(at, _)| *at);
                Ok(together.put(replies.into_iter().map(|(_, reply)| reply).collect()))
            }
            // Key by key, in the order of the request: the first key that has an element gives it.
            Kind::Key(_) | Kind::Pop(_) => {
                let mut reply = Reply::NullArray;
                for (home, keys) in homes {
                    let mut part = part.clone();
                    if let Kind::Pop(_) = part.spec.kind {
                        part.request = part.request.only(&keys);
                    }
                    let (ran, changed) = runtime
                        .call(home, move |local| {
                            let shard = local.data::<Shard>();
                            (part.run(shard), shard.take_changes())
                        })
                        .await?;
                    changes.extend(changed);
                    reply = ran;
                    if reply != Reply::NullArray {
                        break;
                    }
                }
                Ok(reply)
            }
            Kind::OfClient(_) | Kind::Script(_) => Ok(Reply::Null),
        }
    }

    async fn run_everywhere(&self, runtime: &Runtime) -> Result<(Reply, Option<u64>), CallError> {
        if !self.is_unchanged(runtime).await? {
            return Ok((Reply::NullArray, None));
        }
        // The changes are written in one piece, whatever becomes of the rest, even if this future is dropped in the
        // middle.
        let mut changed = Changed {
            changes: Vec::new(),
            log: self.log.clone(),
        };
        let mut replies = self.replies();
        for part in &self.parts {
            replies.push(self.run_part(runtime, part, &mut changed.changes).await?);
        }
        drop(changed);
        let ticket = self.log.as_ref().and_then(|log| log.ticket());
        Ok((self.reply(replies), ticket))
    }

    fn is_refused(&self) -> bool {
        let broken = self.log.as_ref().is_some_and(|log| log.is_broken());
        broken && self.parts.iter().any(|part| part.spec.writes)
    }
}

/// The replies of the parts of a transaction, up to a number of bytes.
struct Replies {
    replies: Vec<Reply>,
    /// How many more bytes there may be. `None` after too many.
    left: Option<usize>,
}

impl Replies {
    fn push(&mut self, reply: Reply) {
        // The first may have any size, since a command alone may have any reply.
        let size = if self.replies.is_empty() {
            0
        } else {
            reply.size()
        };
        self.left = self.left.and_then(|left| left.checked_sub(size));
        match self.left {
            Some(_) => self.replies.push(reply),
            None => self.replies.truncate(1),
        }
    }
}

/// The reply of a transaction with larger replies than a client may leave unread.
const TOO_LARGE: Reply = Reply::error(
    "ERR the transaction is done, but its replies are larger than client-unread-limit",
);

/// The changes of a transaction.
struct Changed {
    changes: Vec<Change>,
    log: Option<Arc<Log>>,
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Some(log) = &self.log
            && !self.changes.is_empty()
        {
            log.append(&mut self.changes);
        }
    }
}

/// The reply if a locality no longer answers.
const SHUT_DOWN: Reply = Reply::error("ERR the server is shutting down");

impl ExchangeTransitions for Transaction {
    fn at_once(&mut self, cx: &mut Cx<'_>) -> Result<ExchangeAfterAtOnce, Infallible> {
        if self.is_refused() {
            return Ok(ExchangeAfterAtOnce::Done { reply: NOT_SAVED });
        }
        if !self.is_all_in(cx.locality()) {
            return Ok(ExchangeAfterAtOnce::Want);
        }
        let done = cx.local(|shard: &mut Shard| {
            let mut keys = self.parts.iter().flat_map(Part::keys);
            if keys.any(|key| shard.is_locked(key)) {
                return None;
            }
            Some((self.run_here(shard), shard.settle()))
        });
        Ok(match done {
            None => ExchangeAfterAtOnce::Want,
            Some((reply, None)) => ExchangeAfterAtOnce::Done { reply },
            Some((reply, Some(ticket))) => ExchangeAfterAtOnce::Keep { reply, ticket },
        })
    }

    async fn want(&mut self, cx: &mut Cx<'_>) -> Result<ExchangeAfterWant, Infallible> {
        let runtime = cx.runtime();
        let mut turns = Vec::new();
        for key in self.keys().into_keys() {
            let home = self.places.home(key);
            let (wanted, weak) = (key.to_vec(), runtime.clone());
            let turn = runtime
                .call(home, move |local| {
                    local.data::<Shard>().want(&wanted);
                    Turn::new(&wanted, home, weak)
                })
                .await;
            match turn {
                Ok(turn) => turns.push(turn),
                Err(_) => return Ok(ExchangeAfterWant::Done { reply: SHUT_DOWN }),
            }
        }
        Ok(ExchangeAfterWant::Run { turns })
    }

    fn run_locks(&self, cx: &Cx<'_>, _: &Vec<Turn>) -> LockSet {
        let locks = cx.resource::<LongLocks>();
        let keys = self.keys().into_iter();
        keys.fold(LockSet::new(), |set, (key, mode)| {
            set.with(&locks.of(key), mode)
        })
    }

    async fn run(
        &mut self,
        cx: &mut Cx<'_>,
        turns: &mut Vec<Turn>,
    ) -> Result<ExchangeAfterRun, Infallible> {
        let ran = self.run_everywhere(&cx.runtime()).await;
        turns.clear();
        Ok(match ran {
            Ok((reply, None)) => ExchangeAfterRun::Done { reply },
            Ok((reply, Some(ticket))) => ExchangeAfterRun::Keep { reply, ticket },
            Err(_) => ExchangeAfterRun::Done { reply: SHUT_DOWN },
        })
    }

    async fn keep(
        &mut self,
        _: &mut Cx<'_>,
        ExchangeInKeep { reply, ticket }: ExchangeInKeep,
    ) -> Result<ExchangeAfterKeep, Infallible> {
        let saved = match &self.log {
            Some(log) => log.saved(ticket).await,
            None => Ok(()),
        };
        Ok(ExchangeAfterKeep::Done {
            reply: if saved.is_ok() { reply } else { NOT_SAVED },
        })
    }
}
