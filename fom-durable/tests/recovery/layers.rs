//! Layers in a journal: they come back in their phase, of the layer or of the inner operation, and survive releases of
//! both.

use fom_durable::{
    journal::MemoryJournal,
    prelude::*,
    testing::{Trial, crash_at_each_boundary},
};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited};

#[derive(Serialize, Deserialize)]
enum Go {
    Go,
}

#[derive(Serialize, Deserialize)]
struct Read {
    name: String,
    #[serde(skip)]
    file: Option<&'static str>,
}

#[fom(operation(Read), event(Go))]
enum Reading {
    #[phase(start, to(Wait))]
    Look,
    #[phase(sync, on(Go), to(Found))]
    Wait { tries: u32 },
    #[phase(end)]
    Found { text: String },
}

#[derive(Serialize, Deserialize)]
struct Scan {
    name: String,
}

#[fom(operation(Scan), event(Go))]
enum Scanning {
    #[phase(start, to(Wait))]
    Look,
    #[phase(sync, on(Go), to(Found))]
    Wait { tries: u32 },
    #[phase(end)]
    Found { text: String },
}

impl ReadingTransitions for Read {
    async fn look(&mut self, cx: &mut Cx<'_, Go>) -> Result<ReadingAfterLook, BoxError> {
        cx.resource::<Log>()
            .put(format_args!("look {:?}", self.file));
        Ok(ReadingAfterLook::Wait { tries: 3 })
    }

    fn wait(
        &mut self,
        cx: &mut Cx<'_, Go>,
        tries: &mut u32,
        _: Go,
    ) -> Result<ReadingAfterWait, BoxError> {
        cx.resource::<Log>().put(format_args!("go {:?}", self.file));
        let text = format!("{} {tries}", self.name);
        Ok(ReadingAfterWait::Found { text })
    }

    fn resume(&mut self, cx: &mut Cx<'_, Go>, phase: &mut Reading) -> Result<(), BoxError> {
        let kind = Read::kind(phase);
        cx.resource::<Log>()
            .put(format_args!("read again in {kind:?}"));
        self.file = Some("open");
        Ok(())
    }
}

impl ScanningTransitions for Scan {
    async fn look(&mut self, cx: &mut Cx<'_, Go>) -> Result<ScanningAfterLook, BoxError> {
        cx.resource::<Log>().put("scan");
        Ok(ScanningAfterLook::Wait { tries: 1 })
    }

    fn wait(
        &mut self,
        cx: &mut Cx<'_, Go>,
        _: &mut u32,
        _: Go,
    ) -> Result<ScanningAfterWait, BoxError> {
        cx.resource::<Log>().put("scanned");
        let text = self.name.clone();
        Ok(ScanningAfterWait::Found { text })
    }
}

#[derive(Serialize, Deserialize)]
struct Guarded<R> {
    token: String,
    request: R,
}

#[fom(operation(Guarded<R>), around(R))]
enum Standard<R: Persistent> {
    #[phase(start, to(Serve), sync)]
    Authenticate,
    #[phase(inner(request), to(Reply))]
    Serve { phase: R::Phase },
    #[phase(to(Done))]
    Reply { end: String },
    #[phase(end)]
    Done,
}

impl<R: Persistent> StandardTransitions<R> for Guarded<R> {
    fn authenticate(&mut self, cx: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("authenticate");
        Ok(())
    }

    async fn serve(
        &mut self,
        cx: &mut Cx<'_, R::Event>,
        phase: &mut R::Phase,
    ) -> Result<StandardAfterServe, BoxError> {
        cx.resource::<Log>().put("served");
        let end = format!("{:?}", R::kind(phase));
        Ok(StandardAfterServe::Reply { end })
    }

    async fn reply(&mut self, cx: &mut Cx<'_, R::Event>, end: &mut String) -> Result<(), BoxError> {
        cx.resource::<Log>().put(format_args!("reply {end}"));
        Ok(())
    }

    fn resume(
        &mut self,
        cx: &mut Cx<'_, R::Event>,
        phase: &mut Standard<R>,
    ) -> Result<(), BoxError> {
        let kind = Self::kind(phase);
        cx.resource::<Log>().put(format_args!("again in {kind:?}"));
        Ok(())
    }
}

fn read(name: &str) -> Guarded<Read> {
    Guarded {
        token: "ada".into(),
        request: Read {
            name: name.into(),
            file: None,
        },
    }
}

fn scan(name: &str) -> Guarded<Scan> {
    Guarded {
        token: "ada".into(),
        request: Scan { name: name.into() },
    }
}

/// A runtime with a journal that knows both; a generic operation must be named.
fn runtime(journal: &MemoryJournal, log: &Log) -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(log.clone())
        .operation::<Guarded<Read>>()
        .operation::<Guarded<Scan>>()
        .journal_with(journal.clone())
        .build()
        .unwrap()
}

/// SM-11, PR-04: two operations under one layer are in one journal, and each comes back in its inner phase. What cannot
/// be saved is made again, by the layer and by the inner operation.
#[test]
fn a_layer_comes_back_in_a_phase_of_what_is_inside() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let runtime = runtime(&journal, &log);
            let _read = runtime.submit(read("sky")).key("read").start().unwrap();
            let _scan = runtime.submit(scan("sea")).key("scan").start().unwrap();
            runtime.quiet().await;
        }
        assert_eq!(log.take().len(), 4);
        let runtime = runtime(&journal, &log);
        runtime.quiet().await;
        let mut again = log.take();
        again.sort();
        assert_eq!(
            again,
            [
                "again in Inner(Wait)",
                "again in Inner(Wait)",
                "read again in Wait"
            ]
        );
        let phases: Vec<_> = runtime
            .operations()
            .foms
            .iter()
            .map(|fom| fom.phase)
            .collect();
        assert_eq!(phases, ["Serve.Wait", "Serve.Wait"]);
        runtime
            .find::<Guarded<Read>>("read")
            .unwrap()
            .send(Go::Go)
            .unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["go Some(\"open\")", "served", "reply Found"]);
        runtime
            .find::<Guarded<Scan>>("scan")
            .unwrap()
            .send(Go::Go)
            .unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["scanned", "served", "reply Found"]);
    });
}

/// SM-11, PR-04: in a phase of the layer, the inner operation is made again if it is still to come, and only then.
#[test]
fn what_is_still_to_come_is_made_again() {
    limited(|| async {
        let log = Log::default();
        let runtime = runtime(&MemoryJournal::new(), &log);
        let before = read("sky").snapshot(&Standard::Authenticate).unwrap();
        let _before = runtime
            .resume::<Guarded<Read>>(&before)
            .unwrap()
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            [
                "again in Own(Authenticate)",
                "read again in Look",
                "authenticate",
                "look Some(\"open\")"
            ]
        );
        let end = "Found".to_owned();
        let after = read("sky").snapshot(&Standard::Reply { end }).unwrap();
        let _after = runtime
            .resume::<Guarded<Read>>(&after)
            .unwrap()
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["again in Own(Reply)", "reply Found"]);
    });
}

/// SM-11, PR-04: a crash at any boundary, also between a phase of the layer and one inside, loses nothing.
#[test]
fn a_layer_survives_a_crash_at_each_boundary() {
    let tried = crash_at_each_boundary(|| {
        Trial::new(read("sky"))
            .runtime(|builder| {
                builder
                    .resource(Log::default())
                    .operation::<Guarded<Read>>()
            })
            .drive(|life| async move {
                // The event may have come already; it is sent once more after a restart, since the test cannot know.
                let _ = life.fom.send(Go::Go);
            })
            .compare(|end| end.phase.map(Guarded::<Read>::kind))
    });
    assert!(tried.crashes >= 5, "{tried:?}");
}
