//! The operations of the child. Each one saves its number and how many transitions it has made. Its outcome follows
//! from its number alone. So a step that was made twice, or not at all, shows in the outcome.
//!
//! The last phase of each is called `Last`, and does something before it returns. So the checker knows whether the
//! operation may have ended.

/// Defines the functions of a [`Story`] that return the mark in this field.
macro_rules! marked {
    ($($field:tt).+) => {
        fn mark(&self) -> &Mark {
            &self.$($field).+
        }
        fn mark_mut(&mut self) -> &mut Mark {
            &mut self.$($field).+
        }
    };
}

mod bills;
mod cancelled;
mod fed;
mod grown;
mod keyed;
mod layered;
mod locks;
mod loose;
mod mail;
mod mended;
mod timed;

use std::time::Duration;

use fom_durable::prelude::*;
use fom_runtime::machine::{Durability, Graph};
use serde::{Deserialize, Serialize};

use crate::{
    history::History,
    points::{Point, Points},
};

pub(crate) use bills::{Bill, Desk, NUMBERS, Payer, Till, is_desk, send_bills};
pub(crate) use cancelled::{Buy, is_cancelled};
pub(crate) use fed::{Feed, Holds, NEXT};
pub(crate) use grown::{Grown, read_newer};
pub use keyed::is_shared;
pub(crate) use keyed::{Post, Queued, posted};
pub(crate) use layered::Guarded;
pub(crate) use locks::{Move, Tables};
pub(crate) use loose::Loose;
pub(crate) use mail::{LETTERS, Mail, MailEvent};
pub(crate) use mended::{MENDED_PATH, Mend};
pub(crate) use timed::{Die, Fail, Late, WITHIN};

/// The state that every operation has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The number of the operation in the history.
    pub(crate) n: u64,
    /// How many transitions it has made.
    pub(crate) hops: u32,
}

impl Mark {
    pub(crate) fn new(n: u64) -> Self {
        Self { n, hops: 0 }
    }

    /// Does something outside, under the step key of this visit.
    fn effect<E>(&self, cx: &Cx<'_, E>, phase: &str) {
        let points = cx.resource::<Points>();
        points.pass(Point::BeforeEffect);
        cx.resource::<History>().line(format_args!(
            "E {} {} {} {phase} {} {}",
            self.n,
            cx.id(),
            self.hops,
            cx.attempt(),
            cx.step_key()
        ));
        points.pass(Point::AfterEffect);
    }

    /// Counts a transition: the operation is about to leave its phase, or has taken an event.
    fn hop(&mut self) {
        self.hops += 1;
    }

    /// Runs a phase that has its effect and leaves.
    fn step<E>(&mut self, cx: &Cx<'_, E>, phase: &str) -> Result<(), BoxError> {
        self.effect(cx, phase);
        self.hop();
        Ok(())
    }
}

/// An operation that records its transitions.
pub(crate) trait Story: Persistent {
    /// Its letter in the history.
    const LETTER: char;
    fn make(n: u64) -> Self;
    fn mark(&self) -> &Mark;
    fn mark_mut(&mut self) -> &mut Mark;
    /// Returns its outcome, in one word.
    fn outcome(&self) -> String;
    /// Returns the outcome that it must have.
    fn due(n: u64) -> String;
    /// Returns the series in which it has its turn, in one word, if it is not the key.
    fn series(&self) -> Option<String> {
        None
    }
}

/// What the checker knows of an operation type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) letter: char,
    pub(crate) graph: &'static Graph,
    pub(crate) due: fn(u64) -> String,
    pub(crate) lazy: bool,
}

const fn kind<O: Story>() -> Kind {
    Kind {
        letter: O::LETTER,
        graph: O::GRAPH,
        due: O::due,
        lazy: matches!(O::DURABILITY, Durability::Lazy),
    }
}

pub(crate) const KINDS: [Kind; 22] = [
    kind::<Walk>(),
    kind::<Tick>(),
    kind::<Retry>(),
    kind::<Speak>(),
    kind::<Talk>(),
    kind::<Queued>(),
    kind::<Post>(),
    kind::<Feed>(),
    kind::<Move>(),
    kind::<Late>(),
    kind::<Die>(),
    kind::<Fail>(),
    kind::<Loose>(),
    kind::<Grown>(),
    kind::<Till>(),
    kind::<Desk>(),
    kind::<Payer>(),
    kind::<Mail>(),
    kind::<Buy>(),
    kind::<Mend>(),
    kind::<Guarded<Tick>>(),
    kind::<Guarded<Walk>>(),
];

/// Returns a pseudorandom number that depends only on `n`.
pub(crate) fn mixed(n: u64) -> u64 {
    let mut n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^= n >> 29;
    n = n.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ (n >> 32)
}

/// Async phases, a loop, sleeps.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) mark: Mark,
    pub(crate) steps: u32,
    pub(crate) sum: u64,
}

#[fom(operation(Walk))]
pub(crate) enum Walking {
    #[phase(start, to(Step))]
    Begin,
    #[phase(to(Step, Last), within = "1h")]
    Step { left: u32 },
    #[phase(to(Done))]
    Last,
    #[phase(end)]
    Done { sum: u64 },
}

impl WalkingTransitions for Walk {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<WalkingAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        Ok(WalkingAfterBegin::Step { left: self.steps })
    }
    async fn step(
        &mut self,
        cx: &mut Cx<'_>,
        left: &mut u32,
    ) -> Result<WalkingAfterStep, BoxError> {
        self.mark.effect(cx, "Step");
        cx.sleep(Duration::from_micros(200 * u64::from(*left)))
            .await;
        self.sum = self.sum * 10 + u64::from(*left);
        self.mark.hop();
        Ok(match *left {
            0 => WalkingAfterStep::Last,
            left => WalkingAfterStep::Step { left: left - 1 },
        })
    }
    async fn last(&mut self, cx: &mut Cx<'_>) -> Result<WalkingAfterLast, BoxError> {
        self.mark.effect(cx, "Last");
        self.mark.hop();
        Ok(WalkingAfterLast::Done { sum: self.sum })
    }
}

impl Story for Walk {
    const LETTER: char = 'w';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            steps: (mixed(n) % 4) as u32,
            sum: 1,
        }
    }
    marked!(mark);
    fn due(n: u64) -> String {
        let steps = mixed(n) % 4;
        let sum = (0..=steps).rev().fold(1, |sum, left| sum * 10 + left);
        format!("walked-{sum}")
    }
    fn outcome(&self) -> String {
        format!("walked-{}", self.sum)
    }
}

/// Plain functions only.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) mark: Mark,
    pub(crate) text: String,
}

#[fom(operation(Tick))]
pub(crate) enum Ticking {
    #[phase(start, sync, to(Middle))]
    Begin,
    #[phase(sync, to(Last))]
    Middle { length: usize },
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl TickingTransitions for Tick {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<TickingAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        self.text.push('b');
        let length = self.text.len();
        Ok(TickingAfterBegin::Middle { length })
    }
    fn middle(&mut self, cx: &mut Cx<'_>, length: &mut usize) -> Result<(), BoxError> {
        self.mark.effect(cx, "Middle");
        self.mark.hop();
        self.text.push_str(&length.to_string());
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Tick {
    const LETTER: char = 't';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            text: format!("{:x}", mixed(n) % 4096),
        }
    }
    marked!(mark);
    fn due(n: u64) -> String {
        let text = format!("{:x}b", mixed(n) % 4096);
        format!("ticked-{text}{}", text.len())
    }
    fn outcome(&self) -> String {
        format!("ticked-{}", self.text)
    }
}

/// Fails a few times in one phase.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Retry {
    pub(crate) mark: Mark,
    pub(crate) fails: u32,
    /// The attempt at which each phase succeeded.
    pub(crate) tried: Vec<u32>,
}

#[fom(operation(Retry))]
pub(crate) enum Retrying {
    #[phase(start, to(Last), retry = "5, 1ms..4ms")]
    Begin,
    #[phase(sync, to(Done), retry = "5, 1ms..4ms")]
    Last,
    #[phase(end)]
    Done,
}

impl RetryingTransitions for Retry {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        if cx.attempt() < self.fails {
            return Err("not yet".into());
        }
        self.tried.push(cx.attempt());
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Last");
        if cx.attempt() < self.fails / 2 {
            return Err("not yet".into());
        }
        self.tried.push(cx.attempt());
        self.mark.hop();
        Ok(())
    }
}

impl Story for Retry {
    const LETTER: char = 'r';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            fails: (mixed(n) % 4) as u32,
            tried: Vec::new(),
        }
    }
    marked!(mark);
    fn due(n: u64) -> String {
        let fails = mixed(n) % 4;
        format!("tried-{:?}", [fails, fails / 2]).replace(' ', "")
    }
    fn outcome(&self) -> String {
        format!("tried-{:?}", self.tried).replace(' ', "")
    }
}

/// Starts a [`Talk`] through its outbox, and then sends it words the same way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Speak {
    pub(crate) mark: Mark,
}

#[fom(operation(Speak))]
pub(crate) enum Speaking {
    #[phase(start, sync, to(Say))]
    Begin,
    #[phase(to(Say, Last))]
    Say { word: u32 },
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

/// The number of words sent.
const WORDS: u32 = 6;

/// Returns the number of the operation that operation `n` starts.
pub(crate) fn child_of(n: u64) -> u64 {
    n + 1
}

impl SpeakingTransitions for Speak {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<SpeakingAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        let n = child_of(self.mark.n);
        cx.outbox().submit(Talk::make(n)).key(("talk", n)).post()?;
        Ok(SpeakingAfterBegin::Say { word: 0 })
    }
    async fn say(&mut self, cx: &mut Cx<'_>, word: &mut u32) -> Result<SpeakingAfterSay, BoxError> {
        self.mark.effect(cx, "Say");
        self.mark.hop();
        let to = ("talk", child_of(self.mark.n));
        for word in [*word, *word + 1] {
            // The fom may move meanwhile.
            cx.sleep(Duration::from_micros(
                mixed(self.mark.n + u64::from(word)) % 300,
            ))
            .await;
            cx.outbox().send::<Talk>(to, TalkEvent::Word(word))?;
        }
        Ok(match *word + 2 {
            WORDS => SpeakingAfterSay::Last,
            word => SpeakingAfterSay::Say { word },
        })
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Speak {
    const LETTER: char = 's';
    fn make(n: u64) -> Self {
        Self { mark: Mark::new(n) }
    }
    marked!(mark);
    fn due(_: u64) -> String {
        "spoken".to_owned()
    }
    fn outcome(&self) -> String {
        "spoken".to_owned()
    }
}

/// Takes words and keeps each in order. A word that came twice would show in the outcome.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Talk {
    pub(crate) mark: Mark,
    pub(crate) heard: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TalkEvent {
    Word(u32),
}

#[fom(operation(Talk), event(TalkEvent))]
pub(crate) enum Talking {
    #[phase(start, sync, to(Last), on(Word))]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl TalkingTransitions for Talk {
    fn begin(
        &mut self,
        cx: &mut Cx<'_, TalkEvent>,
        event: TalkEvent,
    ) -> Result<TalkingAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        let TalkEvent::Word(word) = event;
        self.heard.push_str(&word.to_string());
        Ok(if self.heard.len() < WORDS as usize {
            TalkingAfterBegin::Stay
        } else {
            TalkingAfterBegin::Last
        })
    }
    fn last(&mut self, cx: &mut Cx<'_, TalkEvent>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Talk {
    const LETTER: char = 'k';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            heard: String::new(),
        }
    }
    marked!(mark);
    fn due(_: u64) -> String {
        "heard-012345".to_owned()
    }
    fn outcome(&self) -> String {
        format!("heard-{}", self.heard)
    }
}
