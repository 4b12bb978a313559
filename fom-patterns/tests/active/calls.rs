//! Active objects: proxies, guards, and the two ways to wait for a call.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::sync::{Arc, Mutex};

use fom_patterns::{active::ActiveCallError, prelude::*};
use fom_runtime::time::TestClock;

use crate::kit::{limited, many, one};

#[derive(Default)]
struct Account {
    cents: u64,
    frozen: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Frozen;

#[active]
impl Account {
    /// Puts money in.
    pub fn deposit(&mut self, cents: u64) -> u64 {
        self.cents += cents;
        self.cents
    }

    /// Waits its turn until there is enough money.
    #[when(self.frozen || self.cents >= cents)]
    pub fn withdraw(&mut self, cents: u64) -> Result<u64, Frozen> {
        if self.frozen {
            return Err(Frozen);
        }
        self.cents -= cents;
        Ok(self.cents)
    }

    #[active(priority = "high")]
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    pub async fn slowly(&mut self, turns: usize) -> u64 {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        self.helper()
    }

    pub fn panics(&mut self) -> u64 {
        panic!("as asked")
    }

    #[when(self.holds(name.as_str()))]
    pub fn picky(&mut self, name: String) -> usize {
        name.len()
    }

    fn helper(&self) -> u64 {
        self.cents
    }

    fn holds(&self, name: &str) -> bool {
        assert_ne!(name, "boom", "the guard was asked for boom");
        true
    }
}

/// AO-06: a call is awaited in async code, or waited for in a plain thread. One proxy has both faces.
#[test]
fn a_call_is_awaited_or_waited_for() {
    limited(|| async {
        let runtime = many(2, &TestClock::new()).build().unwrap();
        let account = Account::default().activate(&runtime).unwrap();
        assert_eq!(account.deposit(500).await.unwrap(), 500);
        let elsewhere = account.clone();
        let waited = std::thread::spawn(move || elsewhere.deposit(100).wait());
        assert_eq!(waited.join().unwrap().unwrap(), 600);
        assert_eq!(account.slowly(3).await.unwrap(), 600);
    });
}

/// SM-18: a request with a false guard waits its turn and holds up no other request. The guard is evaluated again when
/// the object has changed.
#[test]
fn a_false_guard_waits_until_the_object_changed() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let account = Account::default().activate(&runtime).unwrap();
        let large = account.withdraw(300);
        let small = account.withdraw(100);
        assert_eq!(account.deposit(100).await.unwrap(), 100);
        assert_eq!(small.await.unwrap(), Ok(0));
        assert!(!large.is_ready());
        runtime.quiet().await;
        let listed = runtime.operations();
        assert_eq!(listed.foms.len(), 1);
        assert_eq!(listed.foms[0].operation, "Account");
        assert_eq!(listed.foms[0].events, 1);
        let waits = listed.foms[0].waiting_for().unwrap();
        assert!(waits.starts_with("the guard of `withdraw`"), "{waits}");
        account.deposit(300).await.unwrap();
        assert_eq!(large.await.unwrap(), Ok(0));
        let refused = account.withdraw(1);
        account.freeze().await.unwrap();
        assert_eq!(refused.await.unwrap(), Err(Frozen));
    });
}

/// SM-18, trap 31: a guard that panics fails only its own request, and so does a method that panics.
#[test]
fn a_panic_fails_one_request() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let account = Account::default().activate(&runtime).unwrap();
        let all = [
            account.picky("boom".to_owned()),
            account.picky("fine".to_owned()),
        ];
        let panicked = account.panics();
        let after = account.deposit(1);
        let [first, second] = all;
        match first.await {
            Err(ActiveCallError::GuardPanicked(text)) => assert!(text.contains("asked for boom")),
            other => panic!("{other:?}"),
        }
        assert_eq!(second.await.unwrap(), 4);
        match panicked.await {
            Err(ActiveCallError::Panicked(text)) => assert_eq!(text, "as asked"),
            other => panic!("{other:?}"),
        }
        assert_eq!(after.await.unwrap(), 1);
    });
}

/// AO-03: an observer is called once, whether it is added before the outcome or after it.
#[test]
fn observers_are_called_once() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let account = Account::default().activate(&runtime).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let seen = Arc::clone(&seen);
            move |outcome: Result<&Result<u64, Frozen>, &ActiveCallError>| {
                let balance = *outcome.unwrap().as_ref().unwrap();
                seen.lock().unwrap().push((what, balance));
            }
        };
        let call = account.withdraw(5).observe(note("before"));
        account.deposit(7).await.unwrap();
        runtime.quiet().await;
        let call = call.observe(note("after"));
        assert_eq!(*seen.lock().unwrap(), [("before", 2), ("after", 2)]);
        assert_eq!(call.await.unwrap(), Ok(2));
    });
}
