//! What a phase sends through its outbox, beside what it sends directly.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Runtime, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::gate::Gated;
use crate::kit::{Log, limited, millis, one};

/// Sends its words to the fom with the key, over two phases.
#[derive(Serialize, Deserialize)]
struct Talker {
    name: String,
    to: String,
}

#[fom(operation(Talker))]
enum Speaking {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(to(Silent))]
    Second,
    #[phase(end)]
    Silent,
}

impl Talker {
    fn say(&self, cx: &Cx<'_>, number: u32) -> Result<(), BoxError> {
        let word = Word::Said(self.name.clone(), number);
        Ok(cx.outbox().send::<Hearer>(self.to.clone(), word)?)
    }
}

impl SpeakingTransitions for Talker {
    fn first(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx, 1)?;
        self.say(cx, 2)
    }

    async fn second(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx, 3)
    }
}

/// Takes no word before it is opened.
#[derive(Serialize, Deserialize)]
struct Hearer;

#[derive(Serialize, Deserialize)]
enum Word {
    Open,
    Said(String, u32),
}

#[fom(operation(Hearer), event(Word))]
enum Hearing {
    #[phase(start, sync, on(Open), to(Opened))]
    Shut,
    #[allow(dead_code)]
    #[phase(sync, on(Said), to(Gone))]
    Opened,
    #[phase(end)]
    Gone,
}

impl HearingTransitions for Hearer {
    fn shut(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearingAfterShut, BoxError> {
        Ok(HearingAfterShut::Opened)
    }

    fn opened(
        &mut self,
        cx: &mut Cx<'_, Word>,
        word: Word,
    ) -> Result<HearingAfterOpened, BoxError> {
        if let Word::Said(name, number) = word {
            cx.resource::<Log>().put(format!("{name}{number}"));
        }
        Ok(HearingAfterOpened::Stay)
    }
}

fn speaker(name: &str, to: &str) -> Talker {
    Talker {
        name: name.into(),
        to: to.into(),
    }
}

fn runtime(journal: &MemoryJournal, log: &Log) -> Runtime {
    one(&TestClock::new())
        .journal_with(journal.clone())
        .resource(log.clone())
        .build()
        .unwrap()
}

/// Events of one sender to one receiver come in order, also when they lay in the journal over a restart.
#[test]
fn events_of_one_sender_keep_their_order() {
    for restart in [false, true] {
        limited(async move || {
            let (journal, log) = (MemoryJournal::new(), Log::default());
            let mut running = runtime(&journal, &log);
            running.submit(Hearer).key("ear").detach().unwrap();
            for name in ["a", "b"] {
                running.submit(speaker(name, "ear")).await.unwrap();
            }
            if restart {
                running.quiet().await;
                drop(running);
                running = runtime(&journal, &log);
            }
            let ear = running.find::<Hearer>("ear").unwrap();
            ear.send(Word::Open).unwrap();
            running.quiet().await;
            for name in ["a", "b"] {
                let heard = log.lines().into_iter();
                let heard: Vec<_> = heard.filter(|line| line.starts_with(name)).collect();
                let expected: Vec<_> = (1..=3).map(|number| format!("{name}{number}")).collect();
                assert_eq!(heard, expected, "restart: {restart}");
            }
        });
    }
}

/// An event that was sent directly is only in memory.
#[test]
fn an_event_that_came_directly_is_not_kept() {
    limited(async || {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let running = runtime(&journal, &log);
        let ear = running.submit(Hearer).key("ear").start().unwrap();
        ear.send(Word::Said("direct".into(), 1)).unwrap();
        running.submit(speaker("kept", "ear")).await.unwrap();
        running.quiet().await;
        drop(running);
        let running = runtime(&journal, &log);
        let ear = running.find::<Hearer>("ear").unwrap();
        ear.send(Word::Open).unwrap();
        running.quiet().await;
        assert_eq!(log.lines(), ["kept1", "kept2", "kept3"]);
    });
}

/// Submits in both ways, and fails the first time.
#[derive(Serialize, Deserialize)]
struct Twice;

#[fom(operation(Twice))]
enum Trying {
    #[phase(start, to(Done), retry = "1, 10ms..10ms")]
    Try,
    #[phase(end)]
    Done,
}

impl TryingTransitions for Twice {
    async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.submit(Child("direct".into())).detach()?;
        cx.outbox().submit(Child("posted".into())).post()?;
        match cx.attempt() {
            0 => Err("once more".into()),
            _ => Ok(()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Child(String);

#[fom(operation(Child), durability = "none")]
enum Growing {
    #[phase(start, sync, to(Grown))]
    Grow,
    #[phase(end)]
    Grown,
}

impl GrowingTransitions for Child {
    fn grow(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put(&self.0);
        Ok(())
    }
}

/// A direct submission happens at once, and again when the function runs again.
#[test]
fn a_direct_submission_is_no_outbox() {
    limited(async || {
        let (clock, log) = (TestClock::new(), Log::default());
        let builder = one(&clock).resource(log.clone());
        let running = builder.journal_with(MemoryJournal::new()).build().unwrap();
        let trying = running.submit(Twice).start().unwrap();
        running.quiet().await;
        assert_eq!(log.lines(), ["direct"]);
        clock.advance(millis(10));
        trying.await.unwrap();
        running.quiet().await;
        assert_eq!(log.lines(), ["direct", "direct", "posted"]);
    });
}

/// Starts a child, and is lazy.
#[derive(Serialize, Deserialize)]
struct Lazy;

#[fom(operation(Lazy), durability = "lazy")]
enum Lying {
    #[phase(start, sync, to(There))]
    Lie,
    #[phase(end)]
    There,
}

impl LyingTransitions for Lazy {
    fn lie(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().submit(Child("posted".into())).post()?;
        Ok(())
    }
}

/// The outbox of a lazy operation does not wait for the disk.
#[test]
fn what_is_lazy_sends_at_once() {
    limited(async || {
        let (journal, log) = (Gated::default(), Log::default());
        let builder = one(&TestClock::new()).resource(log.clone());
        let running = builder.journal_with(journal.clone()).build().unwrap();
        running.submit(Lazy).await.unwrap();
        while log.lines().is_empty() {
            running.call(0, |_| ()).await.unwrap();
        }
        assert_eq!(log.lines(), ["posted"]);
        journal.open(true);
    });
}

/// Put into a drawer.
#[derive(Serialize, Deserialize)]
enum Thing {
    Pen,
}

/// Has a type parameter, and takes events all the same.
#[derive(Serialize, Deserialize)]
struct Drawer<T> {
    of: T,
}

#[fom(operation(Drawer<T>), event(Thing))]
enum Filling<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> {
    #[phase(start, sync, on(Pen), to(Full))]
    Empty,
    #[phase(end)]
    Full { of: Option<T> },
}

impl<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> FillingTransitions<T> for Drawer<T> {
    fn empty(&mut self, _: &mut Cx<'_, Thing>, _: Thing) -> Result<FillingAfterEmpty<T>, BoxError> {
        Ok(FillingAfterEmpty::Full { of: None })
    }
}

/// Sends to the drawer.
#[derive(Serialize, Deserialize)]
struct Filler;

#[fom(operation(Filler))]
enum Sending {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl SendingTransitions for Filler {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(cx.outbox().send::<Drawer<u32>>("drawer", Thing::Pen)?)
    }
}

/// An event that could not be read after a restart is not taken before one.
#[test]
fn a_generic_operation_takes_nothing_through_an_outbox() {
    limited(async || {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let running = runtime(&journal, &log);
        let drawer = running.submit(Drawer { of: 1u32 }).key("drawer");
        let drawer = drawer.start().unwrap();
        let failure = running.submit(Filler).await.unwrap_err();
        let said = failure.to_string();
        assert!(
            said.contains("generic `Drawer") && said.contains("send it directly"),
            "{said}"
        );
        drawer.send(Thing::Pen).unwrap();
        drawer.await.unwrap();
    });
}
