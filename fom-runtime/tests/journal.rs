//! What survives: transitions are committed before anybody hears of them, and foms come back.

use std::sync::{Arc, Mutex};

use fom_runtime::{BoxError, journal::MemoryJournal, prelude::*};
use serde::{Deserialize, Serialize};

/// What the operations of one test did, outside of them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[derive(Serialize, Deserialize)]
struct Call {
    from: String,
    seen: Vec<String>,
}

#[derive(Debug)]
enum CallEvent {
    Answer(u32),
    Bye,
}

#[fom(operation(Call), event(CallEvent))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(sync, to(Established), on(Answer), within = "32s")]
    Ring { tries: u32 },
    #[phase(sync, to(Closed), on(Bye))]
    Established { session: u32 },
    #[phase(end)]
    Closed { by: String },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, cx: &mut Cx<'_, CallEvent>) -> Result<RouteAfterLocate, BoxError> {
        cx.resource::<Log>().add(format!("locate {}", cx.attempt()));
        self.seen.push("locate".into());
        Ok(RouteAfterLocate::Ring { tries: 7 })
    }
    fn ring(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        tries: &mut u32,
        event: CallEvent,
    ) -> Result<RouteAfterRing, BoxError> {
        let CallEvent::Answer(session) = event else {
            return Ok(RouteAfterRing::Stay);
        };
        cx.resource::<Log>().add("ring");
        self.seen.push(format!("ring {tries}"));
        if session == 0 {
            *tries += 1;
            return Ok(RouteAfterRing::Stay);
        }
        Ok(RouteAfterRing::Established { session })
    }
    fn established(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        session: &mut u32,
        _: CallEvent,
    ) -> Result<RouteAfterEstablished, BoxError> {
        cx.resource::<Log>().add("bye");
        Ok(RouteAfterEstablished::Closed {
            by: format!("{} {session}", self.from),
        })
    }
}

fn runtime(journal: &MemoryJournal, log: &Log) -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(log.clone())
        .journal_with(journal.clone())
        .operation::<Call>()
        .build()
        .unwrap()
}

#[test]
fn a_fom_goes_on_from_its_last_committed_phase() {
    let (journal, log) = (MemoryJournal::new(), Log::default());
    {
        let runtime = runtime(&journal, &log);
        let handle = runtime
            .submit(Call {
                from: "ada".into(),
                seen: vec![],
            })
            .key("a")
            .start()
            .unwrap();
        handle.reached([RouteKind::Ring]).wait();
        handle.send(CallEvent::Answer(0)).unwrap();
        handle.send(CallEvent::Answer(5)).unwrap();
        handle.reached([RouteKind::Established]).wait();
    }
    assert_eq!(log.lines(), ["locate 0", "ring", "ring"]);
    let runtime = runtime(&journal, &log);
    let fom = runtime.find::<Call>("a").expect("it is back");
    assert_eq!(fom.phase(), "Established");
    fom.send(CallEvent::Bye).unwrap();
    fom.reached([RouteKind::Closed]).wait();
    assert_eq!(log.lines(), ["locate 0", "ring", "ring", "bye"]);
    drop(runtime);
    assert_eq!(journal.ids().len(), 1, "nothing is left but the head");
}
