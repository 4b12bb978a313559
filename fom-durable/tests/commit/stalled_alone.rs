//! Stalled steps, when the journal works again. A step that the journal refuses for its own bytes holds up no other
//! step, and no fom sends anything before its earlier messages have come.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use fom_durable::{
    journal::{
        Batch, Change, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery,
    },
    prelude::*,
};
use fom_runtime::{error::SendError, snapshot::RestoreError, time::TestClock};
use serde::{Deserialize, Deserializer, Serialize};

use crate::kit::{limited, one, task::until};

/// A journal that takes nothing while it is full, and never takes an entry with these bytes.
#[derive(Clone, Default)]
struct Picky {
    journal: MemoryJournal,
    full: Arc<AtomicBool>,
    refused: Arc<Mutex<Option<&'static str>>>,
}

impl Picky {
    fn fill(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn refuse(&self, what: Option<&'static str>) {
        *self.refused.lock().unwrap() = what;
    }
}

fn has(batch: &Batch, what: &str) -> bool {
    let mut changes = batch.groups().flat_map(|group| group.changes());
    changes.any(|change| match change {
        Change::Put { bytes, .. } => bytes
            .windows(what.len())
            .any(|part| part == what.as_bytes()),
        Change::Delete { .. } => false,
    })
}

impl Journal for Picky {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let refused = self
            .refused
            .lock()
            .unwrap()
            .is_some_and(|it| has(batch, it));
        if refused {
            let (length, most) = (batch.bytes(), 0);
            return Err(JournalError::TooLong { length, most });
        }
        if self.full.load(Ordering::SeqCst) {
            let full = std::io::ErrorKind::StorageFull.into();
            return Err(JournalError::io("write", "nowhere", full));
        }
        self.journal.commit(batch)
    }
    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

#[derive(Serialize, Deserialize)]
struct Tour(String);

#[derive(Debug)]
enum Go {
    On,
}

#[fom(operation(Tour), event(Go))]
enum Travel {
    #[phase(sync, start, to(There), on(On))]
    Here,
    #[phase(sync, to(Home), on(On))]
    There,
    #[phase(end)]
    Home,
}

impl TravelTransitions for Tour {
    fn here(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterHere, BoxError> {
        Ok(TravelAfterHere::There)
    }
    fn there(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterThere, BoxError> {
        Ok(TravelAfterThere::Home)
    }
}

/// Seven steps stall, and two of them stay refused: the others go on, and the two as well once the journal takes them.
#[test]
fn one_that_is_refused_holds_up_no_other() {
    limited(|| async {
        let journal = Picky::default();
        let builder = one(&TestClock::new()).journal_with(journal.clone());
        let runtime = builder.build().unwrap();
        let names = ["a", "too long 1", "b", "c", "d", "too long 2", "e"];
        let start = |name: &&str| {
            let trip = runtime.submit(Tour((*name).into()));
            trip.key(*name).start().unwrap()
        };
        let trips: Vec<_> = names.iter().map(start).collect();
        runtime.quiet().await;
        journal.fill(true);
        for trip in &trips {
            trip.send(Go::On).unwrap();
        }
        for trip in trips {
            assert!(matches!(trip.await.unwrap_err().cause, Cause::Journal(_)));
        }
        journal.refuse(Some("too long"));
        journal.fill(false);
        until("two are in quarantine", || {
            runtime.quarantine().list().len() == 2
        });
        for name in names {
            let there = runtime.find::<Tour>(name).map(|trip| trip.phase());
            let refused = name.starts_with("too long");
            assert_eq!(there, (!refused).then_some("There"), "{name}");
        }
        // The listing gives the step's own reason, not the earlier failure of the journal.
        until("both have a reason of their own", || {
            let quarantined = runtime.quarantine().list();
            let mut reasons = quarantined.iter().map(|quarantined| &quarantined.reason);
            let says = |reason: &RestoreError| matches!(reason, RestoreError::NotCommitted(why) if why.contains("too long"));
            reasons.all(says)
        });
        journal.refuse(None);
        until("nothing is in quarantine", || {
            runtime.quarantine().list().is_empty()
        });
        for name in names {
            let trip = runtime.find::<Tour>(name).unwrap();
            let home = trip.reached([TravelKind::Home]);
            trip.send(Go::On).unwrap();
            home.await;
        }
    });
}

/// Sends a word when it is told to, and another as soon as it goes on after that.
#[derive(Serialize, Deserialize)]
struct Tell;

#[derive(Debug)]
enum Word {
    Wait,
    First,
}

#[fom(operation(Tell), event(Word), durability = "lazy")]
enum Speaking {
    #[phase(start, sync, to(Again), on(Wait, First))]
    Ready,
    #[phase(sync, to(Spoken))]
    Again,
    #[phase(end)]
    Spoken,
}

impl SpeakingTransitions for Tell {
    fn ready(&mut self, cx: &mut Cx<'_, Word>, word: Word) -> Result<SpeakingAfterReady, BoxError> {
        if let Word::Wait = word {
            return Ok(SpeakingAfterReady::Stay);
        }
        cx.outbox()
            .send::<Attend>("listener", Heard::Word("first".into()))?;
        Ok(SpeakingAfterReady::Again)
    }
    fn again(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.outbox()
            .send::<Attend>("listener", Heard::Word("second".into()))?;
        Ok(())
    }
}

/// Hears two words.
#[derive(Serialize, Deserialize)]
struct Attend {
    words: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Heard {
    Word(String),
}

#[fom(operation(Attend), event(Heard))]
enum Listening {
    #[phase(start, sync, to(Done), on(Word))]
    Hear,
    #[phase(end)]
    Done,
}

impl ListeningTransitions for Attend {
    fn hear(
        &mut self,
        _: &mut Cx<'_, Heard>,
        heard: Heard,
    ) -> Result<ListeningAfterHear, BoxError> {
        let Heard::Word(word) = heard;
        self.words.push(word);
        Ok(match self.words.len() {
            0 | 1 => ListeningAfterHear::Stay,
            _ => ListeningAfterHear::Done,
        })
    }
}

/// Its reader calls [`READING`].
#[derive(Serialize, Deserialize)]
struct Paced {
    #[serde(deserialize_with = "read_slowly")]
    name: String,
}

static READING: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

fn read_slowly<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    if let Some(reading) = READING.lock().unwrap().take() {
        reading();
    }
    String::deserialize(from)
}

#[fom(operation(Paced), event(Go))]
enum Slowly {
    #[phase(start, sync, to(Second), on(On))]
    First,
    #[phase(sync, to(Last), on(On))]
    Second,
    #[phase(end)]
    Last,
}

impl SlowlyTransitions for Paced {
    fn first(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<SlowlyAfterFirst, BoxError> {
        Ok(SlowlyAfterFirst::Second)
    }
    fn second(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<SlowlyAfterSecond, BoxError> {
        Ok(SlowlyAfterSecond::Last)
    }
}

/// After a stalled step, a lazy sender needs no commit for its next step. The sender sends nothing more before its
/// first message has come, although another fom comes back with it and takes long.
#[test]
fn a_lazy_sender_that_stalled_does_not_overtake_itself() {
    limited(|| async {
        let journal = Picky::default();
        let builder = one(&TestClock::new()).journal_with(journal.clone());
        let runtime = Arc::new(builder.build().unwrap());
        let listener = runtime.submit(Attend { words: vec![] }).key("listener");
        let listener = listener.start().unwrap();
        let slow = Paced {
            name: "slow".into(),
        };
        let slow = runtime.submit(slow).start().unwrap();
        let speaker = runtime.submit(Tell).start().unwrap();
        let probe = runtime.submit(Tell).start().unwrap();
        runtime.quiet().await;
        journal.fill(true);
        // Until even lazy steps wait, since the journal is behind.
        while !matches!(probe.send(Word::Wait), Err(SendError::Ended(_))) {
            runtime.quiet().await;
        }
        speaker.send(Word::First).unwrap();
        assert!(matches!(
            speaker.await.unwrap_err().cause,
            Cause::Journal(_)
        ));
        slow.send(Go::On).unwrap();
        assert!(matches!(slow.await.unwrap_err().cause, Cause::Journal(_)));
        let rounds = Arc::clone(&runtime);
        *READING.lock().unwrap() = Some(Box::new(move || {
            // Every fom in a queue by now runs meanwhile.
            for _ in 0..100 {
                let (tell, told) = mpsc::channel();
                rounds.post(0, move |_| tell.send(()).unwrap()).unwrap();
                told.recv().unwrap();
            }
        }));
        journal.fill(false);
        let heard = listener.await.unwrap().operation.words;
        assert_eq!(heard, ["first", "second"]);
    });
}
