//! The events of one sender's outbox arrive in order, wherever the sender moves meanwhile, also after a restart.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::poll_fn,
    task::Poll,
    time::Duration,
};

use fom_durable::{RetryError, journal::MemoryJournal, prelude::*};
use fom_runtime::{
    FomId, balance::Balance, snapshot::RestoreError, submission::Placement, time::TestClock,
    topology::Machine,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::kit::{Log, limited, many};

/// The time of one run of a sender, on the clock of the test. It is long enough that the runtime moves the waiting
/// foms.
const LONG: Duration = Duration::from_micros(200);

/// The number of words of one sender.
const WORDS: u32 = 4;

thread_local! {
    /// This thread cannot read an [`Ear`].
    static UNREADABLE: Cell<bool> = const { Cell::new(false) };
    /// Each function runs on this thread while it reads an [`Ear`] or a [`Word`], the last one first.
    static MEANWHILE: RefCell<Vec<Meanwhile>> = const { RefCell::new(Vec::new()) };
    /// A word that this thread cannot read.
    static UNHEARD_OF: Cell<u32> = const { Cell::new(0) };
}

type Meanwhile = Box<dyn FnOnce()>;

/// Runs the next function of `MEANWHILE`. The deserializers of [`Ear`] and [`Word`] call it.
fn is_read() {
    let next = MEANWHILE.with_borrow_mut(Vec::pop);
    if let Some(next) = next {
        next();
    }
}

/// A helper that does nothing.
struct Help;

#[fom(operation(Help), transient)]
enum Helping {
    #[phase(start, sync, to(Helped))]
    Help,
    #[phase(end)]
    Helped,
}

impl HelpingTransitions for Help {
    fn help(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Says its words, some of them in one visit. Between them it waits so that others run, and for its helper.
#[derive(Serialize, Deserialize)]
struct Speaker {
    name: usize,
    /// The locality of each word.
    been: Vec<usize>,
}

#[fom(operation(Speaker))]
enum Speaking {
    #[phase(start, sync, to(Middle))]
    First,
    #[phase(to(Last))]
    Middle,
    #[phase(to(Silent))]
    Last,
    #[phase(end)]
    Silent,
}

impl Speaker {
    fn say(&mut self, cx: &Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<TestClock>().advance(LONG);
        self.been.push(cx.locality());
        let word = Word::Said(self.name, self.been.len() as u32);
        Ok(cx.outbox().send::<Ear>("ear", word)?)
    }
}

/// Yields a few times: each time the fom goes to the tail of the run queue.
async fn pause() {
    let mut left = 3;
    poll_fn(|cx| match left {
        0 => Poll::Ready(()),
        _ => {
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl SpeakingTransitions for Speaker {
    fn first(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx)
    }

    async fn middle(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.say(cx)?;
        pause().await;
        drop(cx.submit(Help).await?);
        self.say(cx)
    }

    async fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        pause().await;
        self.say(cx)
    }
}

/// Takes no word before [`Word::Open`].
struct Ear;

impl Serialize for Ear {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Ear {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        <()>::deserialize(input)?;
        match UNREADABLE.get() {
            true => Err(D::Error::custom("not today")),
            false => {
                is_read();
                Ok(Self)
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Word {
    Open,
    Said(usize, #[serde(deserialize_with = "number")] u32),
}

fn number<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let number = u32::deserialize(input)?;
    if number == UNHEARD_OF.get() {
        return Err(D::Error::custom("not this one"));
    }
    is_read();
    Ok(number)
}

/// Says one word for each event.
#[derive(Serialize, Deserialize)]
struct Caller(u32);

#[derive(Serialize, Deserialize)]
enum Call {
    Say,
}

#[fom(operation(Caller), event(Call))]
enum Calling {
    #[allow(dead_code)]
    #[phase(start, sync, on(Say), to(Gone))]
    Calls,
    #[phase(end)]
    Gone,
}

impl CallingTransitions for Caller {
    fn calls(&mut self, cx: &mut Cx<'_, Call>, _: Call) -> Result<CallingAfterCalls, BoxError> {
        self.0 += 1;
        cx.outbox().send::<Ear>("ear", Word::Said(0, self.0))?;
        Ok(CallingAfterCalls::Stay)
    }
}

/// Lets the caller say a word, and waits for that.
fn say(runtime: &Runtime) {
    runtime
        .find::<Caller>("caller")
        .unwrap()
        .send(Call::Say)
        .unwrap();
    futures::executor::block_on(runtime.quiet());
}

/// A journal with an ear and a caller that said this many words to it.
async fn called(words: u32) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let runtime = build(&journal, &Log::default());
    drop(runtime.submit(Ear).key("ear").start().unwrap());
    drop(runtime.submit(Caller(0)).key("caller").start().unwrap());
    runtime.quiet().await;
    (0..words).for_each(|_| say(&runtime));
    journal.fork()
}

/// A runtime that cannot read the ear of this journal at its start.
fn deaf(journal: &MemoryJournal, log: &Log) -> Runtime {
    UNREADABLE.set(true);
    let runtime = build(journal, log);
    UNREADABLE.set(false);
    runtime
}

fn ear_of(runtime: &Runtime) -> FomId {
    let quarantined = runtime.quarantine().list();
    let unread = |reason: &RestoreError| !matches!(reason, RestoreError::ReceiverQuarantined(_));
    quarantined
        .iter()
        .find(|quarantined| unread(&quarantined.reason))
        .unwrap()
        .id
}

#[fom(operation(Ear), event(Word))]
enum Hearing {
    #[phase(start, sync, on(Open), to(Opened))]
    Shut,
    #[allow(dead_code)]
    #[phase(sync, on(Said), to(Gone))]
    Opened,
    #[phase(end)]
    Gone,
}

impl HearingTransitions for Ear {
    fn shut(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearingAfterShut, BoxError> {
        Ok(HearingAfterShut::Opened)
    }

    fn opened(
        &mut self,
        cx: &mut Cx<'_, Word>,
        word: Word,
    ) -> Result<HearingAfterOpened, BoxError> {
        if let Word::Said(name, number) = word {
            cx.resource::<Log>().put(format_args!("{name} {number}"));
        }
        Ok(HearingAfterOpened::Stay)
    }
}

/// Submits this many speakers from inside a locality.
struct Crowd(
    std::ops::Range<usize>,
    std::sync::mpsc::Sender<Handle<Speaker>>,
);

#[fom(operation(Crowd), transient)]
enum Crowding {
    #[phase(start, sync, to(Gone))]
    Gather,
    #[phase(end)]
    Gone,
}

impl CrowdingTransitions for Crowd {
    fn gather(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for name in self.0.clone() {
            let been = Vec::new();
            self.1.send(cx.submit(Speaker { name, been }).start()?)?;
        }
        Ok(())
    }
}

fn build(journal: &MemoryJournal, log: &Log) -> Runtime {
    let clock = TestClock::new();
    let builder = many(2, &clock)
        .machine(Machine::synthetic(1, 1, 2, 1))
        .balance(Balance::Foms);
    let builder = builder.resource(clock).resource(log.clone());
    builder.journal_with(journal.clone()).build().unwrap()
}

/// A journal with the words of moved senders to an ear that took none yet, and the number of senders.
async fn said() -> (MemoryJournal, usize) {
    let (journal, log) = (MemoryJournal::new(), Log::default());
    let runtime = build(&journal, &log);
    let ear = runtime.submit(Ear).key("ear").start().unwrap();
    ear.reached([HearingKind::Shut]).await;
    let (mut senders, mut moved) = (0, 0);
    // The other locality gets foms only while it sleeps.
    while moved < 10 {
        let (tell, told) = std::sync::mpsc::channel();
        let crowd = runtime.submit(Crowd(senders..senders + 40, tell));
        crowd.place(Placement::Locality(0)).await.unwrap();
        senders += 40;
        for speaker in told {
            let been = speaker.await.unwrap().operation.been;
            moved += usize::from(been.contains(&0) && been.contains(&1));
        }
    }
    runtime.quiet().await;
    let journal = journal.fork();
    (journal, senders)
}

/// The words of each sender, in the order of their arrival.
async fn heard(runtime: &Runtime, log: &Log, senders: usize) -> BTreeMap<String, Vec<u32>> {
    let ear = runtime.find::<Ear>("ear").unwrap();
    ear.send(Word::Open).unwrap();
    runtime.quiet().await;
    let mut heard = BTreeMap::<_, Vec<_>>::new();
    for line in log.lines() {
        let (name, number) = line.split_once(' ').unwrap();
        heard
            .entry(name.to_owned())
            .or_default()
            .push(number.parse().unwrap());
    }
    assert_eq!(heard.len(), senders);
    heard
}

fn all_in_order(heard: &BTreeMap<String, Vec<u32>>) {
    let wanted: Vec<_> = (1..=WORDS).collect();
    let wrong: Vec<_> = heard
        .iter()
        .filter(|(_, words)| **words != wanted)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn senders_that_are_moved_are_heard_in_order_after_a_restart() {
    limited(|| async {
        let (journal, senders) = said().await;
        for _ in 0..2 {
            let (journal, log) = (journal.fork(), Log::default());
            let runtime = build(&journal, &log);
            all_in_order(&heard(&runtime, &log, senders).await);
        }
    });
}

/// The receiver is quarantined, and with it the events for it, from before the restart and after.
#[test]
fn what_was_quarantined_is_heard_in_order_when_its_receiver_comes_back() {
    limited(|| async {
        let (journal, senders) = said().await;
        let log = Log::default();
        UNREADABLE.set(true);
        let runtime = build(&journal, &log);
        UNREADABLE.set(false);
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1 + senders * WORDS as usize);
        let unread =
            |reason: &RestoreError| !matches!(reason, RestoreError::ReceiverQuarantined(_));
        let ear = quarantined
            .iter()
            .find(|quarantined| unread(&quarantined.reason))
            .unwrap();
        // One more speaker. Its words have no receiver yet.
        let been = Vec::new();
        let late = Speaker {
            name: senders,
            been,
        };
        runtime.submit(late).await.unwrap();
        runtime.quarantine().retry(ear.id).unwrap();
        all_in_order(&heard(&runtime, &log, senders + 1).await);
        assert!(runtime.quarantine().list().is_empty());
    });
}

/// The caller says words while the runtime reads the receiver, and while it reads each earlier word.
#[test]
fn what_is_sent_while_its_receiver_comes_back_is_heard_behind_what_was_quarantined() {
    limited(|| async {
        let (journal, log) = (called(2).await, Log::default());
        let runtime = deaf(&journal, &log);
        say(&runtime);
        for _ in 0..4 {
            let runtime = runtime.clone();
            let next: Meanwhile = Box::new(move || say(&runtime));
            MEANWHILE.with_borrow_mut(|all| all.push(next));
        }
        runtime.quarantine().retry(ear_of(&runtime)).unwrap();
        assert!(MEANWHILE.take().is_empty(), "they are read");
        say(&runtime);
        let heard = heard(&runtime, &log, 1).await;
        assert_eq!(heard["0"], (1..=8).collect::<Vec<_>>());
        assert!(runtime.quarantine().list().is_empty());
    });
}

/// The receiver is readable at first, and then the read fails. The events that were sent meanwhile stay for it.
#[test]
fn what_is_sent_while_its_receiver_does_not_come_back_stays_for_it() {
    limited(|| async {
        let (journal, log) = (called(2).await, Log::default());
        let runtime = deaf(&journal, &log);
        let ear = ear_of(&runtime);
        let meanwhile: Meanwhile = {
            let runtime = runtime.clone();
            Box::new(move || {
                say(&runtime);
                panic!("it cannot be read");
            })
        };
        MEANWHILE.with_borrow_mut(|all| all.push(meanwhile));
        assert!(matches!(
            runtime.quarantine().retry(ear),
            Err(RetryError::Still(RestoreError::Panicked(_)))
        ));
        let waits = |quarantined: &&fom_durable::Quarantined| matches!(quarantined.reason, RestoreError::ReceiverQuarantined(id) if id == ear);
        assert_eq!(runtime.quarantine().list().iter().filter(waits).count(), 3);
        runtime.quarantine().retry(ear).unwrap();
        let heard = heard(&runtime, &log, 1).await;
        assert_eq!(heard["0"], [1, 2, 3]);
    });
}

#[test]
fn nothing_waits_for_an_event_that_cannot_be_read() {
    limited(|| async {
        let (journal, log) = (called(3).await, Log::default());
        UNHEARD_OF.set(2);
        let runtime = build(&journal, &log);
        UNHEARD_OF.set(0);
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1);
        assert!(matches!(quarantined[0].reason, RestoreError::Event { .. }));
        assert_eq!(heard(&runtime, &log, 1).await["0"], [1, 3]);
        log.take();
        runtime.quarantine().retry(quarantined[0].id).unwrap();
        runtime.quiet().await;
        assert_eq!(log.lines(), ["0 2"]);
    });
}
