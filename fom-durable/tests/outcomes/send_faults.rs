//! Durable sends while the journal fails, and callers that give up.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use fom_durable::{
    Lookup, NotSentReason, Sent,
    journal::{Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery},
    prelude::*,
};

use crate::{
    kit::{limited, one},
    order::{HOUR, News, Order, Shop, order},
};

/// A journal that fails while the flag is set. With `writes`, the disk has what was refused.
struct Failing {
    journal: MemoryJournal,
    fails: Arc<AtomicBool>,
    writes: bool,
}

impl Journal for Failing {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if !self.fails.load(Ordering::SeqCst) {
            return self.journal.commit(batch);
        }
        if self.writes {
            self.journal.commit(batch)?;
        }
        Err(JournalError::Closed)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

async fn cents(runtime: &Runtime) -> Vec<u32> {
    let order = runtime.find::<Order>("7").unwrap();
    order.send(News::Close).unwrap();
    runtime.idle().await;
    let Lookup::Ended { outcome, .. } = runtime.outcome::<Order>("7") else {
        panic!("it has ended")
    };
    outcome.unwrap().operation.cents
}

/// A failed commit returns the event. Sent again with its id, it is taken once, whether or not the disk had the first
/// attempt, and whether or not the program was started anew meanwhile.
#[test]
fn an_event_that_is_sent_again_after_a_failed_commit_is_taken_once() {
    limited(async || {
        for (writes, restarts) in [(false, false), (true, false), (false, true), (true, true)] {
            let shop = Shop::default();
            let fails = Arc::new(AtomicBool::new(false));
            let build = |journal: &MemoryJournal| {
                let journal = Failing {
                    journal: journal.clone(),
                    fails: Arc::clone(&fails),
                    writes,
                };
                let builder = one(&shop.clock).resource(shop.fixed.clone());
                let builder = builder.journal_with(journal);
                builder.remember_all::<Order>(9, HOUR).build().unwrap()
            };
            let mut runtime = build(&shop.journal);
            drop(order(&runtime, "7").await);
            fails.store(true, Ordering::SeqCst);
            let sent = runtime.send_durably::<Order>("7", News::Paid(5), "w").await;
            let not_sent = sent.unwrap_err();
            assert_eq!(not_sent.event, News::Paid(5));
            let reason = not_sent.reason;
            assert!(matches!(reason, NotSentReason::Journal(_)), "{reason}");
            let fork = shop.journal.fork();
            fails.store(false, Ordering::SeqCst);
            if restarts {
                drop(runtime);
                runtime = build(&fork);
            }
            let sent = runtime.send_durably::<Order>("7", News::Paid(5), "w").await;
            let expected = match writes && restarts {
                true => Sent::Before,
                false => Sent::Now,
            };
            assert_eq!(sent.unwrap(), expected);
            runtime.quiet().await;
            let journal = match restarts {
                true => &fork,
                false => &shop.journal,
            };
            drop(runtime);
            let runtime = build(journal);
            runtime.quiet().await;
            let sent = runtime.send_durably::<Order>("7", News::Paid(5), "w").await;
            assert_eq!(sent.unwrap(), Sent::Before);
            assert_eq!(cents(&runtime).await, [5], "{writes} {restarts}");
        }
    });
}

/// A caller that gives up after its first poll has handed the event over: the fom takes it, once.
#[test]
fn a_dropped_send_is_taken_once() {
    limited(async || {
        let shop = Shop::default();
        let builder = shop.builder().remember_all::<Order>(9, HOUR);
        let runtime = builder.build().unwrap();
        drop(order(&runtime, "7").await);
        {
            let mut sent = pin!(runtime.send_durably::<Order>("7", News::Paid(5), "w"));
            let polled = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(_))));
        }
        let again = runtime.send_durably::<Order>("7", News::Paid(5), "w");
        assert_eq!(again.await.unwrap(), Sent::Before);
        runtime.quiet().await;
        assert_eq!(cents(&runtime).await, [5]);
    });
}

/// A send after the shutdown returns the event.
#[test]
fn a_send_to_a_closed_runtime_returns_the_event() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let _order = order(&runtime, "7").await;
        let detached = runtime.detached();
        drop(runtime);
        let sent = detached
            .send_durably::<Order>("7", News::Paid(5), "w")
            .await;
        assert_eq!(sent.unwrap_err().event, News::Paid(5));
    });
}
