//! Which visits have the same step key, and which do not.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    context::{Reply, StepKey},
    time::TestClock,
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

use crate::kit::{limited, millis, one};

/// The names that ran, with their keys.
#[derive(Clone, Default)]
struct Keys(Arc<Mutex<Vec<(&'static str, StepKey)>>>);

impl Keys {
    fn put(&self, who: &'static str, key: StepKey) {
        self.0.lock().unwrap().push((who, key));
    }

    /// Returns each name with the number of the first entry that had the same key.
    fn take(&self) -> Vec<(&'static str, usize)> {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        let first = |key| all.iter().position(|other| other.1 == key).unwrap();
        all.iter().map(|(who, key)| (*who, first(*key))).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct Round {
    rounds: u32,
}

#[derive(Serialize, Deserialize)]
enum Tick {
    Stay,
    Go,
}

#[fom(operation(Round), event(Tick))]
enum Going {
    #[phase(start, to(Hear), retry = "1, 10ms..10ms")]
    Try,
    #[phase(sync, on(Stay, Go), to(Try, Wait))]
    Hear,
    #[phase(to(Fail), within = "20ms", late)]
    Wait,
    #[phase(sync, to(Over), retry = "1, 10ms..10ms", exhausted)]
    Fail,
    #[phase(end)]
    Over,
}

impl GoingTransitions for Round {
    async fn r#try(&mut self, cx: &mut Cx<'_, Tick>) -> Result<(), BoxError> {
        cx.resource::<Keys>().put("try", cx.step_key());
        match cx.attempt() {
            0 => Err("once more".into()),
            _ => Ok(()),
        }
    }

    fn hear(&mut self, cx: &mut Cx<'_, Tick>, tick: Tick) -> Result<GoingAfterHear, BoxError> {
        cx.resource::<Keys>().put("hear", cx.step_key());
        Ok(match tick {
            Tick::Stay => GoingAfterHear::Stay,
            Tick::Go if self.rounds == 0 => GoingAfterHear::Wait,
            Tick::Go => {
                self.rounds -= 1;
                GoingAfterHear::Try
            }
        })
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Tick>) -> Result<(), BoxError> {
        cx.resource::<Keys>().put("wait", cx.step_key());
        std::future::pending().await
    }

    async fn wait_late(&mut self, cx: &mut Cx<'_, Tick>) -> Result<(), BoxError> {
        cx.resource::<Keys>().put("late", cx.step_key());
        Ok(())
    }

    fn fail(&mut self, cx: &mut Cx<'_, Tick>) -> Result<(), BoxError> {
        cx.resource::<Keys>().put("fail", cx.step_key());
        Err("never".into())
    }

    fn fail_exhausted(&mut self, cx: &mut Cx<'_, Tick>) -> Result<(), BoxError> {
        cx.resource::<Keys>().put("exhausted", cx.step_key());
        Ok(())
    }
}

/// One key per visit: for all its attempts, its late and its exhausted function. Each event of a phase that stays is a
/// visit, and so is each time that a phase is entered again.
#[test]
fn a_visit_has_one_key_and_no_other_visit_has_it() {
    for journaled in [true, false] {
        limited(async move || {
            let (clock, keys) = (TestClock::new(), Keys::default());
            let builder = one(&clock).resource(keys.clone());
            let runtime = match journaled {
                true => builder.journal_with(MemoryJournal::new()).build(),
                false => builder.build(),
            }
            .unwrap();
            let going = runtime.submit(Round { rounds: 1 }).start().unwrap();
            for tick in [Tick::Stay, Tick::Go, Tick::Go] {
                going.send(tick).unwrap();
            }
            for _ in 0..5 {
                runtime.quiet().await;
                clock.advance(millis(20));
            }
            going.await.unwrap();
            let expected = [
                ("try", 0),
                ("try", 0),
                ("hear", 2),
                ("hear", 3),
                ("try", 4),
                ("try", 4),
                ("hear", 6),
                ("wait", 7),
                ("late", 7),
                ("fail", 9),
                ("fail", 9),
                ("exhausted", 9),
            ];
            assert_eq!(keys.take(), expected, "journal: {journaled}");
        });
    }
}

#[derive(Serialize, Deserialize)]
struct Query;

#[fom(operation(Query))]
enum Asking {
    #[phase(start, to(Told), retry = "1, 10ms..10ms")]
    Call,
    #[phase(end)]
    Told,
}

/// Answers at once, and notes the key.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<Option<StepKey>>>>);

impl Bank {
    fn answer(&self, reply: Reply<()>) {
        self.0.lock().unwrap().push(reply.step_key());
        let _ = reply.send(());
    }
}

impl AskingTransitions for Query {
    async fn call(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let key = cx.step_key();
        assert_eq!(key.part(0), key);
        cx.resource::<Keys>().put("call", key);
        cx.call(Bank::answer).await?;
        cx.call(Bank::answer).await?;
        match cx.attempt() {
            0 => Err("once more".into()),
            _ => Ok(()),
        }
    }
}

/// The requests of a visit have parts from 1 on, the same in the next attempt. For a fom in no journal they have none.
#[test]
fn requests_have_parts_of_the_key() {
    for journaled in [true, false] {
        limited(async move || {
            let (clock, keys, bank) = (TestClock::new(), Keys::default(), Bank::default());
            let builder = one(&clock).resource(keys.clone()).resource(bank.clone());
            let runtime = match journaled {
                true => builder.journal_with(MemoryJournal::new()).build(),
                false => builder.build(),
            }
            .unwrap();
            let asking = runtime.submit(Query).start().unwrap();
            runtime.quiet().await;
            clock.advance(millis(10));
            asking.await.unwrap();
            let key = keys.0.lock().unwrap()[0].1;
            let part = |number| journaled.then(|| key.part(number));
            let expected = [part(1), part(2), part(1), part(2)];
            assert_eq!(*bank.0.lock().unwrap(), expected);
            assert_ne!(key.part(1), key.part(2));
        });
    }
}
