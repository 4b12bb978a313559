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

/// What a waiting pop is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// An element for the pop.
    Handed(Handed),
    /// The client is gone.
    Gone,
}

/// Waits for an element of one of several lists.
#[derive(Debug)]
pub(crate) struct Pop {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) side: Side,
    /// The longest wait. `None` waits forever.
    pub(crate) patience: Option<Duration>,
    pub(crate) places: Arc<Places>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) claim: Arc<Claim>,
    /// The number of keys, from the first, that may have the pop in their queue.
    pub(crate) queued: usize,
    /// The element that the pop got.
    pub(crate) got: Option<Handed>,
    pub(crate) runtime: Runtime,
}

/// The phases of a blocking pop.
#[fom(operation(Pop), event(Told), error(Infallible), transient)]
pub(crate) enum Popping {
    /// Looks at the lists in the order of the request, and queues at each list that is empty.
    #[phase(start, to(Wait, Keep, Served))]
    Look,
    /// Waits for an element, until the client is gone or its patience ends.
    #[phase(on(Handed, Gone), to(Keep, Served, Abandoned))]
    Wait,
    /// Waits until the disk knows that the element left the list. Then the client is told.
    #[phase(take, to(Served))]
    Keep { reply: Reply, ticket: u64 },
    #[phase(end)]
    Served { reply: Reply },
    /// The client is gone; an element that was handed to the pop is back in its list.
    #[phase(end)]
    Abandoned,
}

impl Pop {
    /// Takes an element. Returns the reply, and the ticket that the reply must wait for.
    fn get(&mut self, handed: Handed) -> (Reply, Option<u64>) {
        let reply = Reply::Array(vec![
            Reply::Bulk(handed.key.clone()),
            Reply::Bulk(handed.value.clone()),
        ]);
        let ticket = handed.ticket;
        self.got = Some(handed);
        (reply, ticket)
    }

    /// Gives its element back: the client does not hear of it.
    pub(crate) fn take_back(&mut self) {
        if let Some(handed) = self.got.take() {
            self.give_back(handed);
        }
    }

    fn give_back(&self, handed: Handed) {
        let home = self.places.home(&handed.key);
        // If the runtime has ended, the list is gone, too.
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
                // The key holds another kind of value. If another list had an element meanwhile, the pop gets that
                // element instead.
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
                // An element is on its way already, and cannot be called back.
                Some(Told::Gone) => gone = true,
                None => {}
            }
            told = Some(cx.event().await);
        }
    }

    async fn keep(
        &mut self,
        _: &mut Cx<'_, Told>,
        PoppingInKeep { reply, ticket }: PoppingInKeep,
    ) -> Result<PoppingAfterKeep, Infallible> {
        let saved = match &self.log {
            Some(log) => log.saved(ticket).await,
            None => Ok(()),
        };
        Ok(PoppingAfterKeep::Served {
            reply: if saved.is_ok() { reply } else { NOT_SAVED },
        })
    }
}

impl Drop for Pop {
    /// Closes the claim and leaves all queues, however the pop ended.
    fn drop(&mut self) {
        self.claim.close();
        for key in self.keys.drain(..).take(self.queued) {
            let claim = Arc::clone(&self.claim);
            let home = self.places.home(&key);
            // If the runtime has ended, the queue is gone, too.
            let _ = self
                .runtime
                .post(home, move |local| local.data::<Shard>().leave(&key, &claim));
        }
    }
}
