//! Objects of another runtime, through the proxies of objects of this one.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::{
    collections::BTreeMap,
    future::ready,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_patterns::{
    active::{
        ActiveCallError, Carrier, Carrying, Forwarding, NotCarried, RemoteActive, WhenFull, answer,
        failure,
    },
    prelude::*,
};
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::kit::{limited, many, task::until};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Balance {
    Empty,
    Cents(u64),
}

#[derive(Default)]
struct Account {
    cents: u64,
    notes: BTreeMap<String, Vec<u8>>,
}

#[active(remote)]
impl Account {
    pub fn deposit(&mut self, cents: u64) -> Balance {
        self.cents += cents;
        Balance::Cents(self.cents)
    }

    #[when(self.cents >= cents)]
    pub async fn withdraw(&mut self, cents: u64) -> Result<Balance, String> {
        tokio::task::yield_now().await;
        self.cents -= cents;
        Ok(match self.cents {
            0 => Balance::Empty,
            left => Balance::Cents(left),
        })
    }

    #[active(priority = "high")]
    pub fn note(&mut self, (name, note): (String, Vec<u8>)) -> usize {
        self.notes.insert(name, note);
        self.notes.len()
    }

    pub fn fail(&self) {
        panic!("no such luck");
    }
}

/// Carries calls to an object of another runtime.
struct Other(AccountProxy);

impl Carrier for Other {
    fn carry(&self, call: Vec<u8>) -> Carrying {
        let answering = answer::<Account>(&self.0, &call);
        Box::pin(async move { Ok(answering.await) })
    }
}

fn forward(runtime: &Runtime, carrier: impl Carrier) -> AccountProxy {
    let forwarding = Forwarding::<Account>::new("Account ada", carrier);
    forwarding.start(runtime).unwrap()
}

/// AO-08: the proxy of an object elsewhere is the proxy of an object here: methods, guards and errors are the same.
#[test]
fn an_object_elsewhere_is_called_through_the_same_proxy() {
    limited(|| async {
        let clock = TestClock::new();
        let (here, there) = (
            many(2, &clock).build().unwrap(),
            many(1, &clock).build().unwrap(),
        );
        let object = Account::default().activate(&there).unwrap();
        let ada: AccountProxy = forward(&here, Other(object.clone()));
        let withdrawn = ada.withdraw(300);
        assert_eq!(ada.deposit(100).await.unwrap(), Balance::Cents(100));
        // The guard is that of the object, and blocks no other call.
        assert!(!withdrawn.is_ready());
        assert_eq!(object.deposit(200).await.unwrap(), Balance::Cents(300));
        assert_eq!(withdrawn.await.unwrap(), Ok(Balance::Empty));
        assert_eq!(ada.note(("a".into(), vec![0, 255])).await.unwrap(), 1);
        let panicked = ada.fail().await.unwrap_err();
        assert!(matches!(&panicked, ActiveCallError::Panicked(what) if what == "no such luck"));
        // Plain threads wait, and listings say what is elsewhere.
        let waiting = ada.clone();
        let waited = std::thread::spawn(move || waiting.deposit(7).wait());
        assert_eq!(waited.join().unwrap().unwrap(), Balance::Cents(7));
        let parts = here.inspect().parts().parts;
        let parts: Vec<_> = parts.iter().map(|part| part.name.clone()).collect();
        assert_eq!(parts, ["Account ada, elsewhere"]);
    });
}

/// AO-02: a cancel reaches the call, in the list of the object elsewhere too. So does a deadline.
#[test]
fn a_call_is_cancelled_elsewhere() {
    limited(|| async {
        let clock = TestClock::new();
        let (here, there) = (
            many(1, &clock).build().unwrap(),
            many(1, &clock).build().unwrap(),
        );
        let object = Account::default().activate(&there).unwrap();
        let ada = forward(&here, Other(object.clone()));
        let cancelled = ada.withdraw(1);
        here.quiet().await;
        there.quiet().await;
        assert_eq!(object.queued(), 1);
        cancelled.cancel();
        assert!(matches!(cancelled.await, Err(ActiveCallError::Cancelled)));
        here.quiet().await;
        there.quiet().await;
        assert_eq!(object.queued(), 0);

        let late = tokio::spawn(ada.withdraw(1).within(Duration::from_secs(2)));
        here.quiet().await;
        there.quiet().await;
        assert_eq!(object.queued(), 1);
        clock.advance(Duration::from_secs(3));
        assert!(matches!(
            late.await.unwrap(),
            Err(ActiveCallError::TimedOut(_))
        ));
        here.quiet().await;
        there.quiet().await;
        assert_eq!(object.queued(), 0);
        assert_eq!(ada.deposit(5).await.unwrap(), Balance::Cents(5));
    });
}

/// The last proxy may go before the answer: the call is made, and the fom of the proxy ends after that.
#[test]
fn the_proxy_ends_after_the_last_answer() {
    limited(|| async {
        let clock = TestClock::new();
        let (here, there) = (
            many(1, &clock).build().unwrap(),
            many(1, &clock).build().unwrap(),
        );
        let object = Account::default().activate(&there).unwrap();
        let ada = forward(&here, Other(object.clone()));
        let withdrawn = ada.withdraw(3);
        drop(ada);
        here.quiet().await;
        assert_eq!(here.in_flight(), 1);
        object.deposit(3).await.unwrap();
        assert_eq!(withdrawn.await.unwrap(), Ok(Balance::Empty));
        here.quiet().await;
        assert_eq!(here.in_flight(), 0);
    });
}

/// Brings what a test says.
struct Says<F>(F);

impl<F: Fn() -> Carrying + Send + Sync + 'static> Carrier for Says<F> {
    fn carry(&self, _: Vec<u8>) -> Carrying {
        (self.0)()
    }
}

fn says(what: Result<Vec<u8>, NotCarried>) -> Says<impl Fn() -> Carrying> {
    Says(move || Box::pin(ready(what.clone())) as Carrying)
}

/// A call that is not answered says why, and a call without room gives its arguments back.
#[test]
fn what_is_not_carried_is_an_error() {
    limited(|| async {
        let here = many(1, &TestClock::new()).build().unwrap();
        let full = forward(&here, says(Err(NotCarried::Full)));
        let Err(ActiveCallError::Full(arguments)) = full.deposit(7).await else {
            panic!("it is full");
        };
        assert_eq!(arguments.take::<(u64,)>(), Some((7,)));

        let source = Arc::new(io::Error::other("the cable is cut"));
        let broken = forward(&here, says(Err(NotCarried::Failed(source))));
        let error = broken.deposit(7).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the object is elsewhere, and there is no answer from there: the cable is cut"
        );

        let refuses = forward(&here, says(Ok(failure("no object has this key"))));
        let error = refuses.deposit(7).await.unwrap_err();
        assert!(
            error.to_string().contains("no object has this key"),
            "{error}"
        );

        for hostile in [
            vec![],
            vec![0xc1],
            vec![0x81, 0xa2, b'O', b'k', 0xa3],
            vec![0x91; 9000],
        ] {
            let broken = forward(&here, says(Ok(hostile)));
            let error = broken.deposit(7).await.unwrap_err();
            assert!(matches!(error, ActiveCallError::Elsewhere(_)), "{error}");
        }
    });
}

/// Bytes that are no call are answered with an error, and the object does not see them.
#[test]
fn damaged_calls_are_refused() {
    limited(|| async {
        let there = many(1, &TestClock::new()).build().unwrap();
        let object = Account::default().activate(&there).unwrap();
        let (keep, kept) = std::sync::mpsc::channel();
        let keeps = Says(|| Box::pin(ready(Err(NotCarried::Full))) as Carrying);
        struct Keeps<C>(C, std::sync::mpsc::Sender<Vec<u8>>);
        impl<C: Carrier> Carrier for Keeps<C> {
            fn carry(&self, call: Vec<u8>) -> Carrying {
                self.1.send(call.clone()).unwrap();
                self.0.carry(call)
            }
        }
        let ada = forward(&there, Keeps(keeps, keep));
        let _ = ada.deposit(1).await;
        let good = kept.recv().unwrap();
        let decoded = |bytes: Vec<u8>| async {
            let here = &there;
            forward(here, says(Ok(bytes))).deposit(0).await
        };
        for place in 0..good.len() {
            let cut = answer::<Account>(&object, &good[..place]).await;
            assert!(
                matches!(decoded(cut).await, Err(ActiveCallError::Elsewhere(_))),
                "{place}"
            );
        }
        let mut unknown = good.clone();
        let method = good.windows(7).position(|part| part == b"deposit").unwrap();
        unknown[method + 5..method + 7].copy_from_slice(b"al");
        let error = decoded(answer::<Account>(&object, &unknown).await).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("has no method `deposal` at its node"),
            "{error}"
        );
        assert_eq!(object.deposit(1).await.unwrap(), Balance::Cents(1));
    });
}

/// AO-05: the number of calls that are under way is bounded. Further calls wait in the list, and after that are refused or wait.
#[test]
fn calls_that_are_under_way_are_bounded() {
    limited(|| async {
        let here = many(1, &TestClock::new()).build().unwrap();
        let (answers, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (open, opened) = oneshot::channel::<()>();
        let opened = futures::FutureExt::shared(opened);
        let carrier = Says({
            let (answers, waiting) = (Arc::clone(&answers), Arc::clone(&waiting));
            move || {
                waiting.fetch_add(1, Ordering::SeqCst);
                let (answers, opened) = (Arc::clone(&answers), opened.clone());
                Box::pin(async move {
                    let _ = opened.await;
                    answers.fetch_add(1, Ordering::SeqCst);
                    Err(NotCarried::Full)
                }) as Carrying
            }
        });
        let forwarding = Forwarding::<Account>::new("Account ada", carrier).capacity(2);
        let ada: AccountProxy = forwarding.start(&here).unwrap();
        let mut calls = Vec::new();
        for _ in 0..6 {
            calls.push(ada.deposit(1));
            here.quiet().await;
        }
        assert_eq!(waiting.load(Ordering::SeqCst), 2);
        assert_eq!(ada.queued(), 2);
        let refused = calls.iter().filter(|call| call.is_ready()).count();
        assert_eq!(refused, 2);
        open.send(()).unwrap();
        for call in calls {
            assert!(matches!(call.await, Err(ActiveCallError::Full(_))));
        }
        assert_eq!(answers.load(Ordering::SeqCst), 4);

        let there = many(1, &TestClock::new()).build().unwrap();
        let object = Account::default().activate(&there).unwrap();
        let patient = Forwarding::<Account>::new("Account ada", Other(object)).capacity(1);
        let patient = patient.when_full(WhenFull::Wait);
        let ada: AccountProxy = patient.start(&here).unwrap();
        let calls: Vec<_> = (0..50).map(|_| ada.deposit(1)).collect();
        for (number, call) in calls.into_iter().enumerate() {
            // With room for one, calls keep their order.
            assert_eq!(call.await.unwrap(), Balance::Cents(number as u64 + 1));
        }
    });
}

/// When the runtime of the proxy ends, its calls are answered.
#[test]
fn calls_end_with_the_runtime_of_the_proxy() {
    limited(|| async {
        let clock = TestClock::new();
        let (here, there) = (
            many(1, &clock).build().unwrap(),
            many(1, &clock).build().unwrap(),
        );
        let object = Account::default().activate(&there).unwrap();
        let ada = forward(&here, Other(object.clone()));
        let withdrawn = ada.withdraw(1);
        here.quiet().await;
        drop(here);
        assert!(matches!(withdrawn.await, Err(ActiveCallError::Ended)));
        // The runtime of the proxy drops the call after it has answered.
        until("the call is given up", || object.queued() == 0);
        fn remote<A: RemoteActive>() {}
        remote::<Account>();
    });
}
