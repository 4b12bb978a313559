//! Every call gets one answer, whatever happens: random schedules, and a checker of what was seen.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use fom_durable::{DurableBuilderExt as _, journal};
use fom_patterns::service::{
    CallCx, CallFailure, Calling, Provider, Registration, Running, Service, Services, ServicesExt,
};
use fom_runtime::{config::Shutdown, time::TestClock};

use crate::kit::{limited, many, millis, secs};

/// The number of a call, and its key.
type Ticket = (u32, u32);

static PLAIN: Service<Ticket, u32> = Service::new("plain");
static KEYED: Service<Ticket, u32> = Service::new("keyed");
static BLOCKS: Service<Ticket, u32> = Service::new("blocks");
static ALL: [&Service<Ticket, u32>; 3] = [&PLAIN, &KEYED, &BLOCKS];

/// The events seen, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// A thread makes a call with a key.
    Made {
        call: u32,
        key: u32,
        thread: u32,
        keyed: bool,
    },
    Entered {
        call: u32,
        key: u32,
        registration: u32,
    },
    Left {
        call: u32,
        key: u32,
    },
    /// An answer: whether it was a result, and whether the argument came back.
    Answered {
        call: u32,
        result: bool,
        back: bool,
    },
    /// Nothing of this registration runs any more.
    Gone {
        registration: u32,
    },
}

#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<Seen>>>);

impl History {
    fn put(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }

    fn answer(&self, call: u32, answer: &Result<u32, CallFailure<Ticket>>) {
        let back = answer
            .as_ref()
            .is_err_and(|failure| failure.argument.is_some());
        if let Ok(result) = answer {
            assert_eq!(*result, call, "another one's answer");
        }
        let result = answer.is_ok();
        self.put(Seen::Answered { call, result, back });
    }
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Between entering and leaving, also when it is dropped.
struct Inside(History, Ticket);

impl Inside {
    fn new(history: &History, ticket: Ticket, registration: u32) -> Self {
        history.put(Seen::Entered {
            call: ticket.0,
            key: ticket.1,
            registration,
        });
        Self(history.clone(), ticket)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.put(Seen::Left {
            call: self.1.0,
            key: self.1.1,
        });
    }
}

/// Panics without running the hook.
fn some_panic(ticket: Ticket) {
    if ticket.0.is_multiple_of(7) {
        std::panic::resume_unwind(Box::new("some panic"));
    }
}

fn register(
    services: &Services,
    which: usize,
    history: &History,
    number: u32,
) -> Option<Registration> {
    let history = history.clone();
    let provider = match which {
        0 => Provider::function(move |_, ticket: Ticket| {
            let _inside = Inside::new(&history, ticket, number);
            some_panic(ticket);
            ticket.0
        }),
        1 => Provider::future(move |cx: CallCx, ticket: Ticket| {
            let inside = Inside::new(&history, ticket, number);
            async move {
                let _inside = inside;
                if ticket.0.is_multiple_of(3) {
                    cx.sleep(millis(u64::from(ticket.0 % 5))).await;
                }
                some_panic(ticket);
                ticket.0
            }
        })
        .key(|ticket: &Ticket| ticket.1),
        _ => Provider::blocking(move |_, ticket: Ticket| {
            let _inside = Inside::new(&history, ticket, number);
            thread::yield_now();
            ticket.0
        }),
    };
    services.register(ALL[which], provider).ok()
}

/// Makes calls in every way, at random.
fn caller(
    services: &Services,
    history: &History,
    next: &AtomicU32,
    thread: u32,
    mut random: Random,
) {
    let mut started: Vec<(u32, Calling<Ticket, u32>)> = Vec::new();
    for _ in 0..60 {
        let which = random.below(3) as usize;
        let (call, key) = (next.fetch_add(1, SeqCst), random.below(2) as u32);
        let made = services.call(ALL[which], (call, key));
        let made = match random.below(4) {
            0 => made.within(millis(random.below(6))),
            _ => made,
        };
        history.put(Seen::Made {
            call,
            key,
            thread,
            keyed: which == 1,
        });
        match random.below(5) {
            0 => history.answer(call, &made.wait()),
            1 => {
                let to = history.clone();
                made.then(move |answer| to.answer(call, &answer));
            }
            2 => {
                let to = history.clone();
                made.strand(key)
                    .then(move |answer| to.answer(call, &answer));
            }
            _ => match made.start() {
                Ok(calling) => started.push((call, calling)),
                Err(failure) => history.answer(call, &Err(failure)),
            },
        }
        if random.below(4) == 0 && !started.is_empty() {
            let place = random.below(started.len() as u64) as usize;
            started[place].1.cancel();
        }
    }
    for (call, calling) in started {
        history.answer(call, &futures::executor::block_on(calling));
    }
}

fn run(seed: u64, mut builder: fom_runtime::Builder, clock: &TestClock) -> Sums {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    if seed.is_multiple_of(3) {
        builder = builder.capacity(8);
    }
    let runtime = builder.build().unwrap();
    let services = runtime.services();
    let history = History::default();
    let mut number = 3;
    let mut held =
        [1, 2, 3].map(|n| Some((n, register(&services, n as usize - 1, &history, n).unwrap())));
    let next = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    let callers = AtomicU32::new(3);
    thread::scope(|scope| {
        for thread in 0..3 {
            let random = Random(random.below(u64::MAX) | 1);
            let (services, history, next, callers) = (&services, &history, &next, &callers);
            scope.spawn(move || {
                caller(services, history, next, thread, random);
                callers.fetch_sub(1, SeqCst);
            });
        }
        let mut owner = Random(random.below(u64::MAX) | 1);
        let (services, history, runtime, over) = (&services, &history, &runtime, &over);
        // Time passes, and a thread cancels foms.
        let mut meddler = Random(random.below(u64::MAX) | 1);
        scope.spawn(move || {
            while !over.load(SeqCst) {
                clock.advance(millis(1));
                let foms = runtime.operations().foms;
                if meddler.below(3) == 0 && !foms.is_empty() {
                    runtime.cancel(foms[meddler.below(foms.len() as u64) as usize].id);
                }
                thread::yield_now();
            }
        });
        let ends_early = owner.below(4);
        while callers.load(SeqCst) > 0 {
            let which = owner.below(3) as usize;
            match held[which].take() {
                Some((registration, guard)) => match owner.below(3) {
                    0 => drop(guard),
                    n => {
                        let running = if n == 1 {
                            Running::Finish
                        } else {
                            Running::Stop
                        };
                        futures::executor::block_on(guard.unregister(running));
                        history.put(Seen::Gone { registration });
                    }
                },
                None => {
                    number += 1;
                    let guard = register(services, which, history, number);
                    held[which] = guard.map(|guard| (number, guard));
                }
            }
            if number == 40 && ends_early == 0 {
                runtime.shutdown_blocking(Shutdown::Now, Duration::ZERO);
            }
            if number == 40 && ends_early == 1 {
                runtime.shutdown_blocking(Shutdown::Drain, secs(5));
            }
            thread::yield_now();
        }
        let how = if ends_early < 2 {
            Shutdown::Now
        } else {
            Shutdown::Drain
        };
        runtime.shutdown_blocking(how, secs(10));
        over.store(true, SeqCst);
    });
    drop(runtime);
    check(seed, &history.0.lock().unwrap())
}

/// How many calls had a result, were not entered, and were entered without a result.
type Sums = [u32; 3];

fn check(seed: u64, history: &[Seen]) -> Sums {
    let mut sums = [0; 3];
    let mut calls: HashMap<u32, (usize, usize, bool, bool)> = HashMap::new();
    let mut inside: HashMap<u32, u32> = HashMap::new();
    let mut keyed: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut last: HashMap<(u32, u32), u32> = HashMap::new();
    let mut gone = Vec::new();
    for seen in history {
        match *seen {
            Seen::Made {
                call,
                key,
                thread,
                keyed: is_keyed,
            } => {
                calls.insert(call, (0, 0, false, false));
                if is_keyed {
                    keyed.insert(call, (key, thread));
                }
            }
            Seen::Entered {
                call,
                key,
                registration,
            } => {
                calls.get_mut(&call).unwrap().0 += 1;
                assert!(
                    !gone.contains(&registration),
                    "seed {seed}: {call} entered what was gone"
                );
                if let Some((_, thread)) = keyed.get(&call) {
                    let before = inside.insert(key, call);
                    assert_eq!(before, None, "seed {seed}: {call} overlaps");
                    let before = last.insert((key, *thread), call);
                    assert!(
                        before < Some(call),
                        "seed {seed}: {call} overtook {before:?}"
                    );
                }
            }
            Seen::Left { call, key } => {
                if keyed.contains_key(&call) {
                    assert_eq!(inside.remove(&key), Some(call), "seed {seed}");
                }
            }
            Seen::Answered { call, result, back } => {
                let of = calls.get_mut(&call).unwrap();
                of.1 += 1;
                (of.2, of.3) = (result, back);
            }
            Seen::Gone { registration } => gone.push(registration),
        }
    }
    for (call, (entered, answers, result, back)) in calls {
        assert_eq!(answers, 1, "seed {seed}: {call} has {answers} answers");
        assert!(entered <= 1, "seed {seed}: {call} entered {entered} times");
        assert!(
            !result || entered == 1,
            "seed {seed}: {call} has a result from nowhere"
        );
        assert!(
            !back || entered == 0,
            "seed {seed}: {call} ran, and its argument came back"
        );
        assert!(
            back || entered == 1,
            "seed {seed}: {call} lost its argument"
        );
        sums[match (result, back) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }] += 1;
    }
    assert!(inside.is_empty(), "seed {seed}: {inside:?} never left");
    sums
}

/// WK-09, SV-08, KY-01: exactly one answer for each call. An argument comes back if and only if the function was not
/// entered. Calls of one key never overlap nor overtake each other, and nothing runs after its service is gone.
/// Meanwhile calls, cancels, deadlines, registrations, unregistrations, panics and the end of the runtime meet.
#[test]
fn every_call_gets_one_answer() {
    limited(async || {
        let mut all = [0; 3];
        for seed in 1..=300 {
            let clock = TestClock::new();
            let run = move || run(seed, many(2, &clock), &clock);
            let sums = tokio::task::spawn_blocking(run).await.unwrap();
            all.iter_mut().zip(sums).for_each(|(all, one)| *all += one);
        }
        assert!(
            all.iter().all(|sum| *sum > 1000),
            "{all:?}: too few of a kind"
        );
    });
}

/// The same with a journal, in which calls take no part.
#[test]
fn every_call_gets_one_answer_with_a_journal() {
    limited(async || {
        for seed in 1..=10 {
            let clock = TestClock::new();
            let builder = many(2, &clock).journal_with(journal::MemoryJournal::default());
            let run = move || run(seed, builder, &clock);
            tokio::task::spawn_blocking(run).await.unwrap();
        }
    });
}
