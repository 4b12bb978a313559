//! Clusters with faults. Each transfer between accounts of different slots is booked once, and letters keep their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, ClusterCxExt as _, ClusterError, NotStarted, Slot};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use fom_runtime::error::RefusedReason;
use fom_sim::{self as sim, Process, Sim};
use serde::{Deserialize, Serialize};

use crate::kit::Simulated;

const SECOND: Duration = Duration::from_secs(1);
const ACCOUNTS: u32 = 3;
const CLIENTS: u32 = 3;
const TRANSFERS: u32 = 3;

/// What phases have seen, in the order in which it happened.
#[derive(Clone, Debug, Default)]
struct World(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The term in which each phase function was entered last, by the name of the operation.
    terms: BTreeMap<String, u64>,
    /// Effects of former owners after those of later ones.
    stale: u32,
    /// The step keys of each visit.
    keys: BTreeMap<(String, u32), BTreeSet<String>>,
}

impl World {
    /// Notes that a phase function was entered.
    fn enters<E>(&self, cx: &Cx<'_, E>, name: String, step: u32) {
        let mut seen = self.0.lock().unwrap();
        let term = cx.term().expect("a lease");
        let before = seen.terms.insert(name.clone(), term);
        if before.is_some_and(|before| before > term) {
            seen.stale += 1;
        }
        let key = cx.step_key().to_string();
        seen.keys.entry((name, step)).or_default().insert(key);
    }
}

/// Moves money between two accounts: one part after the other.
#[derive(Serialize, Deserialize)]
struct Transfer {
    number: u32,
    from: u32,
    to: u32,
}

#[fom(operation(Transfer))]
enum Moving {
    #[phase(start, to(Deposit))]
    Withdraw,
    #[phase(to(Done))]
    Deposit,
    #[phase(end)]
    Done,
}

impl MovingTransitions for Transfer {
    async fn withdraw(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<World>()
            .enters(cx, format!("transfer {}", self.number), 0);
        cx.sleep(SECOND / 2).await;
        let booking = Booking::Book {
            transfer: self.number,
            cents: -i64::from(self.number),
        };
        cx.letters().send::<Account>(account(self.from), booking)?;
        Ok(())
    }

    async fn deposit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<World>()
            .enters(cx, format!("transfer {}", self.number), 1);
        let booking = Booking::Book {
            transfer: self.number,
            cents: i64::from(self.number),
        };
        cx.letters().send::<Account>(account(self.to), booking)?;
        Ok(())
    }
}

/// An account. It ends when it has so many bookings.
#[derive(Serialize, Deserialize)]
struct Account {
    number: u32,
    expects: usize,
    balance: i64,
    booked: Vec<(u32, bool)>,
}

#[derive(Serialize, Deserialize)]
enum Booking {
    Book { transfer: u32, cents: i64 },
}

#[fom(operation(Account), event(Booking))]
enum Keeping {
    #[phase(start, sync, on(Book), to(Open, Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl KeepingTransitions for Account {
    fn open(
        &mut self,
        cx: &mut Cx<'_, Booking>,
        event: Booking,
    ) -> Result<KeepingAfterOpen, BoxError> {
        let Booking::Book { transfer, cents } = event;
        // The order of letters from different slots may be another one for the next owner. A booking has its key in each order.
        let booking = 2 * transfer + u32::from(cents > 0);
        cx.resource::<World>()
            .enters(cx, format!("account {}", self.number), booking);
        self.balance += cents;
        self.booked.push((transfer, cents > 0));
        Ok(match self.booked.len() < self.expects {
            true => KeepingAfterOpen::Open,
            false => KeepingAfterOpen::Closed,
        })
    }
}

fn bank(builder: ClusterBuilder) -> ClusterBuilder {
    // A client may ask again after hours.
    let days = SECOND * 86_400 * 100;
    let builder = builder.operation::<Transfer>().operation::<Account>();
    builder.runtime(move |builder| builder.remember(10_000, days))
}

/// Returns the key of an account.
fn account(number: u32) -> String {
    format!("account {number}")
}

/// Returns the two accounts of a transfer.
fn accounts_of(number: u32) -> (u32, u32) {
    (number % ACCOUNTS, (number + 1) % ACCOUNTS)
}

/// Submits an operation until it has started, from any node, and waits until it has ended.
async fn carry_out<O: Persistent>(
    nodes: &[Process<Cluster>],
    first: usize,
    key: fom_runtime::Key,
    make: impl Fn() -> O + Clone + Send + 'static,
) -> fom_runtime::submission::Ended<O>
where
    O::Error: fmt::Debug,
{
    for node in nodes.iter().cycle().skip(first) {
        let (key, make) = (key.clone(), make.clone());
        let asked = node.call(async move |cluster: Cluster| {
            let submission = cluster.submit(make()).key(key).once("the one");
            match submission.start().await {
                Ok(started) => started.await,
                Err(NotStarted { reason, .. }) => Err(reason),
            }
        });
        match asked.await {
            Ok(Ok(outcome)) => return outcome.expect("it ends well"),
            // The node was killed, or leaves, or the slot has no owner for long: another node may know it.
            Err(_) | Ok(Err(ClusterError::NoOwner { .. } | ClusterError::Left)) => {}
            // The fom ran when three owners seemed to die. It comes back when one of them turns out to live.
            Ok(Err(
                ClusterError::Quarantined | ClusterError::Refused(RefusedReason::Quarantined),
            )) => sim::sleep(SECOND),
            Ok(Err(error)) => panic!("{error}"),
        }
    }
    unreachable!("there are nodes")
}

/// Runs the bank with faults, and checks that each booking was made once and in order.
fn transfers(
    sim: &mut Sim,
    faults: impl FnOnce(&mut fom_sim::Chaos) -> &mut fom_sim::Chaos,
) -> World {
    let faults = |chaos: &mut fom_sim::Chaos| {
        faults(chaos);
    };
    transfers_while(sim, faults, |_, _| {})
}

/// As [`transfers`], with something else at the same time.
fn transfers_while(
    sim: &mut Sim,
    faults: impl FnOnce(&mut fom_sim::Chaos),
    also: impl FnOnce(&mut Sim, &[Process<Cluster>]),
) -> World {
    let (mut cluster, world) = (Simulated::new(), World::default());
    for name in ["a", "b", "c"] {
        cluster.start(sim, name, &world, bank);
    }
    cluster.wait_for_owners();
    let all = CLIENTS * TRANSFERS;
    let parts = (0..all).map(accounts_of).flat_map(|(from, to)| [from, to]);
    let expects = |account| parts.clone().filter(|one| *one == account).count();
    let open = move |number, expects| Account {
        number,
        expects,
        balance: 0,
        booked: Vec::new(),
    };
    // A letter to an account that is not there would be quarantined.
    for number in 0..ACCOUNTS {
        let node = cluster.nodes[0].get();
        let opened = node.submit(open(number, expects(number)));
        let started = opened.key(account(number)).once("the one").start();
        drop(block_on(started).unwrap());
    }
    sim.during(|chaos| {
        faults(chaos);
        chaos
    });
    also(sim, &cluster.nodes);
    for number in 0..ACCOUNTS {
        let (nodes, expects) = (cluster.nodes.clone(), expects(number));
        let expected: i64 = (0..all)
            .map(|transfer| {
                let (from, to) = accounts_of(transfer);
                i64::from(transfer) * (i64::from(to == number) - i64::from(from == number))
            })
            .sum();
        sim.spawn(async move {
            let again = move || open(number, expects);
            let key = account(number).into();
            let closed = carry_out(&nodes, number as usize, key, again)
                .await
                .operation;
            assert_eq!(
                closed.balance, expected,
                "account {number}: {:?}",
                closed.booked
            );
            let once: BTreeSet<_> = closed.booked.iter().collect();
            assert_eq!(once.len(), expects, "booked twice: {:?}", closed.booked);
        });
    }
    for client in 0..CLIENTS {
        let nodes = cluster.nodes.clone();
        sim.spawn(async move {
            for number in (client * TRANSFERS)..((client + 1) * TRANSFERS) {
                let (from, to) = accounts_of(number);
                let transfer = move || Transfer { number, from, to };
                let key = format!("transfer {number}").into();
                carry_out(&nodes, client as usize, key, transfer).await;
            }
        });
    }
    sim.settle(SECOND * 600);
    let seen = world.0.lock().unwrap();
    for (visit, keys) in &seen.keys {
        assert_eq!(keys.len(), 1, "{visit:?} has several step keys: {keys:?}");
    }
    drop(seen);
    world
}

#[test]
fn without_faults_each_booking_is_made_once() {
    sim::explore(0..50, |sim: &mut Sim| {
        let world = transfers(sim, |chaos| chaos);
        assert_eq!(world.0.lock().unwrap().stale, 0);
    });
}

#[test]
fn kills() {
    sim::explore(0..50, |sim: &mut Sim| {
        let world = transfers(sim, |chaos| {
            // The third death of the owners of a slot would put an operation into quarantine.
            let chaos = chaos.kill("a", 1).kill("b", 1);
            chaos.downtime(SECOND * 60)
        });
        assert_eq!(world.0.lock().unwrap().stale, 0);
    });
}

#[test]
fn lost_messages_and_late_requests() {
    sim::explore(0..50, |sim: &mut Sim| {
        let world = transfers(sim, |chaos| chaos.lose().delay(SECOND));
        assert_eq!(world.0.lock().unwrap().stale, 0);
    });
}

/// Changes the assignment, through any node, until the last change has let all slots go where they want to.
fn operate(sim: &mut Sim, nodes: &[Process<Cluster>]) {
    let nodes = nodes.to_vec();
    sim.spawn(async move {
        for round in 0..10 {
            sim::sleep(SECOND * sim::draw(8) as u32);
            let (slot, change) = (Slot(sim::draw(4) as u16), sim::draw(4));
            let name = ["a", "b", "c"][sim::draw(3) as usize];
            let asked = nodes[round % 3].call(async move |cluster: Cluster| {
                let operator = cluster.operator();
                match change {
                    0 => operator.drain(name).await,
                    1 => operator.undrain(name).await,
                    2 => operator.pin(slot, name).await,
                    _ => operator.unpin(slot).await,
                }
            });
            // The node or the engine may not answer.
            drop(asked.await);
        }
    });
}

#[test]
fn everything_at_once() {
    sim::explore(0..50, |sim: &mut Sim| {
        let faults = |chaos: &mut fom_sim::Chaos| {
            let chaos = chaos.kill("a", 1).kill("b", 1).downtime(SECOND * 60);
            let chaos = chaos.stop("b", 3, SECOND * 30).stop("c", 3, SECOND * 30);
            chaos.lose().delay(SECOND * 2).clock_jumps(SECOND * 3600);
        };
        transfers_while(sim, faults, operate);
    });
}

/// Beats until it has beaten so many times. It does not wait for commits, so only the lease keeps a former owner from beating.
#[derive(Serialize, Deserialize)]
struct Pulse {
    number: u32,
    left: u32,
}

#[fom(operation(Pulse), durability = "lazy")]
enum Beating {
    #[phase(start, to(Beat, Still))]
    Beat,
    #[phase(end)]
    Still,
}

impl BeatingTransitions for Pulse {
    async fn beat(&mut self, cx: &mut Cx<'_>) -> Result<BeatingAfterBeat, BoxError> {
        let name = format!("pulse {}", self.number);
        cx.resource::<World>().enters(cx, name, self.left);
        cx.sleep(SECOND / 4).await;
        self.left -= 1;
        Ok(match self.left {
            0 => BeatingAfterBeat::Still,
            _ => BeatingAfterBeat::Beat,
        })
    }
}

/// KY-11, I5: no phase function is entered after the lease is over. So none is entered after one was entered under a later term.
#[test]
fn functions_begin_under_one_term_after_the_other() {
    sim::explore(0..30, |sim: &mut Sim| {
        let (mut cluster, world) = (Simulated::new(), World::default());
        for name in ["a", "b", "c"] {
            cluster.start(sim, name, &world, |builder| builder.operation::<Pulse>());
        }
        cluster.wait_for_owners();
        sim.during(|chaos| {
            let chaos = chaos.kill("a", 1).kill("b", 1).downtime(SECOND * 60);
            chaos.lose().delay(SECOND * 2)
        });
        for number in 0..8 {
            let nodes = cluster.nodes.clone();
            sim.spawn(async move {
                let make = move || Pulse { number, left: 60 };
                let key = format!("pulse {number}").into();
                carry_out(&nodes, number as usize, key, make).await;
            });
        }
        sim.settle(SECOND * 600);
        let seen = world.0.lock().unwrap();
        assert_eq!(seen.stale, 0, "a former owner has entered a function");
    });
}

/// Sends its numbers to one reader, each with a transition.
#[derive(Serialize, Deserialize)]
struct Writer {
    number: u32,
    sent: u32,
}

#[fom(operation(Writer))]
enum Writing {
    #[phase(start, sync, to(Write, Written))]
    Write,
    #[phase(end)]
    Written,
}

const WRITERS: u32 = 3;
const NUMBERS: u32 = 5;

impl WritingTransitions for Writer {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<WritingAfterWrite, BoxError> {
        let line = Line::Number {
            writer: self.number,
            number: self.sent,
        };
        cx.letters().send::<Reader>("reader", line)?;
        self.sent += 1;
        Ok(match self.sent < NUMBERS {
            true => WritingAfterWrite::Write,
            false => WritingAfterWrite::Written,
        })
    }
}

/// Reads all numbers of all writers.
#[derive(Serialize, Deserialize)]
struct Reader {
    lines: Vec<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Number { writer: u32, number: u32 },
}

#[fom(operation(Reader), event(Line))]
enum Reading {
    #[phase(start, sync, on(Number), to(Read, Done))]
    Read,
    #[phase(end)]
    Done,
}

impl ReadingTransitions for Reader {
    fn read(&mut self, _: &mut Cx<'_, Line>, line: Line) -> Result<ReadingAfterRead, BoxError> {
        let Line::Number { writer, number } = line;
        self.lines.push((writer, number));
        Ok(match self.lines.len() < (WRITERS * NUMBERS) as usize {
            true => ReadingAfterRead::Read,
            false => ReadingAfterRead::Done,
        })
    }
}

#[test]
fn letters_keep_the_order_of_their_transitions() {
    sim::explore(0..30, |sim: &mut Sim| {
        let mut cluster = Simulated::new();
        for name in ["a", "b", "c"] {
            cluster.start(sim, name, &(), |builder| {
                builder.operation::<Writer>().operation::<Reader>()
            });
        }
        cluster.wait_for_owners();
        let reader = || Reader { lines: Vec::new() };
        let opened = cluster.nodes[0].get();
        let started = opened
            .submit(reader())
            .key("reader")
            .once("the one")
            .start();
        drop(block_on(started).unwrap());
        sim.during(|chaos| {
            let chaos = chaos.kill("a", 1).kill("b", 1).downtime(SECOND * 60);
            chaos.lose().delay(SECOND)
        });
        for number in 0..WRITERS {
            let nodes = cluster.nodes.clone();
            sim.spawn(async move {
                let make = move || Writer { number, sent: 0 };
                let key = format!("writer {number}").into();
                carry_out(&nodes, number as usize, key, make).await;
            });
        }
        let nodes = cluster.nodes.clone();
        sim.spawn(async move {
            let lines = carry_out(&nodes, 0, "reader".into(), reader).await;
            let lines = lines.operation.lines;
            for writer in 0..WRITERS {
                let its = lines.iter().filter(|(of, _)| *of == writer);
                let numbers: Vec<_> = its.map(|(_, number)| *number).collect();
                assert!(
                    numbers.iter().copied().eq(0..NUMBERS),
                    "{writer}: {numbers:?}"
                );
            }
        });
        sim.settle(SECOND * 600);
    });
}
