//! Random courses against a model of a page: where a fom goes, when, why, and what becomes of its deadlines, retries,
//! events and children. The counters must agree with the model, from the start or from any moment on. So must the flight
//! recorder.
//!
//! A machine is written down in the program, so there is one machine, with every kind of phase. The operation carries a
//! random script of what the machine's functions do. The machine exists with sync phases and with async ones, which
//! must behave alike (only an async phase can sleep). The foms come to rest between two events from outside, and the
//! clock is the test's, so each run has one right course.
//!
//! `PROPTEST_CASES` asks for more than the default of 64 cases.

mod checks;

use std::{
    collections::{BTreeMap, VecDeque},
    panic::resume_unwind,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_recorder::TraceExt;
use fom_runtime::{
    FomId,
    observe::{FlightEntry, FlightEvent},
    prelude::*,
    time::{Instant, TestClock},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use self::checks::{check_edges, check_population, check_recording};
use crate::kit::{limited, many, secs};

/// Where a phase function goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    Run,
    Tight,
    Wait,
    Again,
    Done,
    Bad,
}

/// What a phase function does on one visit: the next in the script, `Go(Done)` when the script is empty.
#[derive(Clone, Copy, Debug)]
enum Do {
    Go(To),
    Fail,
    Panic,
    /// Waits for another event in the same visit.
    Stay,
    /// Blocks in between.
    Block(To),
    /// Submits a child that goes straight to its end.
    Child(To),
    /// Looks for a further event.
    Peek(To),
    /// Sleeps this many seconds; nothing in a sync phase.
    Sleep(u8, To),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Odd,
    Even,
}

#[derive(Debug)]
struct Oops;

/// What both machines carry.
struct Script {
    name: u32,
    children: u32,
    steps: VecDeque<Do>,
    /// Events taken, in order.
    taken: Vec<Event>,
}

impl Script {
    fn new(name: u32, steps: &[Do]) -> Self {
        Self {
            name,
            children: 0,
            steps: steps.iter().copied().collect(),
            taken: Vec::new(),
        }
    }

    fn next(&mut self) -> Do {
        self.steps.pop_front().unwrap_or(Do::Go(To::Done))
    }

    fn child(&mut self) -> u32 {
        self.children += 1;
        child(self.name, self.children)
    }
}

fn child(parent: u32, nth: u32) -> u32 {
    parent + 100 * nth
}

/// What both kinds of function do alike. `None`: the fom stays.
macro_rules! act {
    ($self:ident, $cx:ident, $machine:ident, $step:expr) => {
        match $step {
            Do::Go(to) | Do::Sleep(_, to) => Ok(Some(to)),
            Do::Fail => Err(Oops),
            // No panic hook, so that the output of the test stays readable.
            Do::Panic => resume_unwind(Box::new("scripted")),
            Do::Stay => Ok(None),
            Do::Block(to) => {
                drop($cx.enter_block().unwrap());
                Ok(Some(to))
            }
            Do::Child(to) => {
                let child = $machine(Script::new($self.0.child(), &[]));
                drop($cx.runtime().submit(child).start().unwrap());
                Ok(Some(to))
            }
            Do::Peek(to) => {
                $self.0.taken.extend($cx.try_event());
                Ok(Some(to))
            }
        }
    };
}

macro_rules! exit {
    ($exits:ident, $to:expr) => {
        match $to {
            To::Run => $exits::Run,
            To::Tight => $exits::Tight,
            To::Wait => $exits::Wait,
            To::Again => $exits::Again,
            To::Done => $exits::Done,
            To::Bad => $exits::Bad,
        }
    };
}

mod driven;
mod plain;

/// The promises of the documentation, in as few words as possible.
struct Model {
    name: u32,
    sleeps: bool,
    steps: VecDeque<Do>,
    children: u32,
    mail: VecDeque<Event>,
    taken: Vec<Event>,
    now: u64,
    phase: To,
    since: u64,
    tries: u32,
    /// Deadlines over this visit: its own, and one that `Run` keeps over it.
    own: Option<u64>,
    kept: Option<u64>,
    waits: Option<Waits>,
    log: Vec<String>,
    outcome: Option<String>,
}

/// What the fom waits for.
#[derive(Clone, Copy)]
enum Waits {
    Event,
    Retry(u64),
    Sleep { until: u64, then: To, late: bool },
}

impl Model {
    fn new(name: u32, sleeps: bool, steps: &[Do]) -> Self {
        let mut model = Self {
            name,
            sleeps,
            steps: steps.iter().copied().collect(),
            children: 0,
            mail: VecDeque::new(),
            taken: Vec::new(),
            now: 0,
            phase: To::Run,
            since: 0,
            tries: 0,
            own: None,
            kept: None,
            waits: None,
            log: Vec::new(),
            outcome: None,
        };
        model.enter(None, To::Run, "started");
        model.visit();
        model
    }

    fn tell(&mut self, from: Option<To>, to: Option<To>, why: &str) {
        let stayed = self.now - self.since;
        self.log.push(line(
            name(from),
            name(to),
            why,
            self.now,
            stayed,
            self.tries,
        ));
    }

    fn enter(&mut self, from: Option<To>, to: To, why: &str) {
        self.tell(from, Some(to), why);
        if matches!(to, To::Wait | To::Tight) {
            // Of two deadlines that `Run` keeps, the earlier one stays.
            if from == Some(To::Run) {
                self.kept = self.kept.into_iter().chain(self.own).min();
            }
        } else {
            self.kept = None;
        }
        let within = match to {
            To::Run => Some(15),
            To::Tight => Some(10),
            To::Wait => Some(7),
            To::Again => Some(20),
            To::Done | To::Bad => None,
        };
        self.own = within.map(|within| self.now + within);
        (self.phase, self.since, self.tries) = (to, self.now, 0);
    }

    fn go(&mut self, to: To, why: &str) {
        self.enter(Some(self.phase), to, why);
        match to {
            To::Done | To::Bad => self.outcome = Some(format!("{to:?}")),
            _ => self.visit(),
        }
    }

    fn fail(&mut self, word: &str, detail: &str) {
        self.tell(Some(self.phase), None, word);
        self.outcome = Some(format!("{word} {detail} in {:?}", self.phase));
    }

    fn take(&mut self) -> bool {
        let takes = match self.phase {
            To::Tight => Event::Even,
            To::Wait => Event::Odd,
            _ => return false,
        };
        let Some(at) = self.mail.iter().position(|event| *event == takes) else {
            return false;
        };
        self.taken.extend(self.mail.remove(at));
        true
    }

    fn visit(&mut self) {
        if matches!(self.phase, To::Tight | To::Wait) && !self.take() {
            self.wait(Waits::Event);
        } else {
            self.act(false);
        }
    }

    fn act(&mut self, late: bool) {
        let why = if late { "late" } else { "returned" };
        match self.steps.pop_front().unwrap_or(Do::Go(To::Done)) {
            Do::Go(to) | Do::Block(to) => self.go(to, why),
            Do::Child(to) => {
                self.children += 1;
                self.go(to, why);
            }
            Do::Peek(to) => {
                self.take();
                self.go(to, why);
            }
            Do::Sleep(time, then) if self.sleeps && time > 0 => {
                let until = self.now + u64::from(time);
                self.wait(Waits::Sleep { until, then, late });
            }
            Do::Sleep(_, to) => self.go(to, why),
            Do::Stay if !late && matches!(self.phase, To::Tight | To::Wait) => self.visit(),
            Do::Stay => self.go(To::Done, why),
            Do::Panic => self.fail("panicked", "scripted"),
            Do::Fail if self.phase == To::Again && self.tries < 2 => {
                let wait = [2, 3][self.tries as usize];
                self.tries += 1;
                self.waits = Some(Waits::Retry(self.now + wait));
            }
            Do::Fail => self.fail("error", "Oops"),
        }
    }

    /// Waits, unless a kept deadline had passed before this visit began.
    fn wait(&mut self, waits: Waits) {
        self.waits = Some(waits);
        if self.kept.is_some_and(|kept| kept <= self.now) {
            self.look();
        }
    }

    /// Looks again after something happened while it waits: mail, or time.
    fn look(&mut self) {
        let Some(waits) = self.waits.take_if(|_| self.outcome.is_none()) else {
            return;
        };
        // The late function runs without a deadline; a kept deadline that has not passed goes on after it.
        let in_late = matches!(waits, Waits::Sleep { late: true, .. });
        let passed = |deadline: Option<u64>| {
            !in_late && deadline.is_some_and(|deadline| deadline <= self.now)
        };
        if passed(self.own) || passed(self.kept) {
            let armed_in = if passed(self.own) {
                self.phase
            } else {
                To::Run
            };
            self.own = None;
            self.kept = self.kept.filter(|kept| *kept > self.now);
            return match self.phase {
                To::Tight => self.act(true),
                _ => self.fail("late", &format!("{armed_in:?}")),
            };
        }
        match waits {
            Waits::Event => self.visit(),
            Waits::Retry(until) if until <= self.now => self.act(false),
            Waits::Sleep { until, then, late } if until <= self.now => {
                self.go(then, if late { "late" } else { "returned" })
            }
            waits => self.waits = Some(waits),
        }
    }

    /// Ends the pause of a retry. All other waits go on.
    fn wake(&mut self) {
        if let Some(Waits::Retry(until)) = &mut self.waits {
            *until = self.now;
            self.look();
        }
    }

    fn cancel(&mut self) {
        if self.outcome.is_none() {
            self.fail("cancelled", "");
        }
    }
}

fn name(phase: Option<To>) -> String {
    phase.map_or_else(String::new, |phase| format!("{phase:?}"))
}

fn line(from: String, to: String, why: &str, at: u64, stayed: u64, attempt: u32) -> String {
    format!("{from} -> {to} ({why}) at {at} after {stayed}, attempt {attempt}")
}

/// The events from outside.
#[derive(Clone, Copy, Debug)]
enum Outside {
    Send(usize, Event),
    Advance(u8),
    Cancel(usize),
    /// A wake, which has an effect only in the pause of a retry.
    Wake(usize),
}

type Logs = Arc<Mutex<BTreeMap<u32, Vec<String>>>>;

/// A handle of either machine.
enum Running {
    Plain(Handle<plain::Plain>),
    Driven(Handle<driven::Driven>),
}

macro_rules! either {
    ($running:expr, $fom:ident => $do:expr) => {
        match $running {
            Running::Plain($fom) => $do,
            Running::Driven($fom) => $do,
        }
    };
}

fn put(logs: &Logs, name: u32, transition: &fom_runtime::observe::Transition<'_>) {
    let line = line(
        transition.from().unwrap_or_default().to_owned(),
        transition.to().unwrap_or_default().to_owned(),
        &transition.cause().to_string(),
        (transition.at() - Instant::START).as_secs(),
        transition.stayed().as_secs(),
        transition.attempt(),
    );
    logs.lock().unwrap().entry(name).or_default().push(line);
}

/// What observes the foms.
#[derive(Clone, Copy, Debug)]
struct Watching {
    /// Whether there are listeners.
    listens: bool,
    /// After how many events from outside the runtime begins to count. `None`: it counts from the start.
    counts: Option<usize>,
    /// Whether there is a flight recorder.
    records: bool,
}

fn listen(runtime: &Runtime, logs: &Logs) {
    let listened = Arc::clone(logs);
    runtime
        .listen_to::<plain::Plain>(move |t| put(&listened, t.operation().0.name, t))
        .forever();
    let listened = Arc::clone(logs);
    runtime
        .listen_to::<driven::Driven>(move |t| put(&listened, t.operation().0.name, t))
        .forever();
}

async fn case(foms: Vec<(bool, Vec<Do>)>, outside: Vec<Outside>, watching: Watching) {
    let Watching {
        listens,
        counts,
        records,
    } = watching;
    let (clock, logs) = (TestClock::new(), Logs::default());
    let builder = many(2, &clock);
    let builder = if counts.is_none() {
        builder.observe()
    } else {
        builder
    };
    let builder = builder.recorder(if records { 1 << 14 } else { 0 });
    let runtime = builder.build().unwrap();
    if listens {
        listen(&runtime, &logs);
    }

    let mut models = Vec::new();
    let mut running = Vec::new();
    for (at, (sleeps, steps)) in foms.iter().enumerate() {
        let script = Script::new(at as u32, steps);
        running.push(if *sleeps {
            Running::Driven(runtime.submit(driven::Driven(script)).start().unwrap())
        } else {
            Running::Plain(runtime.submit(plain::Plain(script)).start().unwrap())
        });
        models.push(Model::new(at as u32, *sleeps, steps));
    }
    let all = models.len();
    let ids: Vec<_> = running
        .iter()
        .map(|fom| either!(fom, fom => fom.id()))
        .collect();
    // In the end every waiting fom is cancelled.
    let end = (0..all).map(Outside::Cancel);
    for (nth, outside) in outside.into_iter().chain(end).enumerate() {
        runtime.quiet().await;
        check_population(&runtime, &models);
        if Some(nth) == counts {
            runtime.observe();
        }
        match outside {
            Outside::Send(at, event) => {
                let (model, fom) = (&mut models[at % all], &running[at % all]);
                let sent = either!(fom, fom => fom.send(event).is_ok());
                assert_eq!(sent, model.outcome.is_none(), "an event to {}", model.name);
                model.mail.push_back(event);
                model.look();
            }
            Outside::Advance(by) => {
                clock.advance(secs(by.into()));
                for model in &mut models {
                    model.now += u64::from(by);
                    model.look();
                }
            }
            Outside::Cancel(at) => {
                either!(&running[at % all], fom => fom.cancel());
                models[at % all].cancel();
            }
            Outside::Wake(at) => {
                either!(&running[at % all], fom => fom.wake());
                models[at % all].wake();
            }
        }
    }
    for (model, fom) in models.iter().zip(running) {
        let (outcome, taken) = either!(fom, fom => match fom.await {
            Ok(ended) => (ended.phase_name(), Some(ended.operation.0.taken)),
            Err(failure) => {
                let (word, phase) = (failure.cause.name(), failure.phase_name());
                let detail = match failure.cause {
                    Cause::Error(Oops) => "Oops".to_owned(),
                    Cause::Panicked(message) => message,
                    Cause::Late { armed_in } => armed_in.to_owned(),
                    _ => String::new(),
                };
                (format!("{word} {detail} in {phase}"), failure.operation.map(|operation| operation.into_inner().0.taken))
            }
        });
        let log = logs.lock().unwrap().remove(&model.name).unwrap_or_default();
        if listens {
            assert_eq!(log, model.log, "the course of {}", model.name);
        }
        assert_eq!(
            Some(&outcome),
            model.outcome.as_ref(),
            "the outcome of {}",
            model.name
        );
        assert_eq!(
            taken.as_ref(),
            Some(&model.taken),
            "the events of {}",
            model.name
        );
        for nth in (1..=model.children).filter(|_| listens) {
            let log = logs
                .lock()
                .unwrap()
                .remove(&child(model.name, nth))
                .unwrap_or_default();
            assert_eq!(log.len(), 2, "the child {nth} of {}: {log:?}", model.name);
        }
    }
    runtime.idle().await;
    check_population(&runtime, &models);
    if counts.is_none() {
        check_edges(&runtime, &models);
    }
    if records {
        check_recording(&runtime, &models, &ids);
    }
    let rest = logs.lock().unwrap().keys().copied().collect::<Vec<_>>();
    assert!(rest.is_empty(), "children that nobody has: {rest:?}");
    let report = runtime.shutdown(Shutdown::Drain, secs(10)).await;
    assert!(report.remained.is_empty());
    assert_eq!(runtime.operations().incidents, []);
}

/// The name of the end phase that a fom reached.
trait PhaseName {
    fn phase_name(&self) -> String;
}

impl<O: Operation> PhaseName for Ended<O> {
    fn phase_name(&self) -> String {
        format!("{:?}", self.kind())
    }
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![
        4 => Just(To::Run),
        4 => Just(To::Tight),
        4 => Just(To::Wait),
        4 => Just(To::Again),
        1 => Just(To::Done),
        1 => Just(To::Bad),
    ]
}

fn step() -> impl Strategy<Value = Do> {
    prop_oneof![
        8 => to().prop_map(Do::Go),
        3 => Just(Do::Fail),
        1 => Just(Do::Panic),
        2 => Just(Do::Stay),
        2 => to().prop_map(Do::Block),
        1 => to().prop_map(Do::Child),
        2 => to().prop_map(Do::Peek),
        3 => (0..12_u8, to()).prop_map(|(time, to)| Do::Sleep(time, to)),
    ]
}

fn outside() -> impl Strategy<Value = Outside> {
    let event = prop_oneof![Just(Event::Odd), Just(Event::Even)];
    prop_oneof![
        6 => (0..4_usize, event).prop_map(|(at, event)| Outside::Send(at, event)),
        5 => (1..13_u8).prop_map(Outside::Advance),
        1 => (0..4_usize).prop_map(Outside::Cancel),
        1 => (0..4_usize).prop_map(Outside::Wake),
    ]
}

#[test]
fn a_random_course_is_as_the_model_says() {
    let cases = std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().unwrap());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    // The same cases each time: a failure is the same for every developer.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let foms = prop::collection::vec((any::<bool>(), prop::collection::vec(step(), 0..14)), 1..4);
    let outside = prop::collection::vec(outside(), 0..24);
    let counts = prop::option::of(0..24_usize);
    let watching = (any::<bool>(), counts, any::<bool>());
    let watching = watching.prop_map(|(listens, counts, records)| Watching {
        listens,
        counts,
        records,
    });
    TestRunner::new_with_rng(config, rng)
        .run(&(foms, outside, watching), |(foms, outside, watching)| {
            limited(move || case(foms, outside, watching));
            Ok(())
        })
        .unwrap_or_else(|failed| panic!("{failed}"));
}
