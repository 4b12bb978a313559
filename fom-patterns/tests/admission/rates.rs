//! Token buckets: exact, never late, and changed while they are in use.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_patterns::{
    admission::{Admission, ConfigError, Rate, Rule, Rules, Share, TokenBuckets},
    prelude::*,
};
use fom_runtime::time::{Instant, TestClock};

use crate::kit::{limited, many, millis, one, secs};
use crate::queue::{Quick, Random, Starts};

/// The client and the time of each start.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

struct Dated {
    client: u64,
    log: Log,
}

#[fom(operation(Dated), transient)]
enum DatedPhase {
    #[phase(start, sync, to(Done))]
    Serve,
    #[phase(end)]
    Done,
}

impl DatedPhaseTransitions for Dated {
    fn serve(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.log
            .lock()
            .unwrap()
            .push((self.client, cx.now() - Instant::START));
        Ok(())
    }
}

/// A plain model of a bucket, in thousandths of a token.
struct Model {
    milli: u64,
    queued: u64,
}

/// NR-05, NR-06, trap 27 (as `tbf_verify`): as many requests start as there are tokens, for random arrivals, steps of
/// the clock and numbers of localities. In any stretch of time at most `burst + rate * time` requests start, and no
/// request waits while there is a token.
#[test]
fn rates_are_exact() {
    limited(|| async {
        for seed in 1..=12 {
            let mut random = Random::new(seed);
            let clock = TestClock::new();
            let runtime = many(1 + random.below(3), &clock).build().unwrap();
            let (per_second, burst) = ([1, 4, 10, 125, 1000][random.below(5)], 1 + random.below(9));
            let rate = Rate::per_second(per_second).unwrap();
            let rate = rate.burst(burst as u64).unwrap();
            let intake = Admission::builder(&runtime)
                .in_flight(1000)
                .marks(9_999, 10_000)
                .policy(TokenBuckets::per_client(rate))
                .build()
                .unwrap();
            let log = Log::default();
            let full = burst as u64 * 1000;
            let mut models: HashMap<u64, Model> = HashMap::new();
            for _ in 0..60 {
                for _ in 0..random.below(20) {
                    let client = random.below(3) as u64;
                    let dated = Dated {
                        client,
                        log: Arc::clone(&log),
                    };
                    intake.submit(dated).client(client).detach().unwrap();
                    let model = models.entry(client).or_insert(Model {
                        milli: full,
                        queued: 0,
                    });
                    model.queued += 1;
                }
                runtime.quiet().await;
                for (client, model) in &mut models {
                    let given = model.queued.min(model.milli / 1000);
                    model.milli -= given * 1000;
                    model.queued -= given;
                    let status = intake.status().await;
                    let queue = status
                        .queues
                        .iter()
                        .find(|queue| queue.client == Some((*client).into()));
                    let queued = queue.map_or(0, |queue| queue.queued as u64);
                    assert_eq!(queued, model.queued, "seed {seed}, client {client}");
                }
                let step = [0, 1, 7, 50, 333][random.below(5)];
                clock.advance(millis(step));
                for model in models.values_mut() {
                    model.milli = (model.milli + step * per_second).min(full);
                }
            }
            let log = log.lock().unwrap().clone();
            for client in 0..3 {
                let times: Vec<_> = log.iter().filter(|(of, _)| *of == client).collect();
                for (first, (_, from)) in times.iter().enumerate() {
                    for (last, (_, to)) in times.iter().enumerate().skip(first) {
                        let most = burst as f64 + (*to - *from).as_secs_f64() * per_second as f64;
                        let count = last - first + 1;
                        assert!(count as f64 <= most + 1e-6, "seed {seed}: {count} > {most}");
                    }
                }
            }
        }
    });
}

struct Limited {
    clock: TestClock,
    runtime: Runtime,
    intake: Admission,
    rules: Rules,
    starts: Starts,
}

impl Limited {
    fn new(per_second: u64) -> Self {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let buckets = TokenBuckets::new(rate(per_second), Share::Client);
        let rules = buckets.rules();
        let intake = Admission::builder(&runtime)
            .marks(9_999, 10_000)
            .policy(buckets)
            .build()
            .unwrap();
        Self {
            clock,
            runtime,
            intake,
            rules,
            starts: Starts::default(),
        }
    }

    /// The letter is the client; the text after a point is the class.
    fn submit(&self, names: &str) {
        for name in names.split_whitespace() {
            let quick = Quick {
                name: name.to_owned(),
                starts: self.starts.clone(),
            };
            let mut tagged = self.intake.submit(quick).client(&name[..1]);
            if let Some((_, class)) = name.split_once('.') {
                tagged = tagged.class(class);
            }
            tagged.detach().unwrap();
        }
    }

    async fn after(&self, time: Duration) -> String {
        self.clock.advance(time);
        self.runtime.quiet().await;
        self.starts.line()
    }
}

fn rate(per_second: u64) -> Rate {
    Rate::per_second(per_second).unwrap().burst(1).unwrap()
}

/// NR-04, 77e, 77k, 77n: rules by client, class and operation, alone and together, with wildcards. The newest matching
/// rule applies, and the default last.
#[test]
fn the_newest_rule_that_matches_applies() {
    limited(|| async {
        let it = Limited::new(1);
        let bulk = Rule::new("bulk", rate(10)).unwrap().class("b*");
        it.rules.start(bulk.share(Share::All)).unwrap();
        let both = Rule::new("both", rate(100)).unwrap();
        it.rules
            .start(both.client("z").class("*k").operation("Qu*"))
            .unwrap();
        it.submit("a1 a2 x1.bulk y1.bulk z1.bulk z2.bulk");
        assert_eq!(it.after(millis(0)).await, "a1 x1.bulk z1.bulk");
        assert_eq!(it.after(millis(10)).await, "z2.bulk");
        assert_eq!(it.after(millis(90)).await, "y1.bulk");
        assert_eq!(it.after(millis(900)).await, "a2");
    });
}

/// NR-07, 77g, 77i: a change of the rules applies at once to the queued requests and to the timer.
#[test]
fn a_change_of_rules_takes_hold_of_what_is_queued() {
    limited(|| async {
        let it = Limited::new(1);
        it.submit("a1 a2 a3 a4");
        assert_eq!(it.after(millis(0)).await, "a1");
        // Ten times as fast: the next is due in a tenth of the time.
        it.rules.set_rate("default", rate(10)).unwrap();
        it.runtime.quiet().await;
        assert_eq!(it.after(millis(99)).await, "");
        assert_eq!(it.after(millis(1)).await, "a2");
        // A rule of its own means another bucket, which is full.
        it.rules
            .start(Rule::new("own", rate(1)).unwrap().client("a"))
            .unwrap();
        assert_eq!(it.after(millis(0)).await, "a3");
        // The rule is gone again: the old bucket is as it was.
        it.rules.stop("own").unwrap();
        assert_eq!(it.after(millis(99)).await, "");
        assert_eq!(it.after(millis(1)).await, "a4");
    });
}

/// NR-07, 77i, 77o: ranks decide which rule applies, and ranking a rule again does no harm.
#[test]
fn rules_are_ranked() {
    limited(|| async {
        let it = Limited::new(1);
        for name in ["one", "two", "three"] {
            it.rules.start(Rule::new(name, rate(5)).unwrap()).unwrap();
        }
        let names = || {
            let rules = it.rules.list();
            let names: Vec<_> = rules.iter().map(|rule| rule.name().to_owned()).collect();
            names.join(" ")
        };
        assert_eq!(names(), "three two one default");
        it.rules.rank("one", "three").unwrap();
        assert_eq!(names(), "one three two default");
        it.rules.rank("one", "default").unwrap();
        assert_eq!(names(), "three two one default");
        it.rules.rank("one", "one").unwrap();
        assert_eq!(names(), "three two one default");
    });
}

/// NR-09, 77h, 77p: wrong rules are errors, and change nothing.
#[test]
fn wrong_rules_are_errors() {
    limited(|| async {
        let it = Limited::new(1);
        for name in ["", "a b", "ü", "a=b", &"x".repeat(65)] {
            let error = Rule::new(name, rate(1)).unwrap_err();
            assert_eq!(error, ConfigError::RuleName(name.to_owned()));
        }
        it.rules.start(Rule::new("x", rate(1)).unwrap()).unwrap();
        for name in ["x", "default"] {
            let twice = it.rules.start(Rule::new(name, rate(1)).unwrap());
            assert_eq!(twice, Err(ConfigError::RuleExists(name.to_owned())));
        }
        let missing = Err(ConfigError::NoSuchRule("y".to_owned()));
        assert_eq!(it.rules.stop("y"), missing);
        assert_eq!(it.rules.set_rate("y", rate(1)), missing);
        assert_eq!(it.rules.rank("y", "x"), missing);
        assert_eq!(it.rules.rank("x", "y"), missing);
        assert_eq!(it.rules.stop("default"), Err(ConfigError::DefaultRule));
        assert_eq!(it.rules.rank("default", "x"), Err(ConfigError::DefaultRule));
        assert_eq!(it.rules.list().len(), 2);
        it.submit("a1");
        assert_eq!(it.after(millis(0)).await, "a1");
    });
}

/// NR-07, 77q: many threads that change rules while requests come lose nothing.
#[test]
fn rules_changed_by_many_threads_lose_nothing() {
    limited(|| async {
        let it = Arc::new(Limited::new(1_000_000));
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let it = Arc::clone(&it);
                std::thread::spawn(move || {
                    for round in 0..200 {
                        it.submit("a b c");
                        let name = format!("rule-{number}");
                        match round % 4 {
                            0 => it
                                .rules
                                .start(Rule::new(name, rate(500_000)).unwrap().client("a"))
                                .unwrap(),
                            1 => it.rules.set_rate(&name, rate(1000)).unwrap(),
                            2 => it.rules.rank(&name, "default").unwrap(),
                            _ => it.rules.stop(&name).unwrap(),
                        }
                    }
                })
            })
            .collect();
        while !threads.iter().all(std::thread::JoinHandle::is_finished) {
            it.clock.advance(millis(1));
            it.runtime.quiet().await;
        }
        for thread in threads {
            thread.join().unwrap();
        }
        while it.intake.queued() > 0 {
            it.clock.advance(millis(1));
            it.runtime.quiet().await;
        }
        it.runtime.idle().await;
        assert_eq!(it.starts.len(), 3 * 200 * 3);
    });
}

/// NR-06, LO-07: a throttled queue sets one timer, and nothing runs until it fires.
#[test]
fn a_throttled_queue_does_not_poll() {
    limited(|| async {
        let it = Limited::new(1);
        it.submit("a1 a2 b1 b2");
        assert_eq!(it.after(millis(0)).await, "a1 b1");
        let status = it.intake.status().await;
        assert_eq!(status.throttled_for, Some(secs(1)));
        assert_eq!((status.queued, it.runtime.operations().queued), (2, 2));
        assert!(status.to_string().contains("throttled for 1s"), "{status}");
        assert_eq!(it.after(millis(999)).await, "");
        assert_eq!(it.after(millis(1)).await, "a2 b2");
        assert_eq!(it.intake.status().await.throttled_for, None);
    });
}
