//! Events and submissions between operations that are kept and operations that are not: `durability = "none"`.

use fom_durable::{journal::Journal, prelude::*};
use fom_runtime::{error::BoxError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::held::Held;
use crate::kit::{self, limited, one};

/// Is not kept.
#[derive(Serialize, Deserialize)]
struct Probe;

#[derive(Debug, Serialize, Deserialize)]
enum Go {
    On,
}

#[fom(operation(Probe), durability = "none")]
enum Probing {
    #[phase(start, sync, to(Over))]
    Look,
    #[phase(end)]
    Over,
}

impl ProbingTransitions for Probe {
    fn look(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().submit(Alarm).key("alarm").post()?;
        cx.outbox().send::<Log>("log", Word::Seen)?;
        Ok(())
    }
}

/// Is kept.
#[derive(Serialize, Deserialize)]
struct Alarm;

#[fom(operation(Alarm), event(Go))]
enum Ringing {
    #[phase(start, sync, to(Quiet), on(On))]
    Ring,
    #[phase(end)]
    Quiet,
}

impl RingingTransitions for Alarm {
    fn ring(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<RingingAfterRing, BoxError> {
        Ok(RingingAfterRing::Quiet)
    }
}

/// Is kept, too.
#[derive(Serialize, Deserialize)]
struct Log {
    seen: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Seen,
    Read,
}

#[fom(operation(Log), event(Word))]
enum Logging {
    #[phase(start, sync, to(Told), on(Seen, Read))]
    Write,
    #[phase(end)]
    Told,
}

impl LoggingTransitions for Log {
    fn write(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<LoggingAfterWrite, BoxError> {
        match word {
            Word::Seen => {
                self.seen += 1;
                Ok(LoggingAfterWrite::Stay)
            }
            Word::Read => Ok(LoggingAfterWrite::Told),
        }
    }
}

fn build(journal: impl Journal) -> Runtime {
    let builder = one(&TestClock::new());
    builder.journal_with(journal).build().unwrap()
}

/// An operation started by a fom that is not kept is committed before it begins, as if it had been submitted. An event
/// is in memory until it is taken; the resulting transition is kept.
#[test]
fn what_is_not_kept_sends_as_anybody_outside_does() {
    limited(|| async {
        let journal = Held::default();
        let runtime = build(journal.clone());
        let log = runtime.submit(Log { seen: 0 }).key("log");
        let log = log.start().unwrap();
        log.reached([LoggingKind::Write]).await;
        let asked = journal.asked();
        journal.hold_commits(true);
        // Its step needs no commit.
        runtime.submit(Probe).await.unwrap();
        journal.wait_for_asked(asked + 1);
        let alarm = runtime.find::<Alarm>("alarm").unwrap();
        let mut rings = std::pin::pin!(alarm.reached([RingingKind::Ring]).into_future());
        assert!(kit::poll_once(rings.as_mut()).await.is_pending());
        journal.hold_commits(false);
        rings.await;
        runtime.quiet().await;
        assert!(runtime.quarantine().list().is_empty());
        let runtime = build(journal.journal.fork());
        assert!(runtime.find::<Alarm>("alarm").is_some());
        let log = runtime.submit(Log { seen: 9 }).key("log").start();
        let log = log.unwrap_err();
        let log = log.live().unwrap();
        let told = log.reached([LoggingKind::Told]);
        log.send(Word::Read).unwrap();
        told.await;
    });
}
