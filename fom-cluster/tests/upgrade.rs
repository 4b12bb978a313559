//! Nodes of two releases in one cluster: the later one has given a type and its machine other names.

use std::time::Duration;

use fom_cluster::{Cluster, ClusterBuilder, ClusterCxExt as _, Found, MemoryEngine, Place, Tcp};
use fom_durable::prelude::*;
use fom_runtime::Cause;
use serde::{Deserialize, Serialize};

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);
const SLOTS: u16 = 4;

#[derive(Serialize, Deserialize)]
enum News {
    Add { more: u32 },
}

/// The earlier release.
mod earlier {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Counter {
        pub(super) sum: u32,
        pub(super) enough: u32,
    }

    #[fom(operation(Counter), event(News))]
    pub(super) enum Counting {
        #[phase(start, sync, on(Add), to(Open, Closed))]
        Open,
        #[phase(end)]
        Closed,
    }

    impl CountingTransitions for Counter {
        fn open(
            &mut self,
            _: &mut Cx<'_, News>,
            news: News,
        ) -> Result<CountingAfterOpen, BoxError> {
            let News::Add { more } = news;
            self.sum += more;
            Ok(match self.sum < self.enough {
                true => CountingAfterOpen::Open,
                false => CountingAfterOpen::Closed,
            })
        }
    }

    /// Sends a letter to a counter.
    #[derive(Serialize, Deserialize)]
    pub(super) struct Addition;

    #[fom(operation(Addition))]
    pub(super) enum Adding {
        #[phase(start, sync, to(Added))]
        Add,
        #[phase(end)]
        Added,
    }

    impl AddingTransitions for Addition {
        fn add(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            cx.letters()
                .send::<Counter>("the counter", News::Add { more: 30 })?;
            let counter = Counter {
                sum: 500,
                enough: 501,
            };
            cx.letters().submit("a counter by letter", &counter)?;
            Ok(())
        }
    }

    pub(super) fn types(builder: ClusterBuilder) -> ClusterBuilder {
        builder.operation::<Counter>().operation::<Addition>()
    }
}

/// The later release.
mod later {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Account {
        pub(super) sum: u32,
        pub(super) enough: u32,
    }

    #[fom(operation(Account, was = "Counter"), event(News), was = "Counting")]
    pub(super) enum Keeping {
        #[phase(start, sync, on(Add), to(Open, Closed))]
        Open,
        #[phase(end)]
        Closed,
    }

    impl KeepingTransitions for Account {
        fn open(&mut self, _: &mut Cx<'_, News>, news: News) -> Result<KeepingAfterOpen, BoxError> {
            let News::Add { more } = news;
            self.sum += more;
            Ok(match self.sum < self.enough {
                true => KeepingAfterOpen::Open,
                false => KeepingAfterOpen::Closed,
            })
        }
    }

    pub(super) fn types(builder: ClusterBuilder) -> ClusterBuilder {
        builder.operation::<Account>()
    }
}

async fn join(
    engine: &MemoryEngine,
    name: &str,
    types: fn(ClusterBuilder) -> ClusterBuilder,
) -> Cluster {
    let builder = Cluster::builder(engine.clone(), name).slots(SLOTS);
    let builder = builder.network(Tcp::bind("127.0.0.1:0").unwrap());
    types(builder).join().await.unwrap()
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

/// The later release serves what nodes, letters and journals of the earlier one call by the earlier name.
#[tokio::test]
async fn a_renamed_type_is_served_by_its_earlier_name() {
    use earlier::{Addition, Counter};
    use later::Account;

    let test = async {
        let engine = MemoryEngine::new();
        let a = join(&engine, "a", earlier::types).await;
        until(|| a.served().len() == usize::from(SLOTS)).await;
        let counter = a
            .submit(Counter { sum: 1, enough: 33 })
            .key("the counter")
            .once("one");
        drop(counter.start().await.unwrap());

        let b = join(&engine, "b", later::types).await;
        a.operator().drain("a").await.unwrap();
        until(|| b.served().len() == usize::from(SLOTS)).await;
        // An earlier node asks a later one.
        let found = a.find::<Counter>("the counter").await.unwrap();
        assert!(matches!(&found, Found::InFlight { phase } if phase == "Open"));
        let first = a
            .send::<Counter>("the counter", News::Add { more: 2 }, "first")
            .await;
        assert!(first.unwrap());
        let second = a
            .submit(Counter { sum: 7, enough: 8 })
            .key("another")
            .once("two");
        drop(second.start().await.unwrap());

        // An earlier node sends letters to a later one.
        let here = (0..).map(|number: u32| format!("addition {number}"));
        let target = Place::key("the counter").slot(SLOTS);
        let by_letter = Place::key("a counter by letter").slot(SLOTS);
        let is_apart = |name: &String| {
            let slot = Place::key(name.as_str()).slot(SLOTS);
            slot != target && slot != by_letter
        };
        let here = here.into_iter().find(is_apart).unwrap();
        let slot = Place::key(here.as_str()).slot(SLOTS);
        a.operator().pin(slot, "a").await.unwrap();
        until(|| a.served().iter().any(|(served, _)| *served == slot)).await;
        let addition = a.submit(Addition).key(here).once("three");
        addition.start().await.unwrap().await.unwrap().unwrap();

        let sum = |key: &str, once: &str| b.outcome::<Account>(Place::key(key).with_once(once));
        assert_eq!(
            sum("the counter", "one")
                .await
                .unwrap()
                .unwrap()
                .operation
                .sum,
            33
        );
        b.send::<Account>("another", News::Add { more: 1 }, "third")
            .await
            .unwrap();
        assert_eq!(
            sum("another", "two").await.unwrap().unwrap().operation.sum,
            8
        );
        while b.find::<Account>("a counter by letter").await.unwrap() == Found::Unknown {
            tokio::task::yield_now().await;
        }
        // The end has names that the earlier release does not know.
        let told = a.outcome::<Counter>(Place::key("another").with_once("two"));
        let told = told.await.unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(told.cause, Cause::Unread { .. }), "{told}");
    };
    tokio::time::timeout(LIMIT, test).await.expect("in time");
}
