//! BLPOP and BRPOP: a fom that waits for an element of one of several lists.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fom_runtime::prelude::*;

use crate::command::NOT_SAVED;
use crate::places::Places;
use crate::save::Log;
use crate::shard::{Claim, Handed, Popper, Shard, Side};
use crate::wire::Reply;

/// What is said to somebody who waits for an element.
#[derive(Debug)]
pub(crate) enum Told {
    /// Here is one.
    Handed(Handed),
    /// The client is gone.
    Gone,
}

/// Waits for an element of one of several lists.
#[derive(Debug)]
pub(crate) struct Pop {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) side: Side,
    /// How long; for ever, if nothing is said.
    pub(crate) patience: Option<Duration>,
    pub(crate) places: Arc<Places>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) claim: Arc<Claim>,
    /// Of the keys, those at which it was in the queue at some time.
    pub(crate) queued: usize,
    /// What it got.
    pub(crate) got: Option<Handed>,
    pub(crate) runtime: Runtime,
}

/// The phases of a blocking pop.
#[fom(operation(Pop), event(Told), error(Infallible), transient)]
pub(crate) enum Popping {
    /// Look at the lists, in the order in which they are named, and queue where there is nothing.
    #[phase(start, to(Wait, Keep, Served))]
    Look,
    /// Until somebody pushes, the client is gone, or its patience is at an end.
    #[phase(on(Handed, Gone), to(Keep, Served, Abandoned))]
    Wait,
    /// The client is told when the disk knows that the element is out of the list.
    #[phase(to(Served))]
    Keep { reply: Reply, ticket: u64 },
    #[phase(end)]
    Served { reply: Reply },
    /// The client is gone; what was handed to it is back in its list.
    #[phase(end)]
    Abandoned,
}

impl Pop {
    /// The reply for an element, and the ticket that it must wait for.
    fn get(&mut self, handed: Handed) -> (Reply, Option<u64>) {
        let reply = Reply::Array(vec![
            Reply::Bulk(handed.key.clone()),
            Reply::Bulk(handed.value.clone()),
        ]);
        let ticket = handed.ticket;
        self.got = Some(handed);
        (reply, ticket)
    }

    /// Gives back what it got: the client will not hear of it.
    pub(crate) fn take_back(&mut self) {
        if let Some(handed) = self.got.take() {
            self.give_back(handed);
        }
    }

    fn give_back(&self, handed: Handed) {
        let home = self.places.home(&handed.key);
        // With a runtime that has ended the list is gone, too.
        let _ = self.runtime.post(home, move |local| {
            local.data::<Shard>().give_back(&handed);
        });
    }
}

impl PoppingTransitions for Pop {
    async fn look(&mut self, cx: &mut Cx<'_, Told>) -> Result<PoppingAfterLook, Infallible> {
        for key in self.keys.clone() {
            let home = self.places.home(&key);
            let popper = Popper {
                claim: Arc::clone(&self.claim),
                side: self.side,
                tell: cx.address(),
                last: self.queued + 1 == self.keys.len(),
            };
            self.queued += 1;
            let looked = self
                .runtime
                .call(home, move |local| {
                    local.data::<Shard>().pop_or_wait(&key, popper)
                })
                .await;
            match looked {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(handed))) => {
                    return Ok(match self.get(handed) {
                        (reply, None) => PoppingAfterLook::Served { reply },
                        (reply, Some(ticket)) => PoppingAfterLook::Keep { reply, ticket },
                    });
                }
                // Another kind of value. Another list may have had an element meanwhile: then that is what it gets.
                Ok(Err(reply)) if self.claim.close() => {
                    return Ok(PoppingAfterLook::Served { reply });
                }
                Ok(Err(_)) | Err(_) => break,
            }
        }
        Ok(PoppingAfterLook::Wait)
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Told>) -> Result<PoppingAfterWait, Infallible> {
        let mut told = match self.patience {
            None => Some(cx.event().await),
            Some(patience) => cx.event_within(patience).await,
        };
        let mut gone = false;
        loop {
            match told {
                Some(Told::Handed(handed)) if gone => {
                    self.give_back(handed);
                    return Ok(PoppingAfterWait::Abandoned);
                }
                Some(Told::Handed(handed)) => {
                    return Ok(match self.get(handed) {
                        (reply, None) => PoppingAfterWait::Served { reply },
                        (reply, Some(ticket)) => PoppingAfterWait::Keep { reply, ticket },
                    });
                }
                Some(Told::Gone) if self.claim.close() => return Ok(PoppingAfterWait::Abandoned),
                None if self.claim.close() => {
                    let reply = Reply::NullArray;
                    return Ok(PoppingAfterWait::Served { reply });
                }
                // One is on its way already, and cannot be called back.
                Some(Told::Gone) => gone = true,
                None => {}
            }
            told = Some(cx.event().await);
        }
    }

    async fn keep(
        &mut self,
        _: &mut Cx<'_, Told>,
        reply: &mut Reply,
        ticket: &mut u64,
    ) -> Result<PoppingAfterKeep, Infallible> {
        let saved = match &self.log {
            Some(log) => log.saved(*ticket).await,
            None => Ok(()),
        };
        let reply = std::mem::replace(reply, Reply::Null);
        Ok(PoppingAfterKeep::Served {
            reply: if saved.is_ok() { reply } else { NOT_SAVED },
        })
    }
}

impl Drop for Pop {
    /// However it ended: it queues no more.
    fn drop(&mut self) {
        self.claim.close();
        for key in self.keys.drain(..).take(self.queued) {
            let claim = Arc::clone(&self.claim);
            let home = self.places.home(&key);
            // With a runtime that has ended the queue is gone, too.
            let _ = self
                .runtime
                .post(home, move |local| local.data::<Shard>().leave(&key, &claim));
        }
    }
}
