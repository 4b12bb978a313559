//! The named parts of a program: each kind is listed with its counters, and leaves the list when it is dropped.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use fom_patterns::{
    admission::{Admission, Next, Policy, Request, Tags},
    lock::LongLocks,
    prelude::*,
    service::{Provider, Service},
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::{
    observe::{PartInfo, PartValue},
    time::TestClock,
};
use serde_json::Value;

use crate::kit::{hush_localities, limited, one, secs};

/// Holds an account until it hears a word.
struct Transfer {
    accounts: LongLocks,
}

#[derive(Debug)]
enum Word {
    Go,
}

#[fom(operation(Transfer), event(Word), transient)]
enum Transferring {
    #[phase(start, to(Over), on(Go))]
    Hold,
    #[phase(end)]
    Over,
}

impl TransferringTransitions for Transfer {
    async fn hold(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let _account = self.accounts.of(7).write(cx).await?;
        let Word::Go = cx.event().await;
        Ok(())
    }
}

#[derive(Default)]
struct Counter(u64);

#[active]
impl Counter {
    /// Counts, once it may.
    #[when(self.0 > 0)]
    pub(crate) fn count(&mut self) -> u64 {
        self.0
    }
}

static ECHO: Service<u32, u32> = Service::new("echo");

/// Returns the parts of this kind.
fn parts(runtime: &Runtime, kind: &str) -> Vec<PartInfo> {
    let all = runtime.inspect().parts().parts;
    all.into_iter().filter(|part| part.kind == kind).collect()
}

fn only(runtime: &Runtime, kind: &str) -> PartInfo {
    let [part] = &*parts(runtime, kind) else {
        panic!("one {kind} in {}", runtime.inspect().parts());
    };
    part.clone()
}

/// SV-11: what a service does can be read in one listing with the other parts, also as JSON.
#[test]
fn each_kind_of_part_is_listed_with_its_counters() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let accounts = LongLocks::new("account");
        let transfer = || Transfer {
            accounts: accounts.clone(),
        };
        let intake = Admission::builder(&runtime)
            .name("front door")
            .in_flight(1)
            .build()
            .unwrap();
        // The first one takes the lock and the place. The second one waits for the place, the third for the lock.
        let first = intake.submit(transfer()).client("a").start().unwrap();
        let second = intake.submit(transfer()).client("b").start().unwrap();
        runtime.quiet().await;
        let third = runtime.submit(transfer()).start().unwrap();
        let stream = KeyedStream::new(&runtime, StreamOptions::default().name("moves"));
        stream.push(1_u32, transfer()).unwrap();
        let counter = Counter::default().activation().key("c").start(&runtime);
        let counter = counter.unwrap();
        let counted = counter.count();
        let services = runtime.services();
        let echo = Provider::function(|_, number| number).owner("the test");
        let _echo = services.register(&ECHO, echo).unwrap();
        runtime.limits().set("charges", 4);
        runtime.quiet().await;
        clock.advance(secs(3));
        let mut listed = serde_json::to_value(runtime.inspect().parts()).unwrap();
        *listed.pointer_mut("/at").unwrap() = Value::from("now");
        for part in listed["parts"].as_array_mut().unwrap() {
            if part["kind"] == "active object" {
                part["fom"] = Value::from("its id");
            }
        }
        insta::assert_snapshot!("parts", serde_json::to_string_pretty(&listed).unwrap());
        drop((first, second, third, counted));
    });
}

#[test]
fn a_part_leaves_the_list_when_it_is_dropped() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let accounts = LongLocks::new("account");
        accounts.list_in(&runtime);
        // Twice is once.
        accounts.list_in(&runtime);
        let intake = Admission::builder(&runtime).build().unwrap();
        let stream = KeyedStream::<Transfer, u32>::new(&runtime, StreamOptions::default());
        let counter = Counter(1).activate(&runtime).unwrap();
        let echo = Provider::function(|_, number| number);
        let echo = runtime.services().register(&ECHO, echo).unwrap();
        assert_eq!(counter.count().await.unwrap(), 1);
        assert_eq!(only(&runtime, "lock table").name, "account");
        assert_eq!(only(&runtime, "admission").name, "admission");
        assert_eq!(only(&runtime, "stream").name, "Transfer");
        assert_eq!(only(&runtime, "active object").count("requests"), Some(1));
        assert_eq!(only(&runtime, "service").name, "echo");
        drop((accounts, intake, counter, stream));
        echo.unregister(fom_patterns::service::Running::Finish)
            .await;
        runtime.quiet().await;
        assert_eq!(runtime.inspect().parts().parts, []);
    });
}

#[test]
fn a_lock_table_is_listed_by_each_runtime_that_uses_it() {
    limited(|| async {
        let accounts = LongLocks::new("account");
        let lists = async |runtime: &Runtime| {
            let accounts = accounts.clone();
            let fom = runtime.submit(Transfer { accounts }).start().unwrap();
            runtime.quiet().await;
            let info = only(runtime, "lock table");
            fom.fom().send(Word::Go).unwrap();
            fom.await.unwrap();
            info
        };
        let first = one(&TestClock::new()).build().unwrap();
        assert_eq!(lists(&first).await.count("holders"), Some(1));
        let second = one(&TestClock::new()).build().unwrap();
        assert_eq!(lists(&second).await.count("holders"), Some(1));
        // The first one lists it still, and only once.
        assert_eq!(lists(&first).await.count("writes"), Some(3));
    });
}

/// A policy that does not return from its first request until it is let go, and declines all.
struct Hangs {
    asked: mpsc::Sender<()>,
    go: Option<mpsc::Receiver<()>>,
}

impl Policy for Hangs {
    fn name(&self) -> &str {
        "hangs"
    }

    fn enqueue(&mut self, request: Request, _: fom_runtime::time::Instant) -> Result<(), Request> {
        if let Some(go) = self.go.take() {
            self.asked.send(()).unwrap();
            // An error means that the test lets it go.
            let _ = go.recv();
        }
        Err(request)
    }

    fn get(&mut self, _: fom_runtime::time::Instant, _: bool) -> Next {
        Next::Empty
    }

    fn remove(&mut self, _: &Tags) -> Option<Request> {
        None
    }

    fn visit(&self, _: &mut dyn FnMut(&Tags)) {}
}

#[test]
fn a_policy_that_hangs_makes_its_intake_busy_and_no_other() {
    limited(|| async {
        hush_localities();
        let runtime = one(&TestClock::new()).build().unwrap();
        let other = Admission::builder(&runtime).name("other").build().unwrap();
        let intake = Admission::builder(&runtime).name("stuck").build().unwrap();
        let (asked, hangs) = mpsc::channel();
        let (go, held) = mpsc::channel();
        intake.set_policy(Hangs {
            asked,
            go: Some(held),
        });
        let submitter = {
            let (intake, accounts) = (intake.clone(), LongLocks::new("account"));
            let submit = move || {
                intake
                    .submit(Transfer { accounts })
                    .start()
                    .map(drop)
                    .is_ok()
            };
            std::thread::spawn(submit)
        };
        hangs.recv().unwrap();
        let began = Instant::now();
        let status = intake.status().await;
        assert!(status.busy && status.policies.is_empty(), "{status}");
        let by_name = |name: &str| {
            let all = parts(&runtime, "admission");
            all.into_iter().find(|part| part.name == name).unwrap()
        };
        assert!(by_name("stuck").busy && !by_name("other").busy);
        // Again, while the first question has no answer.
        assert!(by_name("stuck").busy);
        let extension = runtime.extension();
        let refused = extension.command("admission", "stuck", "promote", "ada");
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("does not return"), "{text}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it waits for the policy"
        );
        drop(go);
        assert!(submitter.join().unwrap());
        while by_name("stuck").busy {
            std::thread::yield_now();
        }
        let Some(PartValue::List(policies)) = by_name("stuck").get("policies").cloned() else {
            panic!("no policies in {}", by_name("stuck"));
        };
        assert!(policies[1].to_string().contains("hangs"), "{policies:?}");
        assert!(!other.status().await.busy);
    });
}
