//! With the feature `tracing`, a warning is an event of the crate `tracing`. The subscriber is that of the whole process.
#![cfg(feature = "tracing")]

#[path = "../../fom-runtime/tests/kit/mod.rs"]
mod kit;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::mpsc::{Sender, channel},
};

use fom_runtime::{prelude::*, time::TestClock};
use fom_watch::{Watch, WatchExt};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use kit::{limited, one, secs};

type Fields = BTreeMap<&'static str, String>;

/// Sends each event on.
struct Events(Sender<(Level, Fields)>);

struct Reads(Fields);

impl Visit for Reads {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "fom_watch::event"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut reads = Reads(Fields::new());
        event.record(&mut reads);
        self.0.send((*event.metadata().level(), reads.0)).unwrap();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Debug)]
enum Word {
    Go,
}

struct Hears;

#[fom(operation(Hears), event(Word), transient)]
enum Hearing {
    #[phase(start, sync, on(Go), to(Done), hung = "1m")]
    Hear,
    #[phase(end)]
    Done,
}

impl HearingTransitions for Hears {
    fn hear(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearingAfterHear, BoxError> {
        Ok(HearingAfterHear::Done)
    }
}

#[test]
fn a_warning_is_an_event_for_each_level() {
    limited(|| async {
        let (tell, told) = channel();
        tracing::subscriber::set_global_default(Events(tell)).unwrap();
        let clock = TestClock::new();
        let runtime = one(&clock).watch(Watch::default()).build().unwrap();
        let hears = runtime.submit(Hears).start().unwrap();
        runtime.quiet().await;
        for (after, level, name) in [
            (61, Level::WARN, "warning"),
            (240, Level::ERROR, "severe"),
            (960, Level::ERROR, "critical"),
        ] {
            clock.advance(secs(after));
            let (at, fields) = told.recv().unwrap();
            assert_eq!(at, level);
            assert_eq!(fields["level"], name);
            assert_eq!(fields["kind"], "hung");
            assert_eq!(fields["operation"], "Hears");
            assert_eq!(fields["phase"], "Hear");
            assert_eq!(fields["ids"], hears.id().to_string());
            assert_eq!(fields["foms"], "1");
            assert!(fields["advice"].contains("sender"), "{fields:?}");
            assert!(fields["message"].contains("has been in Hear of Hears"));
        }
        hears.send(Word::Go).unwrap();
        hears.await.unwrap();
    });
}
