//! Nodes of two releases in one cluster: the later one has given a type and its machine other names. A binary of its own: each of its
//! runtimes must be told which type it is to read.

#[expect(dead_code, reason = "it is the kit of more tests")]
#[path = "sim/kit.rs"]
mod kit;

use std::time::Duration;

use fom_cluster::{
    Cluster, ClusterBuilder, ClusterCxExt as _, ClusterError, Found, MemoryEngine, Place,
};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use fom_runtime::Cause;
use fom_sim::{self as sim, Sim};
use serde::{Deserialize, Serialize};

use earlier::{Addition, Tally};
use kit::{SLOTS, Simulated};
use later::Balance;

fom_sim::interpose!();

const SECOND: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize)]
enum News {
    Add { more: u32 },
}

/// The earlier release.
mod earlier {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Tally {
        pub(super) sum: u32,
        pub(super) enough: u32,
    }

    #[fom(operation(Tally), event(News))]
    pub(super) enum Tallying {
        #[phase(start, sync, on(Add), to(Open, Closed))]
        Open,
        #[phase(end)]
        Closed,
    }

    impl TallyingTransitions for Tally {
        fn open(
            &mut self,
            _: &mut Cx<'_, News>,
            news: News,
        ) -> Result<TallyingAfterOpen, BoxError> {
            let News::Add { more } = news;
            self.sum += more;
            Ok(match self.sum < self.enough {
                true => TallyingAfterOpen::Open,
                false => TallyingAfterOpen::Closed,
            })
        }
    }

    /// Sends a letter to a tally.
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
                .send::<Tally>("the tally", News::Add { more: 30 })?;
            let tally = Tally {
                sum: 500,
                enough: 501,
            };
            cx.letters().submit("a tally by letter", &tally)?;
            Ok(())
        }
    }

    pub(super) fn types(builder: ClusterBuilder) -> ClusterBuilder {
        builder.operation::<Tally>().operation::<Addition>()
    }
}

/// The later release.
mod later {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Balance {
        pub(super) sum: u32,
        pub(super) enough: u32,
    }

    #[fom(operation(Balance, was = "Tally"), event(News), was = "Tallying")]
    pub(super) enum Balancing {
        #[phase(start, sync, on(Add), to(Open, Closed))]
        Open,
        #[phase(end)]
        Closed,
    }

    impl BalancingTransitions for Balance {
        fn open(
            &mut self,
            _: &mut Cx<'_, News>,
            news: News,
        ) -> Result<BalancingAfterOpen, BoxError> {
            let News::Add { more } = news;
            self.sum += more;
            Ok(match self.sum < self.enough {
                true => BalancingAfterOpen::Open,
                false => BalancingAfterOpen::Closed,
            })
        }
    }

    pub(super) fn types(builder: ClusterBuilder) -> ClusterBuilder {
        builder.operation::<Balance>()
    }
}

/// How an operation with this key and id ended, as this node reads it.
fn sum(node: &Cluster, key: &str, once: &str) -> u32 {
    let outcome = node.outcome::<Balance>(Place::key(key).with_once(once));
    block_on(outcome).unwrap().unwrap().operation.sum
}

/// The later release serves what nodes, letters and journals of the earlier one call by the earlier name.
#[test]
fn a_renamed_type_is_served_by_its_earlier_name() {
    sim::explore(0..40, |sim: &mut Sim| {
        let mut cluster = Simulated::new();
        let a = cluster.start(sim, "a", &(), earlier::types).get();
        cluster.wait_for_owners();
        let submit = |key: &str, once: &str, tally: Tally| {
            let started = a.submit(tally).key(key).once(once).start();
            drop(block_on(started).unwrap());
        };
        submit("the tally", "one", Tally { sum: 1, enough: 33 });
        let b = cluster.start(sim, "b", &(), later::types).get();
        block_on(a.operator().drain("a")).unwrap();
        sim::sleep(SECOND * 30);
        assert_eq!(b.served().len(), usize::from(SLOTS));

        // An earlier node asks a later one.
        let found = block_on(a.find::<Tally>("the tally")).unwrap();
        assert!(matches!(&found, Found::InFlight { phase } if phase == "Open"));
        let news = News::Add { more: 2 };
        assert!(block_on(a.send::<Tally>("the tally", news, "first")).unwrap());
        submit("another", "two", Tally { sum: 7, enough: 8 });

        // An earlier node sends letters to a later one.
        let slot_of = |key: &str| Place::key(key).slot(SLOTS);
        let targets = ["the tally", "a tally by letter"].map(slot_of);
        let mut keys = (0..).map(|number| format!("addition {number}"));
        let key = keys.find(|key| !targets.contains(&slot_of(key))).unwrap();
        block_on(a.operator().pin(slot_of(&key), "a")).unwrap();
        sim::sleep(SECOND * 30);
        assert_eq!(a.served().len(), 1);
        // There is no way back: the earlier node does not know the new names.
        let balance = Balance { sum: 0, enough: 1 };
        let refused = block_on(b.submit(balance).key(&*key).start()).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("does not serve Balance"), "{told}");
        let addition = block_on(a.submit(Addition).key(key).start()).unwrap();
        block_on(addition.into_future()).unwrap().unwrap();

        assert_eq!(sum(&b, "the tally", "one"), 33);
        let news = News::Add { more: 1 };
        assert!(block_on(b.send::<Balance>("another", news, "third")).unwrap());
        assert_eq!(sum(&b, "another", "two"), 8);
        while block_on(b.find::<Balance>("a tally by letter")).unwrap() == Found::Unknown {
            sim::sleep(SECOND);
        }
        // The end has names that the earlier release does not know.
        let told = a.outcome::<Tally>(Place::key("another").with_once("two"));
        let told = block_on(told).unwrap().map(drop).unwrap_err();
        assert!(matches!(told.cause, Cause::Unread { .. }), "{told}");
    });
}

/// Another type of the later release with the same earlier name.
#[derive(Serialize, Deserialize)]
struct Ledger;

#[fom(operation(Ledger, was = "Tally"), was = "Tallying")]
enum Entering {
    #[phase(start, sync, to(Entered))]
    Enter,
    #[phase(end)]
    Entered,
}

impl EnteringTransitions for Ledger {
    fn enter(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The node would have to guess whose a letter is. A type that has the name now has it alone.
#[test]
fn two_types_with_one_earlier_name_are_refused() {
    let builder = || Cluster::builder(MemoryEngine::new(), "c").slots(1);
    let both = builder().operation::<Balance>().operation::<Ledger>();
    let refused = block_on(both.join()).err().unwrap();
    assert!(
        matches!(&refused, ClusterError::AddedTwice(name) if name == "Tallying Tally"),
        "{refused}"
    );
    let own = builder().operation::<Balance>().operation::<Tally>();
    block_on(own.join()).unwrap();
}
