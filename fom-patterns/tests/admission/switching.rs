//! Policies that change under load, decline requests, or misbehave: nothing is lost, and each client keeps its order.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fom_patterns::{
    admission::{Admission, Next, Nudge, Policy, Queued, Request, Tags},
    prelude::*,
};
use fom_runtime::{
    Key,
    time::{Instant, TestClock},
};

use crate::kit::{self, limited, many, millis, one};
use crate::queue::{Held, Random, Slow};

/// Client and number, in the order of the starts.
type History = Arc<Mutex<Vec<(u64, u64)>>>;

struct Numbered {
    client: u64,
    number: u64,
    history: History,
}

#[fom(operation(Numbered), transient)]
enum NumberedPhase {
    #[phase(start, sync, to(Done))]
    Serve,
    #[phase(end)]
    Done,
}

impl NumberedPhaseTransitions for Numbered {
    fn serve(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let line = (self.client, self.number);
        self.history.lock().unwrap().push(line);
        Ok(())
    }
}

/// Policies that keep the order of a client if its requests have one priority, one object and ascending keys.
const LINES: [&str; 7] = [
    "fifo",
    "crr quantum=1",
    "crr quantum=3",
    "tbf rate=2000 burst=2",
    "edf default=1s",
    "priorities most=2",
    "batches quantum=4",
];

/// NR-01, NR-02, 77g, 77r: in any order of submissions, cancels and policy changes, every request starts once or is
/// cancelled. No request overtakes another request of its client.
#[test]
fn changes_under_load_lose_and_reorder_nothing() {
    limited(|| async {
        for seed in 1..=16 {
            let mut random = Random::new(seed);
            let clock = TestClock::new();
            // One locality keeps the order of the starts; with several localities, only one fom at a time may run.
            let (localities, in_flight) = match random.below(2) {
                0 => (1, 1 + random.below(8)),
                _ => (1 + random.below(3), 1),
            };
            let runtime = many(localities, &clock).build().unwrap();
            let intake = Admission::builder(&runtime)
                .in_flight(in_flight)
                .marks(49_999, 50_000)
                .policy(
                    LINES[random.below(LINES.len())]
                        .parse::<Box<dyn Policy>>()
                        .unwrap(),
                )
                .build()
                .unwrap();
            let history = History::default();
            let cancelled = Arc::new(AtomicUsize::new(0));
            const CLIENTS: u64 = 3;
            const REQUESTS: u64 = 300;
            let threads: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (intake, history) = (intake.clone(), Arc::clone(&history));
                    let cancelled = Arc::clone(&cancelled);
                    let mut random = Random::new(seed * 100 + client);
                    std::thread::spawn(move || {
                        let priority = [Priority::High, Priority::Normal, Priority::Low];
                        for number in 0..REQUESTS {
                            let operation = Numbered {
                                client,
                                number,
                                history: Arc::clone(&history),
                            };
                            let queued = intake
                                .submit(operation)
                                .client(client)
                                .object(client, number)
                                .priority(priority[client as usize])
                                .start()
                                .unwrap();
                            if random.below(10) == 0 {
                                queued.cancel();
                                if queued.wait().is_err() {
                                    cancelled.fetch_add(1, SeqCst);
                                }
                            }
                        }
                    })
                })
                .collect();
            while !threads.iter().all(std::thread::JoinHandle::is_finished) {
                if random.below(3) == 0 {
                    let policy = LINES[random.below(LINES.len())].parse::<Box<dyn Policy>>();
                    intake.set_policy(policy.unwrap());
                    // No faster than the change takes: each change looks at all that is queued.
                    let _ = intake.status().await;
                }
                clock.advance(millis(1));
                runtime.quiet().await;
            }
            for thread in threads {
                thread.join().unwrap();
            }
            while intake.queued() > 0 {
                clock.advance(millis(1));
                runtime.quiet().await;
            }
            runtime.idle().await;
            let history = history.lock().unwrap().clone();
            let mut last: HashMap<u64, u64> = HashMap::new();
            for (client, number) in &history {
                if let Some(before) = last.insert(*client, *number) {
                    assert!(before < *number, "seed {seed}: {client} {before} {number}");
                }
            }
            let cancelled = cancelled.load(SeqCst);
            let all = (CLIENTS * REQUESTS) as usize;
            // A request may be cancelled just after its start: then both counts have it.
            assert!(history.len() <= all && history.len() + cancelled >= all);
            let status = intake.status().await;
            assert_eq!((status.queued, status.running), (0, 0), "seed {seed}");
            assert_eq!(status.ended + status.cancelled, all as u64, "seed {seed}");
        }
    });
}

/// NR-02, 77g: the old policy serves what it has, in turns with the new policy. A client's newer requests wait for its
/// older requests; other clients do not wait.
#[test]
fn the_old_policy_is_emptied_beside_the_new_one() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = Held::new(Admission::builder(&runtime)).await;
        held.detach_all("a1 a2 b1");
        held.intake
            .set_policy("edf default=1s".parse::<Box<dyn Policy>>().unwrap());
        held.detach_all("a3 c1 c2 b2");
        let status = held.intake.status().await;
        let lines: Vec<_> = status
            .policies
            .iter()
            .map(|policy| (policy.name.as_str(), policy.queued, policy.in_use))
            .collect();
        // No policy has a3 and b2 yet.
        assert_eq!(
            lines,
            [
                ("fifo", 0, false),
                ("fifo", 3, false),
                ("edf default=1s", 2, true)
            ]
        );
        assert_eq!(status.queued, 7);
        assert_eq!(held.order(&runtime).await, "c1 a1 c2 a2 a3 b1 b2");
        assert_eq!(held.intake.status().await.policies.len(), 2);
    });
}

/// Serves the newest request first, and declines the requests of clients with a name that begins with `x`.
#[derive(Default)]
struct Picky {
    queue: VecDeque<Request>,
    ended: Arc<Mutex<Vec<u64>>>,
    panics: Option<&'static str>,
    drops: bool,
    mute: bool,
    nudge: Arc<Mutex<Option<Nudge>>>,
    open: Option<Arc<AtomicBool>>,
    _bomb: Bomb,
}

impl Picky {
    fn may_panic(&self, at: &str) {
        assert!(self.panics != Some(at), "told to panic at {at}");
    }
}

impl Policy for Picky {
    fn name(&self) -> &str {
        "picky"
    }
    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        let declines = matches!(request.client(), Some(Key::Text(name)) if name.starts_with('x'));
        if declines {
            return Err(request);
        }
        if self.queue.len() == 1 {
            self.may_panic("enqueue");
        }
        if self.drops && request.number().is_multiple_of(2) {
            return Ok(());
        }
        self.queue.push_front(request);
        Ok(())
    }
    fn get(&mut self, now: Instant, force: bool) -> Next {
        self.may_panic("get");
        let closed = self.open.as_ref().is_some_and(|open| !open.load(SeqCst));
        if closed && !force {
            return Next::Throttled(now + Duration::from_secs(1_000_000));
        }
        if self.mute {
            return Next::Empty;
        }
        self.queue.pop_front().map_or(Next::Empty, Next::Request)
    }
    fn remove(&mut self, request: &Tags) -> Option<Request> {
        self.may_panic("remove");
        let number = request.number();
        let place = self.queue.iter().position(|mine| mine.number() == number)?;
        self.queue.remove(place)
    }
    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.may_panic("visit");
        self.queue.iter().for_each(|request| visitor(request));
    }
    fn ended(&mut self, request: &Tags) {
        self.may_panic("ended");
        self.ended.lock().unwrap().push(request.number());
    }
    fn attached(&mut self, nudge: Nudge) {
        *self.nudge.lock().unwrap() = Some(nudge);
    }
}

/// Panics when it is dropped.
#[derive(Default)]
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0, "told to panic at drop");
    }
}

/// NR-01: a policy of the user. A request that it declines waits in the queue behind it, and is served in turns with
/// the rest. The policy hears of each end of its own requests.
#[test]
fn what_a_policy_declines_is_not_lost() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let picky = Picky {
            ended: Arc::clone(&ended),
            ..Picky::default()
        };
        let mut held = Held::new(Admission::builder(&runtime).policy(picky)).await;
        held.detach_all("a x1 b x2 c");
        assert_eq!(held.intake.status().await.policies[1].declined, 2);
        assert_eq!(held.order(&runtime).await, "x1 c x2 b a");
        // The holder, and the policy's own three requests.
        let _ = held.intake.status().await;
        assert_eq!(*ended.lock().unwrap(), [0, 5, 3, 1]);
    });
}

/// First in, first out. The caller gives its operation up in the moment in which the operation gets its turn.
struct GivenUp {
    queue: VecDeque<Request>,
    caller: Arc<Mutex<Option<Queued<Slow>>>>,
}

impl Policy for GivenUp {
    fn name(&self) -> &str {
        "given up"
    }
    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.queue.push_back(request);
        Ok(())
    }
    fn get(&mut self, _: Instant, _: bool) -> Next {
        let next = self.queue.pop_front();
        if next.is_some()
            && let Some(caller) = self.caller.lock().unwrap().take()
        {
            caller.cancel();
        }
        next.map_or(Next::Empty, Next::Request)
    }
    fn remove(&mut self, request: &Tags) -> Option<Request> {
        let number = request.number();
        let place = self.queue.iter().position(|mine| mine.number() == number)?;
        self.queue.remove(place)
    }
    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.queue.iter().for_each(|request| visitor(request));
    }
}

/// A cancel is not lost when the caller drops its handle and the operation starts in the same moment.
#[test]
fn an_operation_that_is_given_up_while_it_starts_is_cancelled() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let caller = Arc::default();
        let policy = GivenUp {
            queue: VecDeque::new(),
            caller: Arc::clone(&caller),
        };
        let mut held = Held::new(Admission::builder(&runtime).policy(policy)).await;
        let slow = Slow {
            name: "a".into(),
            starts: held.starts.clone(),
        };
        let queued = held.intake.submit(slow).start().unwrap();
        *caller.lock().unwrap() = Some(queued);
        held.go().await;
        // Without the cancel, the operation waits for an event forever.
        runtime.idle().await;
        assert_eq!(held.intake.status().await.running, 0);
    });
}

/// NR-01: a policy that panics, drops requests, or does not hand them out is removed or worked around, and reported.
/// Its requests are served.
#[test]
fn a_bad_policy_loses_nothing() {
    limited(|| async {
        for panics in ["enqueue", "get", "remove", "visit", "ended", "drop"] {
            let runtime = one(&TestClock::new()).build().unwrap();
            let mut held = Held::new(Admission::builder(&runtime)).await;
            held.intake.set_policy(Picky {
                panics: Some(panics),
                _bomb: Bomb(panics == "drop"),
                ..Picky::default()
            });
            held.detach_all("a b c");
            let d = held.of_client("d").start().unwrap();
            d.cancel();
            let _ = held.intake.status().await;
            if panics == "drop" {
                held.intake
                    .set_policy("fifo".parse::<Box<dyn Policy>>().unwrap());
            }
            let mut order: Vec<_> = held.order(&runtime).await.chars().collect();
            order.sort_unstable();
            let served: String = order.into_iter().collect();
            let served = served.trim();
            assert!(served == "abc" || served == "abcd", "{panics}: {served}");
            drop(d);
            let incidents = runtime.operations().incidents;
            assert_eq!(incidents.len(), 1, "{panics}: {incidents:?}");
            assert!(incidents[0].text.contains(panics), "{incidents:?}");
        }
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = Held::new(Admission::builder(&runtime)).await;
        held.intake.set_policy(Picky {
            drops: true,
            ..Picky::default()
        });
        held.detach_all("a b c d");
        assert_eq!(held.order(&runtime).await.len(), "a b c d".len());
        // A policy that hands out no request is found out when the runtime drains.
        let mut held = Held::new(Admission::builder(&runtime)).await;
        held.intake.set_policy(Picky {
            mute: true,
            ..Picky::default()
        });
        held.detach_all("a b");
        held.go().await;
        let report = runtime.shutdown(Shutdown::Drain, kit::secs(20)).await;
        assert!(report.remained.is_empty());
        assert_eq!(held.starts.len(), 3);
    });
}

/// NR-06: if the settings of a policy change from outside, the policy has the queue look again.
#[test]
fn a_nudge_makes_the_queue_look_again() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (open, nudge) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let picky = Picky {
            open: Some(Arc::clone(&open)),
            nudge: Arc::clone(&nudge),
            ..Picky::default()
        };
        let mut held = Held::new(Admission::builder(&runtime).policy(picky)).await;
        open.store(false, SeqCst);
        held.detach_all("a");
        held.go().await;
        runtime.quiet().await;
        assert_eq!(held.starts.line(), "holder");
        open.store(true, SeqCst);
        let nudge = nudge.lock().unwrap().clone().unwrap();
        nudge.nudge();
        runtime.quiet().await;
        assert_eq!(held.starts.line(), "a");
        drop((held, runtime));
        // To an intake that is gone.
        nudge.nudge();
    });
}
