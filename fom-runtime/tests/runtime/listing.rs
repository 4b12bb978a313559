//! What a caller can see of the foms in flight: listed, counted, found by id and by key, with their last phases.

use std::{future::pending, sync::mpsc};

use fom_runtime::{
    FomId,
    prelude::*,
    time::{Instant, TestClock},
};

use crate::kit::foms::{Chain, Oops, Walker, Word, walker};
use crate::kit::{Log, limited, one, secs};

/// FL-11: a ring keeps the last phases of a fom with their times, as many as set. It can be read while the fom hangs in
/// a phase.
#[test]
fn the_last_phases_of_a_fom_are_kept() {
    struct Hangs(mpsc::Receiver<()>);
    #[fom(operation(Hangs), error(Oops), transient)]
    enum Hanging {
        #[phase(start, to(One))]
        Zero,
        #[phase(to(Two))]
        One,
        #[phase(to(Three))]
        Two,
        #[phase(to(Done), blocking)]
        Three,
        #[phase(end)]
        Done,
    }
    impl HangingTransitions for Hangs {
        async fn zero(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        async fn one(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        async fn two(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            cx.sleep(secs(1)).await;
            Ok(())
        }
        fn three(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
            let _ = self.0.recv();
            Ok(())
        }
    }
    limited(|| async {
        for (kept, expected) in [
            (0, vec![]),
            (2, vec![("Two", secs(2)), ("Three", secs(3))]),
            (
                32,
                vec![
                    ("Zero", secs(0)),
                    ("One", secs(1)),
                    ("Two", secs(2)),
                    ("Three", secs(3)),
                ],
            ),
        ] {
            let clock = TestClock::new();
            let runtime = one(&clock).history(kept).build().unwrap();
            let (go, hangs) = mpsc::channel();
            let fom = runtime.submit(Hangs(hangs)).start().unwrap();
            for _ in 0..3 {
                runtime.quiet().await;
                clock.advance(secs(1));
            }
            fom.reached([HangingKind::Three]).await;
            let history = runtime.operation(fom.id()).unwrap().past.history;
            let history: Vec<_> = history
                .iter()
                .map(|seen| (seen.phase, seen.at - Instant::START))
                .collect();
            assert_eq!(history, expected);
            go.send(()).unwrap();
            fom.await.unwrap();
        }
    });
}

/// SV-10: foms in flight can be listed, counted, found by id and by key, and woken by id. Each operation type has
/// totals and times, on the runtime's clock.
#[test]
fn operations_are_listed_counted_and_found() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let foms: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                runtime
                    .submit(walker(&log, name))
                    .key(name)
                    .start()
                    .unwrap()
            })
            .into();
        runtime.quiet().await;
        let ids: Vec<FomId> = foms.iter().map(|fom| fom.id()).collect();
        let listed: Vec<_> = runtime.operations().foms.iter().map(|fom| fom.id).collect();
        assert_eq!(listed, ids, "in the order of submission");
        assert_eq!(runtime.in_flight(), 3);
        let found = runtime.operation(ids[1]).unwrap();
        assert_eq!(found.key.map(|key| key.to_string()), Some("b".into()));
        assert_eq!(runtime.find::<Walker>("b").unwrap().id(), ids[1]);
        assert!(
            runtime.find::<Chain>("b").is_none(),
            "keys belong to operation types"
        );
        assert!(runtime.wake(ids[1]));

        for (fom, (word, age)) in
            foms.iter()
                .zip([(Word::Stop, 2), (Word::Fail, 4), (Word::Stop, 4)])
        {
            let target = Instant::START + secs(age);
            clock.advance(target - runtime.now());
            runtime.quiet().await;
            fom.send(word).unwrap();
            runtime.quiet().await;
        }
        let totals = &runtime.operations().types[0];
        assert_eq!(totals.operation, "Walker");
        assert_eq!(
            (
                totals.started,
                totals.ended,
                totals.failed,
                totals.in_flight
            ),
            (3, 3, 1, 0)
        );
        assert_eq!((totals.mean, totals.longest), (secs(10) / 3, secs(4)));
        assert!(runtime.operation(ids[1]).is_none());
        assert!(!runtime.wake(ids[1]), "it is gone");
        assert!(runtime.find::<Walker>("b").is_none());
    });
}

/// OB-07: a listing shows every fom with phase, state, age and what it waits for, and stops no fom. This holds also
/// while one blocks, one runs without returning, and one is still queued behind it. Trap 13: running and blocked foms
/// are in the listing, and ages are by phase as well.
#[test]
fn the_listing_shows_every_fom_and_stops_none() {
    struct Stuck(&'static str, mpsc::Sender<()>, mpsc::Receiver<()>);
    struct Answers;
    #[fom(operation(Stuck), error(Oops), event(Word), transient)]
    enum Sticking {
        #[phase(start, to(Runs, Blocks, Sleeps, Hears, Asks, Awaits), sync)]
        Choose,
        #[phase(to(Done), sync)]
        Runs,
        #[phase(to(Done), blocking)]
        Blocks,
        #[phase(to(Done), within = "9s")]
        Sleeps,
        #[phase(to(Done), on(Go, Stop, Fail))]
        Hears,
        #[phase(to(Done))]
        Asks,
        #[phase(to(Done))]
        Awaits,
        #[phase(end)]
        Done,
    }
    impl Stuck {
        fn stick(&self) {
            self.1.send(()).unwrap();
            let _ = self.2.recv();
        }
    }
    impl StickingTransitions for Stuck {
        fn choose(&mut self, _: &mut Cx<'_, Word>) -> Result<StickingAfterChoose, Oops> {
            Ok(match self.0 {
                "runs" => StickingAfterChoose::Runs,
                "blocks" => StickingAfterChoose::Blocks,
                "sleeps" => StickingAfterChoose::Sleeps,
                "hears" => StickingAfterChoose::Hears,
                "asks" => StickingAfterChoose::Asks,
                _ => StickingAfterChoose::Awaits,
            })
        }
        fn runs(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
            self.stick();
            Ok(())
        }
        fn blocks(&mut self, _: &mut BlockingCx<'_>) -> Result<(), Oops> {
            self.stick();
            Ok(())
        }
        async fn sleeps(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            cx.sleep(secs(100)).await;
            Ok(())
        }
        async fn hears(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            cx.event().await;
            Ok(())
        }
        async fn asks(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), Oops> {
            // No answer ever comes.
            cx.call(|_: &Answers, reply: Reply<()>| std::mem::forget(reply))
                .await
                .map_err(|_| Oops)
        }
        async fn awaits(&mut self, _: &mut Cx<'_, Word>) -> Result<(), Oops> {
            pending().await
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).resource(Answers).build().unwrap();
        let mut unstick = Vec::new();
        let mut stuck = |what| {
            let (sticks, sticking) = mpsc::channel();
            let (go, gone) = mpsc::channel();
            unstick.push(go);
            let fom = runtime
                .submit(Stuck(what, sticks, gone))
                .key(what)
                .start()
                .unwrap();
            (fom, sticking)
        };
        let waiting = ["sleeps", "hears", "asks", "awaits"].map(&mut stuck);
        runtime.quiet().await;
        waiting[1].0.wake();
        waiting[0].0.wake();
        runtime.quiet().await;
        clock.advance(secs(1));
        let (blocks, sticking) = stuck("blocks");
        sticking.recv().unwrap();
        clock.advance(secs(1));
        let (runs, sticking) = stuck("runs");
        sticking.recv().unwrap();
        let (queued, _) = stuck("queued");
        clock.advance(secs(1));

        let all = runtime.operations();
        let shown: Vec<_> = all
            .foms
            .iter()
            .map(|fom| {
                let state = if fom.blocked {
                    "blocked".into()
                } else {
                    fom.state.to_string()
                };
                let waiting_for = fom.waiting_for().unwrap_or_default();
                let waiting_for = waiting_for.rsplit("::").next().unwrap().to_owned();
                (
                    fom.key.clone().unwrap().to_string(),
                    fom.phase,
                    state,
                    fom.times.in_phase.as_secs(),
                    fom.times.age.as_secs(),
                    waiting_for,
                )
            })
            .collect();
        let expected = [
            ("sleeps", "Sleeps", "waiting", 3, 3, "a timer"),
            (
                "hears",
                "Hears",
                "waiting",
                3,
                3,
                "an event: Go, Stop, Fail",
            ),
            ("asks", "Asks", "waiting", 3, 3, "Answers"),
            ("awaits", "Awaits", "waiting", 3, 3, "a future"),
            ("blocks", "Blocks", "blocked", 2, 2, "a blocking call"),
            ("runs", "Runs", "running", 1, 1, ""),
            ("queued", "Choose", "init", 1, 1, ""),
        ]
        .map(|(key, phase, state, in_phase, age, what)| {
            (
                key.to_owned(),
                phase,
                state.to_owned(),
                in_phase,
                age,
                what.to_owned(),
            )
        });
        assert_eq!(shown, expected);
        assert_eq!(all.foms[0].times.deadline_in, Some(secs(6)));
        let table = all.to_string();
        for (key, phase, state, ..) in &expected {
            let line = table
                .lines()
                .find(|line| line.contains(phase))
                .unwrap_or_else(|| panic!("{key} in {table}"));
            assert!(
                line.contains("Stuck") && line.contains(state.as_str()),
                "{line}"
            );
        }
        assert_eq!(all.localities[0].foms, 7);
        drop(unstick);
        for (fom, _) in waiting {
            fom.cancel();
            assert!(fom.await.is_err());
        }
        queued.cancel();
        assert!(queued.await.is_err());
        blocks.await.unwrap();
        runs.await.unwrap();
    });
}
