//! Counts of the foms in flight, and pages of them.

use std::collections::BTreeMap;

use fom_runtime::{
    FomId,
    machine::{FomState, Retry},
    observe::{Cursor, Filter, Page, Sort, Survey},
    prelude::*,
    submission::Placement,
    time::TestClock,
};

use crate::kit::{limited, one, secs};

const PATIENT: Retry = Retry::new(9, secs(60 * 60), secs(60 * 60));

/// Waits for an event, sleeps, or fails for ever.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) &'static str);

#[fom(operation(Task), event(Heard), transient)]
pub(crate) enum Doing {
    #[phase(start, sync, to(Hearing, Sleeping, Failing))]
    Choosing,
    #[phase(to(Done), on(Go))]
    Hearing,
    #[phase(to(Done))]
    Sleeping,
    #[phase(to(Done), retry(PATIENT))]
    Failing,
    #[phase(end)]
    Done,
}

#[derive(Debug)]
pub(crate) enum Heard {
    Go,
}

impl DoingTransitions for Task {
    fn choosing(&mut self, _: &mut Cx<'_, Heard>) -> Result<DoingAfterChoosing, BoxError> {
        Ok(match self.0 {
            "hear" => DoingAfterChoosing::Hearing,
            "sleep" => DoingAfterChoosing::Sleeping,
            _ => DoingAfterChoosing::Failing,
        })
    }

    async fn hearing(&mut self, cx: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        let Heard::Go = cx.event().await;
        Ok(())
    }

    async fn sleeping(&mut self, cx: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        cx.sleep(secs(60 * 60 * 24)).await;
        Ok(())
    }

    async fn failing(&mut self, _: &mut Cx<'_, Heard>) -> Result<(), BoxError> {
        Err("no luck".into())
    }
}

fn runtime(clock: &TestClock) -> Runtime {
    one(clock).localities(2).build().unwrap()
}

/// Submits one task of each kind to each locality, at each of these seconds. Returns the ids.
async fn tasks(runtime: &Runtime, clock: &TestClock, rounds: u64) -> Vec<FomId> {
    let mut ids = Vec::new();
    for _ in 0..rounds {
        for locality in 0..2 {
            for kind in ["hear", "sleep", "fail"] {
                let task = runtime
                    .submit(Task(kind))
                    .key(format!("{kind}/{}", ids.len()))
                    .place(Placement::Locality(locality))
                    .start()
                    .unwrap();
                ids.push(task.id());
            }
        }
        runtime.quiet().await;
        clock.advance(secs(1));
    }
    ids
}

fn ids(survey: &Survey) -> Vec<FomId> {
    survey.page.iter().map(|fom| fom.id).collect()
}

/// The counts are those of the foms in flight, by type, phase, state and wait, with the oldest of each.
#[test]
fn counts_and_the_oldest() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let all = tasks(&runtime, &clock, 10).await;
        let found = runtime
            .inspect()
            .survey(&Filter::default(), &Page::default().oldest(3));
        assert_eq!((found.foms, found.page.len(), found.next), (60, 0, None));
        let groups = found.groups.iter();
        let groups: Vec<_> = groups
            .map(|group| {
                (
                    group.operation,
                    group.phase,
                    group.state,
                    group.wait,
                    group.foms,
                )
            })
            .collect();
        let waiting = FomState::Waiting;
        assert_eq!(
            groups,
            [
                ("Task", "Hearing", waiting, Some("event"), 20),
                ("Task", "Sleeping", waiting, Some("timer"), 20),
                ("Task", "Failing", waiting, Some("next attempt"), 20),
            ]
        );
        // The first three tasks that listen are those of both localities of the first round, and one of the second.
        let oldest = found.groups[0].oldest.iter();
        let oldest: Vec<_> = oldest.map(|one| (one.id, one.in_phase)).collect();
        assert_eq!(
            oldest,
            [(all[0], secs(10)), (all[3], secs(10)), (all[6], secs(9))]
        );
        // What ends is not counted.
        runtime
            .find::<Task>("hear/0")
            .unwrap()
            .send(Heard::Go)
            .unwrap();
        runtime.quiet().await;
        let found = runtime
            .inspect()
            .survey(&Filter::default(), &Page::default());
        assert_eq!((found.foms, found.groups[0].foms), (59, 19));
        assert!(found.groups.iter().all(|group| group.oldest.is_empty()));
    });
}

/// Each condition of a filter covers exactly the foms that a listing shows with it.
#[test]
fn filters() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        tasks(&runtime, &clock, 10).await;
        let listed = runtime.operations().foms;
        let any = Filter::default;
        type Is = fn(&fom_runtime::observe::FomInfo) -> bool;
        let cases: [(Filter, Is, usize); 12] = [
            (any().operation("Task"), |_| true, 60),
            (any().operation("Tas"), |_| false, 0),
            (any().phase("Failing"), |fom| fom.phase == "Failing", 20),
            (any().state(FomState::Ready), |_| false, 0),
            (any().state(FomState::Waiting), |_| true, 60),
            (any().waits_for("timer"), |fom| fom.phase == "Sleeping", 20),
            (
                any().key("fail/5"),
                |fom| fom.key == Some("fail/5".into()),
                1,
            ),
            (any().key_prefix("fail/"), |fom| fom.phase == "Failing", 20),
            (any().locality(1), |fom| fom.home.locality == 1, 30),
            (
                any().in_phase(secs(9)),
                |fom| fom.times.in_phase >= secs(9),
                12,
            ),
            (any().attempts(1), |fom| fom.past.attempt >= 1, 20),
            (
                any().phase("Hearing").locality(0).in_phase(secs(10)),
                |fom| {
                    fom.phase == "Hearing"
                        && fom.home.locality == 0
                        && fom.times.in_phase >= secs(10)
                },
                1,
            ),
        ];
        for (filter, is, count) in cases {
            let found = runtime
                .inspect()
                .survey(&filter, &Page::of(1000).sort(Sort::Id));
            let expected: Vec<_> = listed.iter().filter(|fom| is(fom)).collect();
            let expected: Vec<_> = expected.iter().map(|fom| fom.id).collect();
            assert_eq!(ids(&found), expected, "{filter:?}");
            assert_eq!((found.foms, expected.len()), (count, count), "{filter:?}");
        }
    });
}

/// The pages in each order have each fom once, also if foms come and go between them. A cursor survives as text.
#[test]
fn pages() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let all = tasks(&runtime, &clock, 10).await;
        for sort in [Sort::InPhase, Sort::Age, Sort::Id] {
            let mut page = Page::of(7).sort(sort);
            let mut seen = Vec::new();
            loop {
                let found = runtime.inspect().survey(&Filter::default(), &page);
                assert_eq!(found.foms, 60);
                seen.extend(ids(&found));
                let Some(next) = found.next else { break };
                assert_eq!(found.page.len(), 7);
                page = page.after(next.to_string().parse::<Cursor>().unwrap());
            }
            assert_eq!(seen, all, "{sort:?}");
        }
        // The last fom of a page ends, a new one comes: the next page goes on behind the place of the former.
        let first = runtime
            .inspect()
            .survey(&Filter::default(), &Page::of(7).sort(Sort::Id));
        assert!(runtime.abort(all[6]) && runtime.abort(all[8]));
        runtime.quiet().await;
        let page = Page::of(7).sort(Sort::Id).after(first.next.unwrap());
        let second = runtime.inspect().survey(&Filter::default(), &page);
        let expected: Vec<_> = [&all[7..8], &all[9..15]].concat();
        assert_eq!(ids(&second), expected);
        for text in ["", "7", "x.1", "1.x", "1.2.3"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    });
}

/// A fom that runs, and one that its locality has not admitted yet, are counted. The survey waits for neither.
#[test]
fn of_foms_that_run() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (tell, ran) = std::sync::mpsc::channel::<()>();
        let spins = runtime.submit(Spins(Some((tell, wait)))).start().unwrap();
        ran.recv().unwrap();
        let behind = runtime.submit(Task("sleep")).start().unwrap();
        let found = runtime
            .inspect()
            .survey(&Filter::default(), &Page::of(9).sort(Sort::Id));
        let states: BTreeMap<_, _> = found
            .groups
            .iter()
            .map(|group| (group.operation, (group.state, group.wait, group.foms)))
            .collect();
        assert_eq!(
            states,
            BTreeMap::from([
                ("Spins", (FomState::Running, None, 1)),
                ("Task", (FomState::Init, None, 1))
            ])
        );
        assert_eq!(ids(&found), [spins.id(), behind.id()]);
        go.send(()).unwrap();
        spins.await.unwrap();
        behind.abort();
    });
}

/// Keeps its locality until a test lets it go.
struct Spins(Option<(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>)>);

#[fom(operation(Spins), transient)]
enum Spinning {
    #[phase(start, sync, to(Spun))]
    Spin,
    #[phase(end)]
    Spun,
}

impl SpinningTransitions for Spins {
    fn spin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some((tell, wait)) = self.0.take() {
            tell.send(())?;
            wait.recv()?;
        }
        Ok(())
    }
}

#[test]
fn the_foms_of_a_filter_are_cancelled_and_the_others_stay() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let ids = tasks(&runtime, &clock, 2).await;
        let hearing = Filter::default().phase("Hearing");
        let all = runtime.inspect().matching(&hearing, |_| true);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|fom| fom.info().phase == "Hearing"));
        let spared = all[0].id();
        for fom in runtime
            .inspect()
            .matching(&hearing, |fom| fom.id() != spared)
        {
            fom.cancel();
        }
        runtime.quiet().await;
        let left = runtime.inspect().survey(&hearing, &Page::of(10));
        assert_eq!(
            left.page.iter().map(|fom| fom.id).collect::<Vec<_>>(),
            [spared]
        );
        assert_eq!(runtime.in_flight(), ids.len() - 3);
    });
}

/// A filter by the time since the submission, and the fullest mailboxes first.
#[test]
fn foms_by_their_age_and_by_their_mailboxes() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let start = || runtime.submit(Task("sleep")).start().unwrap();
        let old = start();
        runtime.quiet().await;
        clock.advance(secs(10));
        let young = start();
        runtime.quiet().await;
        let found = runtime
            .inspect()
            .survey(&Filter::default().age(secs(5)), &Page::of(9));
        let ids = |found: &Survey| found.page.iter().map(|fom| fom.id).collect::<Vec<_>>();
        assert_eq!((found.foms, ids(&found)), (1, vec![old.id()]));
        // A fom that sleeps keeps its events.
        for _ in 0..3 {
            young.send(Heard::Go).unwrap();
        }
        let page = Page::of(9).sort(Sort::Events);
        let found = runtime.inspect().survey(&Filter::default(), &page);
        assert_eq!(ids(&found), [young.id(), old.id()]);
        assert_eq!(found.page[0].events, 3);
    });
}
