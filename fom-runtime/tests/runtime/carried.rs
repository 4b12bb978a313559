//! What foms carry: made at the submission from the submitter's, and read by the fom and by listeners.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use fom_runtime::{
    Builder,
    error::BuildError,
    observe::{Filter, MatchingFom},
    prelude::*,
    submission::Placement,
    time::TestClock,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, many, one, secs};

/// One more than that of the submitter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Depth(u32);

/// The same as that of the submitter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tenant(String);

fn tenant(name: &str) -> Tenant {
    Tenant(name.into())
}

fn carrying(builder: Builder) -> Builder {
    builder
        .carry("depth", |from: Option<&Depth>| {
            Depth(from.map_or(0, |from| from.0 + 1))
        })
        .carry("tenant", |from: Option<&Tenant>| {
            from.cloned().unwrap_or_default()
        })
}

/// An operation that starts others, and ends after them.
#[derive(Clone, Debug, Default)]
struct Branch {
    depth: u32,
    /// How each of them is started, and what it is.
    starts: Vec<(Way, Branch)>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Here,
    Elsewhere,
    Keyed(u64),
    Blocking,
}

#[fom(operation(Branch), transient)]
enum Growing {
    #[phase(start, to(Rest))]
    Start,
    #[phase(blocking, to(Grown))]
    Rest,
    #[phase(end)]
    Grown,
}

fn check(depth: Option<Arc<Depth>>, tenant: Option<Arc<Tenant>>, expected: u32) {
    assert_eq!(depth.as_deref(), Some(&Depth(expected)));
    assert_eq!(tenant.unwrap().0, "acme");
}

impl GrowingTransitions for Branch {
    async fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        check(cx.carried(), cx.carried(), self.depth);
        let mut blocking = Vec::new();
        for (way, branch) in std::mem::take(&mut self.starts) {
            let new = cx.submit(branch.clone());
            match way {
                Way::Here => new.await?,
                Way::Elsewhere => new.place(Placement::RoundRobin).await?,
                Way::Keyed(key) => new.key(key).queue().start()?.await?,
                Way::Blocking => {
                    blocking.push((way, branch));
                    continue;
                }
            };
            // After a wait, it is still this fom's.
            check(cx.carried(), cx.carried(), self.depth);
        }
        self.starts = blocking;
        Ok(())
    }

    fn rest(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        check(cx.carried(), cx.carried(), self.depth);
        for (_, branch) in std::mem::take(&mut self.starts) {
            cx.submit(branch).start()?.wait()?;
        }
        Ok(())
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Here),
        Just(Way::Elsewhere),
        // No two of one chain: a child would wait for its parent.
        Just(Way::Keyed(0)),
        Just(Way::Blocking),
    ]
}

/// Numbers the depths and the keys.
fn numbered(branch: &mut Branch, depth: u32, keys: &AtomicU32) {
    branch.depth = depth;
    for (way, branch) in &mut branch.starts {
        if let Way::Keyed(key) = way {
            *key = keys.fetch_add(1, Ordering::Relaxed).into();
        }
        numbered(branch, depth + 1, keys);
    }
}

fn tree() -> impl Strategy<Value = Branch> {
    Just(Branch::default()).prop_recursive(4, 24, 4, |inner| {
        let starts = prop::collection::vec((way(), inner), 0..4);
        starts.prop_map(|starts| Branch { depth: 0, starts })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// SM-20
    #[test]
    fn each_operation_inherits_from_the_fom_that_starts_it(mut tree in tree()) {
        numbered(&mut tree, 0, &AtomicU32::new(1));
        limited(move || async move {
            let runtime = carrying(many(2, &TestClock::new())).build().unwrap();
            let grown = runtime.submit(tree).carrying(tenant("acme")).carrying(Depth(0));
            grown.await.unwrap();
        });
    }
}

/// Tells what it carries, and fails or waits.
struct Task(&'static str);

enum Word {
    Go,
}

#[fom(operation(Task), event(Word), transient)]
enum Doing {
    #[phase(start, sync, to(Hear), retry = "1, 5s..5s")]
    Tell,
    #[phase(to(Done), on(Go))]
    Hear,
    #[phase(end)]
    Done,
}

impl DoingTransitions for Task {
    fn tell(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let (tenant, depth) = (cx.carried::<Tenant>(), cx.carried::<Depth>());
        cx.resource::<Log>().put(format!("{tenant:?} {depth:?}"));
        match self.0 {
            "fail" => Err("no luck".into()),
            _ => Ok(()),
        }
    }

    async fn hear(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }
}

#[test]
fn a_submission_says_what_its_fom_carries() {
    limited(|| async {
        let log = Log::default();
        let runtime = carrying(one(&TestClock::new())).resource(log.clone());
        let runtime = runtime.build().unwrap();
        let _first = runtime.submit(Task("wait")).start().unwrap();
        // The last value of a type counts.
        let second = runtime.submit(Task("wait")).carrying(tenant("b"));
        let _second = second.carrying(tenant("acme")).start().unwrap();
        runtime.quiet().await;
        let expected = [
            "Some(Tenant(\"\")) Some(Depth(0))",
            "Some(Tenant(\"acme\")) Some(Depth(0))",
        ];
        assert_eq!(log.lines(), expected);
    });
}

#[test]
fn listeners_read_what_a_fom_carries() {
    limited(|| async {
        let (clock, log) = (TestClock::new(), Log::default());
        let (told, failed) = (log.clone(), log.clone());
        let runtime = carrying(one(&clock)).resource(Log::default());
        let runtime = runtime
            .listen(move |transition| {
                let tenant = transition.carried::<Tenant>().unwrap();
                told.put(format!(
                    "{} {}",
                    transition.to().unwrap_or("failed"),
                    tenant.0
                ));
            })
            .listen_to_failures(move |attempt| {
                failed.put(format!(
                    "attempt {}",
                    attempt.carried::<Tenant>().unwrap().0
                ));
            });
        let runtime = runtime.build().unwrap();
        let fails = runtime.submit(Task("fail")).carrying(tenant("acme"));
        let fails = fails.start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(5));
        fails.await.unwrap_err();
        let expected = ["Tell acme", "attempt acme", "attempt acme", "failed acme"];
        assert_eq!(log.lines(), expected);
    });
}

/// A walk over the foms reads what they carry, and chooses by that.
#[test]
fn a_walk_chooses_foms_by_what_they_carry() {
    limited(|| async {
        let runtime = carrying(one(&TestClock::new())).resource(Log::default());
        let runtime = runtime.build().unwrap();
        let _other = runtime.submit(Task("wait")).start().unwrap();
        let acme = runtime.submit(Task("wait")).carrying(tenant("acme"));
        let acme = acme.start().unwrap();
        runtime.quiet().await;
        let is_of_acme = |fom: &MatchingFom| fom.carried().as_deref() == Some(&tenant("acme"));
        let found = runtime.inspect().matching(&Filter::default(), is_of_acme);
        assert_eq!(
            found.iter().map(MatchingFom::id).collect::<Vec<_>>(),
            [acme.id()]
        );
        assert!(found[0].carried::<String>().is_none());
    });
}

#[test]
fn a_runtime_that_carries_nothing_has_no_value() {
    limited(|| async {
        let log = Log::default();
        let runtime = one(&TestClock::new())
            .resource(log.clone())
            .build()
            .unwrap();
        let _task = runtime.submit(Task("wait")).start().unwrap();
        runtime.quiet().await;
        assert_eq!(log.lines(), ["None None"]);
    });
}

#[test]
#[should_panic = "the foms carry no value of type `runtime::carried::Tenant`; add it with `Builder::carry`"]
fn a_value_that_no_fom_carries_is_not_lost() {
    let runtime = one(&TestClock::new()).build().unwrap();
    let _ = runtime.submit(Task("wait")).carrying(tenant("acme"));
}

#[test]
fn two_types_have_two_names() {
    let builder = carrying(one(&TestClock::new()));
    let same = builder.carry("depth", |_: Option<&u32>| 0);
    let refused = same.build().unwrap_err();
    assert!(matches!(refused, BuildError::SameName { name: "depth" }));
    let text = "two carried types have the name `depth`; give each a name of its own";
    assert_eq!(refused.to_string(), text);
}

/// The second call for a type replaces the first.
#[test]
fn a_type_has_one_maker() {
    limited(|| async {
        let log = Log::default();
        let runtime = carrying(one(&TestClock::new())).resource(log.clone());
        let runtime = runtime.carry("depth", |_: Option<&Depth>| Depth(7));
        let runtime = runtime.build().unwrap();
        let _task = runtime.submit(Task("wait")).start().unwrap();
        runtime.quiet().await;
        assert_eq!(log.lines(), ["Some(Tenant(\"\")) Some(Depth(7))"]);
    });
}

/// A panic of the program's code leaves nothing behind.
#[test]
fn a_maker_that_panics_submits_nothing() {
    limited(|| async {
        let runtime = one(&TestClock::new()).resource(Log::default());
        let runtime = runtime.capacity(1).carry("depth", |from: Option<&Depth>| {
            from.copied().expect("a depth")
        });
        let runtime = runtime.build().unwrap();
        for _ in 0..3 {
            let submit = || runtime.submit(Task("wait")).start().map(drop);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(submit));
            assert!(panicked.is_err());
        }
        assert_eq!(runtime.in_flight(), 0);
        let given = runtime.submit(Task("wait")).carrying(Depth(1));
        let task = given.start().unwrap();
        task.send(Word::Go).unwrap();
        task.await.unwrap();
    });
}
