//! The keys of requests: the same in each attempt, whatever came before it, and different for different requests.

use std::sync::{Arc, Mutex};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{context::StepKey, error::BoxError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one, secs};

/// Receives the requests. Answers at once, and keeps each request with its key and the key of the visit.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<Asked>>>);

/// The request, its key, and the key of its visit.
type Asked = (&'static str, StepKey, StepKey);

impl Bank {
    fn ask(&self, what: &'static str, visit: StepKey, reply: Reply<()>) {
        let key = reply.step_key().expect("it is kept");
        self.0.lock().unwrap().push((what, key, visit));
        reply.send(()).expect("the caller waits for it");
    }
}

/// Asks twice, the first time in two attempts. Its steps need no commit.
#[derive(Serialize, Deserialize)]
struct Trade;

#[fom(operation(Trade), durability = "lazy")]
enum Trading {
    #[phase(start, to(Sell), retry = "1, 1s..1s")]
    Buy,
    #[phase(to(Done))]
    Sell,
    #[phase(end)]
    Done,
}

impl TradingTransitions for Trade {
    async fn buy(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let visit = cx.step_key();
        cx.call(|bank: &Bank, reply| bank.ask("buy", visit, reply))
            .await?;
        match cx.attempt() {
            0 => Err("the line is dead".into()),
            _ => Ok(()),
        }
    }
    async fn sell(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let visit = cx.step_key();
        cx.call(|bank: &Bank, reply| bank.ask("sell", visit, reply))
            .await?;
        Ok(())
    }
}

/// Fails before it has asked for anything, or after that; then its exhausted function refunds what it may have bought.
#[derive(Serialize, Deserialize)]
struct Buy {
    asks: bool,
}

#[fom(operation(Buy))]
enum Buying {
    #[phase(start, to(Done), retry = "1, 1s..1s", exhausted)]
    Pay,
    #[phase(end)]
    Done,
}

impl BuyingTransitions for Buy {
    async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if self.asks {
            let visit = cx.step_key();
            cx.call(|bank: &Bank, reply| bank.ask("pay", visit, reply))
                .await?;
        }
        Err("no use".into())
    }
    async fn pay_exhausted(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let visit = cx.step_key();
        cx.call(|bank: &Bank, reply| bank.ask("refund", visit, reply))
            .await?;
        Ok(())
    }
}

async fn asked<O: Operation>(operation: O) -> Vec<Asked> {
    let clock = TestClock::new();
    let bank = Bank::default();
    let builder = one(&clock).resource(bank.clone());
    let runtime = builder.journal_with(MemoryJournal::new()).build().unwrap();
    let handle = runtime.submit(operation).start().unwrap();
    runtime.quiet().await;
    clock.advance(secs(1));
    assert!(handle.await.is_ok());
    std::mem::take(&mut *bank.0.lock().unwrap())
}

/// A lazy operation numbers its requests anew in each attempt and in each visit, as after a restart.
#[test]
fn a_lazy_operation_asks_under_the_same_keys_again() {
    limited(|| async {
        let asked = asked(Trade).await;
        let what: Vec<_> = asked.iter().map(|asked| asked.0).collect();
        assert_eq!(what, ["buy", "buy", "sell"]);
        for (what, key, visit) in &asked {
            assert_eq!(*key, visit.part(1), "{what}");
        }
        assert_ne!(asked[1].1, asked[2].1);
    });
}

/// A request of an exhausted function never has the key of an attempt's request. Its key is the same however far the
/// last attempt came.
#[test]
fn an_exhausted_function_has_keys_of_its_own() {
    limited(|| async {
        let mut refunds = Vec::new();
        for asks in [false, true] {
            let asked = asked(Buy { asks }).await;
            let (what, key, visit) = asked.last().unwrap();
            assert_eq!(*what, "refund");
            let small = (0..100).find(|part| *key == visit.part(*part));
            assert_eq!(small, None, "asks: {asks}");
            refunds.push(key.to_string().rsplit_once('-').map(|key| key.1.to_owned()));
        }
        assert_eq!(refunds[0], refunds[1]);
    });
}
