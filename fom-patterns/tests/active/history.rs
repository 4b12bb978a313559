//! Active objects: random schedules, and a checker of their histories.
//!
//! A history is what callers saw (when they called, and the answer) and what the object saw (which requests ran, in
//! which order). The checker verifies from a history that each call was answered once, and ran if and only if its
//! answer says so. Requests of one priority must run in the order of their calls, as far as their guards let them. No
//! request of a higher priority may be passed over.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use fom_patterns::{
    active::{ActiveCallError, WhenFull},
    prelude::*,
};
use fom_runtime::time::TestClock;

use crate::kit::{Gate, limited, many, one};

/// A generator of numbers that can be repeated from its seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The object that is called: it notes what ran, and has a level for the guards.
#[derive(Default)]
struct Tank {
    level: u64,
    ran: Arc<Mutex<Vec<u64>>>,
}

#[active]
impl Tank {
    pub fn fill(&mut self, call: u64) -> u64 {
        self.level += 1;
        self.note(call)
    }

    #[when(self.level > 0)]
    pub fn drain(&mut self, call: u64) -> u64 {
        self.level -= 1;
        self.note(call)
    }

    #[active(priority = "high")]
    pub fn look(&mut self, call: u64) -> u64 {
        self.note(call)
    }

    #[active(priority = "low")]
    #[when(self.level > 1)]
    pub fn skim(&mut self, call: u64) -> u64 {
        self.level -= 2;
        self.note(call)
    }

    pub fn fail(&mut self, call: u64) -> u64 {
        self.note(call);
        panic!("call {call}")
    }

    pub async fn slowly(&mut self, call: u64) -> u64 {
        tokio::task::yield_now().await;
        self.level += 1;
        tokio::task::yield_now().await;
        self.note(call)
    }

    fn note(&self, call: u64) -> u64 {
        self.ran.lock().unwrap().push(call);
        call
    }
}

/// An entry in the model's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fill,
    Drain,
    Look,
    Skim,
    Fail,
    Slowly,
}

const KINDS: [Kind; 6] = [
    Kind::Fill,
    Kind::Drain,
    Kind::Look,
    Kind::Skim,
    Kind::Fail,
    Kind::Slowly,
];

impl Kind {
    fn rank(self) -> u8 {
        match self {
            Self::Look => 0,
            Self::Skim => 2,
            _ => 1,
        }
    }

    fn needs(self) -> u64 {
        match self {
            Self::Drain => 1,
            Self::Skim => 2,
            _ => 0,
        }
    }

    fn call(self, tank: &TankProxy, call: u64) -> fom_patterns::active::Call<u64> {
        match self {
            Self::Fill => tank.fill(call),
            Self::Drain => tank.drain(call),
            Self::Look => tank.look(call),
            Self::Skim => tank.skim(call),
            Self::Fail => tank.fail(call),
            Self::Slowly => tank.slowly(call),
        }
    }

    fn run(self, level: &mut u64) {
        match self {
            Self::Fill | Self::Slowly => *level += 1,
            _ => *level -= self.needs(),
        }
    }
}

/// AO-02, AO-05, SM-18: what is queued at one time runs exactly as the rule says. Of the requests with true guards, the
/// highest priority runs first, and of these the oldest. A cancelled request is as if it had never been called.
#[test]
fn one_batch_runs_as_the_rule_says() {
    limited(|| async {
        for seed in 1..=150 {
            let mut draw = Draw(seed * 0x9e37_79b9);
            let runtime = one(&TestClock::new()).build().unwrap();
            let tank = Tank::default();
            let ran = Arc::clone(&tank.ran);
            let tank = tank.activate(&runtime).unwrap();
            let gate = Gate::close(&runtime, 0);
            let mut calls = Vec::new();
            for number in 0..draw.below(40) + 1 {
                let kind = KINDS[draw.below(6) as usize];
                calls.push((number, kind, kind.call(&tank, number)));
            }
            let mut listed = Vec::new();
            for (number, kind, call) in &calls {
                if draw.below(5) == 0 {
                    call.cancel();
                } else {
                    listed.push((kind.rank(), *number, *kind));
                }
            }
            // The model: the rule, taken literally.
            listed.sort_by_key(|(rank, number, _)| (*rank, *number));
            let (mut level, mut expected) = (0, Vec::new());
            while let Some(at) = listed.iter().position(|(.., kind)| level >= kind.needs()) {
                let (_, number, kind) = listed.remove(at);
                kind.run(&mut level);
                expected.push(number);
            }
            drop(tank);
            gate.open();
            for (number, kind, call) in calls {
                let has_run = expected.contains(&number);
                match call.await {
                    Ok(answer) => assert!(has_run && answer == number, "seed {seed}"),
                    Err(ActiveCallError::Panicked(_)) => assert!(has_run && kind == Kind::Fail),
                    Err(ActiveCallError::Cancelled | ActiveCallError::Ended) => {
                        assert!(!has_run, "seed {seed}: {number}");
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            assert_eq!(*ran.lock().unwrap(), expected, "seed {seed}");
        }
    });
}

/// AO-02, AO-05: many threads call, cancel and drop while the object runs, with little room. Each call is answered
/// once, and it ran if and only if its answer says so. Calls of one thread without guards run in their order.
#[test]
fn every_call_is_answered_once() {
    limited(|| async {
        for seed in 1..=12_u64 {
            let runtime = many(2, &TestClock::new()).build().unwrap();
            let tank = Tank::default();
            let ran = Arc::clone(&tank.ran);
            let when_full = [WhenFull::Refuse, WhenFull::Wait][(seed % 2) as usize];
            let tank = tank.activation().capacity(5).when_full(when_full);
            let tank = tank.start(&runtime).unwrap();
            let numbers = Arc::new(AtomicU64::new(0));
            let answers = Arc::new(Mutex::new(Vec::new()));
            let callers: Vec<_> = (0..4)
                .map(|caller| {
                    let (tank, numbers) = (tank.clone(), Arc::clone(&numbers));
                    let answers = Arc::clone(&answers);
                    thread::spawn(move || {
                        let mut draw = Draw((seed << 8 | caller) * 0x9e37_79b9 + 1);
                        let mut mine = Vec::new();
                        for _ in 0..100 {
                            // Called by this thread in this order.
                            let number = numbers.fetch_add(1, SeqCst);
                            let kind =
                                [Kind::Fill, Kind::Slowly, Kind::Look][draw.below(3) as usize];
                            let answers = Arc::clone(&answers);
                            let call = kind.call(&tank, number).observe(move |answer| {
                                let ran = answer.is_ok();
                                answers.lock().unwrap().push((number, kind, ran));
                            });
                            match draw.below(4) {
                                0 => call.cancel(),
                                1 => {
                                    // Any outcome will do.
                                    let _ = call.wait();
                                    mine.push(number);
                                    continue;
                                }
                                2 => {
                                    drop(call);
                                    mine.push(number);
                                    continue;
                                }
                                _ => {}
                            }
                            mine.push(number);
                            let _ = call.wait();
                        }
                        mine
                    })
                })
                .collect();
            let mine: Vec<_> = callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .collect();
            drop(tank);
            runtime.idle().await;
            let (ran, answers) = (ran.lock().unwrap(), answers.lock().unwrap());
            let mut answered: Vec<_> = answers.iter().map(|(number, ..)| *number).collect();
            answered.sort_unstable();
            let all: Vec<_> = (0..numbers.load(SeqCst)).collect();
            assert_eq!(answered, all, "seed {seed}: each is answered, and once");
            for (number, _, said) in answers.iter() {
                let times = ran.iter().filter(|ran| *ran == number).count();
                assert_eq!(times, usize::from(*said), "seed {seed}: call {number}");
            }
            for (caller, mine) in mine.iter().enumerate() {
                for rank in [0, 1] {
                    let of_rank = |number: &&u64| {
                        let of = answers.iter().find(|(of, ..)| of == *number);
                        mine.contains(number) && of.is_some_and(|(_, kind, _)| kind.rank() == rank)
                    };
                    let order: Vec<_> = ran.iter().filter(of_rank).collect();
                    assert!(order.is_sorted(), "seed {seed}, caller {caller}: {order:?}");
                }
            }
        }
    });
}
