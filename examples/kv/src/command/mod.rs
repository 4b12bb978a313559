//! One command on one key: a fom in the home of the key.

pub(crate) mod scripts;
mod table;

use std::convert::Infallible;

use fom_patterns::lock::{LockSet, LongLocks};
use fom_runtime::prelude::*;

pub(crate) use scripts::By;
pub(crate) use table::{Kind, OfClient, Spec, find, table, wrong_number};

use crate::client::Slot;
use crate::save::Waiter;
use crate::shard::{Run, Shard};
use crate::transaction::Turn;
use crate::wire::{Reply, Request};

/// Changes cannot be written to the disk now.
pub(crate) const NOT_SAVED: Reply = Reply::error(
    "MISCONF What has changed cannot be written to the disk. The server's output says why.",
);

/// What the writer tells a command that waits for the disk.
#[derive(Debug)]
pub(crate) enum Disk {
    /// The disk has what the command did.
    Saved,
    /// The write failed; the writer tries again.
    NotSaved,
}

/// One command on one key.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) request: Request,
    pub(crate) spec: &'static Spec,
    pub(crate) run: Run,
    pub(crate) slot: Slot,
}

/// The phases of a command.
#[fom(operation(Command), event(Disk), error(Infallible), transient)]
pub(crate) enum Serving {
    /// Reads or changes the key, unless a transaction has it.
    #[phase(start, sync, to(Queue, Keep, Answered))]
    Apply,
    /// A transaction has the key: waits behind it, and behind earlier waiters.
    #[phase(sync, locks, to(Keep, Answered))]
    Queue { turn: Turn },
    /// Waits for the disk. Then the client is told.
    #[phase(sync, on(Saved, NotSaved), to(Answered))]
    Keep { reply: Reply },
    #[phase(end)]
    Answered,
}

impl Command {
    /// The place of the key in the request.
    pub(crate) const KEY: usize = 1;

    fn key(&self) -> &[u8] {
        self.request.word(Self::KEY)
    }

    fn apply_to(&self, shard: &mut Shard) -> (Reply, Option<u64>) {
        if self.spec.writes && shard.log().is_some_and(|log| log.is_broken()) {
            return (NOT_SAVED, None);
        }
        shard.run(self.run, &self.request, Self::KEY)
    }

    /// Answers, or returns the reply if it must wait for the disk.
    fn answer(
        &mut self,
        cx: &mut Cx<'_, Disk>,
        reply: Reply,
        ticket: Option<u64>,
    ) -> Option<Reply> {
        if let Some(ticket) = ticket {
            let waiter = Waiter::Fom(cx.address());
            let waits = cx.local(|shard: &mut Shard| {
                shard
                    .log()
                    .is_some_and(|log| log.wait(ticket, waiter).is_ok())
            });
            if waits {
                return Some(reply);
            }
        }
        self.slot.put(reply);
        None
    }
}

impl ServingTransitions for Command {
    fn apply(&mut self, cx: &mut Cx<'_, Disk>) -> Result<ServingAfterApply, Infallible> {
        if self.slot.is_evicted() {
            return Ok(ServingAfterApply::Answered);
        }
        let applied = cx.local(|shard: &mut Shard| {
            if shard.is_locked(self.key()) {
                shard.want(self.key());
                return None;
            }
            Some(self.apply_to(shard))
        });
        let Some((reply, ticket)) = applied else {
            let turn = Turn::new(self.key(), cx.locality(), cx.runtime());
            return Ok(ServingAfterApply::Queue { turn });
        };
        Ok(match self.answer(cx, reply, ticket) {
            None => ServingAfterApply::Answered,
            Some(reply) => ServingAfterApply::Keep { reply },
        })
    }

    fn queue_locks(&self, cx: &Cx<'_, Disk>, _: &Turn) -> LockSet {
        let lock = cx.resource::<LongLocks>().of(self.key());
        LockSet::new().with(&lock, self.spec.lock_mode())
    }

    fn queue(
        &mut self,
        cx: &mut Cx<'_, Disk>,
        turn: &mut Turn,
    ) -> Result<ServingAfterQueue, Infallible> {
        let (reply, ticket) = cx.local(|shard: &mut Shard| {
            let (reply, _) = self.apply_to(shard);
            turn.end(shard);
            (reply, shard.settle())
        });
        Ok(match self.answer(cx, reply, ticket) {
            None => ServingAfterQueue::Answered,
            Some(reply) => ServingAfterQueue::Keep { reply },
        })
    }

    fn keep(
        &mut self,
        _: &mut Cx<'_, Disk>,
        reply: &mut Reply,
        disk: Disk,
    ) -> Result<ServingAfterKeep, Infallible> {
        self.slot.put(match disk {
            Disk::Saved => std::mem::replace(reply, Reply::Null),
            Disk::NotSaved => NOT_SAVED,
        });
        Ok(ServingAfterKeep::Answered)
    }
}
