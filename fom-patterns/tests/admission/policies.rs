//! The order in which the policies let requests start. The ideas are from Lustre's sanityn 77a to 77s, and keep their
//! letters.

use fom_patterns::admission::{
    Admission, ClientRoundRobin, ConfigError, DeadlineFirst, Delay, Fifo, Policy, Priorities,
    Queued, Rate, SortedBatches, TokenBuckets,
};
use fom_runtime::{Runtime, extension::CommandError, submission::Priority, time::TestClock};
use std::collections::HashMap;

use crate::kit::{limited, millis, one, secs};
use crate::queue::{self, Held, Slow};

async fn held(runtime: &Runtime, policy: impl Policy) -> Held {
    Held::new(Admission::builder(runtime).policy(policy)).await
}

/// NR-04, 77a: first in, first out.
///
/// NR-04 in part, here and below: fom has no batches by storage target, no ranks of rules, and no rules by user, group
/// and project.
#[test]
fn fifo_is_the_order_of_arrival() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, Fifo::new()).await;
        held.detach_all("a1 b1 a2 c1 b2");
        assert_eq!(held.order(&runtime).await, "a1 b1 a2 c1 b2");
    });
}

/// NR-04, 77b: clients take turns with their quantum. A client that skipped a round joins the current round, without a
/// credit.
#[test]
fn clients_take_turns_with_their_quantum() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, ClientRoundRobin::new(2).unwrap()).await;
        held.detach_all("a1 a2 a3 a4 a5 b1 b2 b3 c1");
        assert_eq!(held.order(&runtime).await, "a1 a2 b1 b2 c1 a3 a4 b3 a5");
    });
}

/// NR-04, 77b: a client that comes in the middle of a round goes before the clients that had their turn in it. It gets
/// no more than they did.
#[test]
fn a_client_that_skipped_rounds_joins_the_current_one() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime)
            .in_flight(1)
            .policy(ClientRoundRobin::new(2).unwrap())
            .build()
            .unwrap();
        let starts = queue::Starts::default();
        let mut going = HashMap::new();
        let submit = |going: &mut HashMap<String, Queued<Slow>>, names: [&'static str; 5]| {
            for name in names {
                let slow = queue::Slow {
                    name: name.to_owned(),
                    starts: starts.clone(),
                };
                let queued = intake.submit(slow).client(&name[..1]).start().unwrap();
                going.insert(name.to_owned(), queued);
            }
        };
        submit(&mut going, ["a1", "a2", "a3", "a4", "a5"]);
        for served in 0..10 {
            runtime.quiet().await;
            let running = starts.all().pop().unwrap();
            if served == 1 {
                // Client a has had its turn; the first round is still on.
                assert_eq!(running, "a2");
                submit(&mut going, ["b1", "b2", "b3", "b4", "b5"]);
            }
            let fom = going.get_mut(&running).unwrap().started().await.unwrap();
            fom.send(queue::Word::Go).unwrap();
        }
        runtime.idle().await;
        assert_eq!(starts.line(), "a1 a2 b1 b2 a3 a4 b3 b4 a5 b5");
    });
}

/// NR-04, NR-05: each client has its own bucket, and inside it its requests start one after the other.
#[test]
fn each_client_has_its_bucket() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let rate = Rate::per_second(10).unwrap().burst(2).unwrap();
        let held = held(&runtime, TokenBuckets::per_client(rate)).await;
        let mut held = held;
        held.detach_all("a1 a2 a3 a4 b1 b2 b3");
        held.go().await;
        runtime.quiet().await;
        assert_eq!(held.starts.line(), "holder a1 b1 a2 b2");
        assert_eq!(held.intake.queued(), 3);
        clock.advance(millis(99));
        runtime.quiet().await;
        assert_eq!(held.starts.len(), 0);
        clock.advance(millis(1));
        runtime.quiet().await;
        assert_eq!(held.starts.line(), "a3 b3");
        clock.advance(millis(100));
        runtime.quiet().await;
        assert_eq!(held.starts.line(), "a4");
    });
}

/// NR-04: the earliest deadline first. A request without a deadline has the default, and is not put off forever.
#[test]
fn the_earliest_deadline_is_first() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, DeadlineFirst::new(secs(5))).await;
        for (name, deadline) in [("late", 9), ("soon", 1), ("soon too", 1), ("mid", 4)] {
            let quick = held.intake.submit(held.quick(name));
            quick.deadline(secs(deadline)).detach().unwrap();
        }
        held.intake.submit(held.quick("none")).detach().unwrap();
        assert_eq!(held.order(&runtime).await, "soon soon too mid none late");
    });
}

/// NR-03, NR-10: higher priorities first, in the order of arrival. After so many in a row, a lower priority has its
/// turn.
#[test]
fn preference_is_bounded() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, Priorities::new(3).unwrap()).await;
        let submit = |name: String, priority| {
            let quick = held.intake.submit(held.quick(name));
            quick.priority(priority).detach().unwrap();
        };
        for n in 1..=2 {
            submit(format!("l{n}"), Priority::Low);
            submit(format!("n{n}"), Priority::Normal);
        }
        for n in 1..=8 {
            submit(format!("h{n}"), Priority::High);
        }
        assert_eq!(
            held.order(&runtime).await,
            "h1 h2 h3 n1 h4 h5 h6 n2 h7 h8 l1 l2"
        );
    });
}

/// NR-03: a promoted request stands where it would stand if it had come with the higher priority. It moves only once.
#[test]
fn a_request_is_promoted_once() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, Priorities::new(100).unwrap()).await;
        let submit = |name: &str, priority| {
            let quick = held.intake.submit(held.quick(name));
            quick.priority(priority).start().unwrap()
        };
        let low = [1, 2, 3].map(|n| submit(&format!("l{n}"), Priority::Low));
        let high = submit("h1", Priority::High);
        low[1].promote();
        low[1].promote();
        high.promote();
        let later = submit("h2", Priority::High);
        assert_eq!(held.order(&runtime).await, "l2 h1 h2 l1 l3");
        drop((low, high, later));
    });
}

/// An operator promotes a client without a handle of its requests: the oldest one that can move.
#[test]
fn a_command_promotes_the_oldest_request_of_a_client() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let intake = Admission::builder(&runtime).name("front door");
        let mut held = Held::new(intake.policy(Priorities::new(100).unwrap())).await;
        let submit = |name: &str, client: &'static str, priority| {
            let quick = held.intake.submit(held.quick(name)).client(client);
            quick.priority(priority).detach().unwrap()
        };
        submit("a1", "ada", Priority::High);
        submit("b1", "bob", Priority::Low);
        submit("a2", "ada", Priority::Low);
        submit("a3", "ada", Priority::Low);
        let promote = |client| {
            let extension = runtime.extension();
            extension.command("admission", "front door", "promote", client)
        };
        let done = promote("ada").unwrap();
        assert_eq!(done, "promoted the oldest request of the client ada");
        assert!(matches!(promote("eve"), Err(CommandError::Refused(_))));
        let unknown = runtime.extension();
        let unknown = unknown.command("admission", "front door", "demote", "ada");
        assert!(matches!(unknown, Err(CommandError::Unknown { .. })));
        let missing = runtime.extension();
        let missing = missing.command("admission", "back door", "promote", "ada");
        assert!(matches!(missing, Err(CommandError::NoPart { .. })));
        assert_eq!(held.order(&runtime).await, "a1 a2 b1 a3");
    });
}

/// NR-04, NR-08, 77c: batches by object, ascending inside; equal keys in the order of arrival. A request without an
/// object is declined, and takes turns with the rest.
#[test]
fn batches_are_sorted() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut held = held(&runtime, SortedBatches::new(3).unwrap()).await;
        for (name, object, at) in [
            ("x9", "x", 9),
            ("x5", "x", 5),
            ("y1", "y", 1),
            ("x7", "x", 7),
            ("x1", "x", 1),
            ("y1 again", "y", 1),
        ] {
            let quick = held.intake.submit(held.quick(name));
            quick.object(object, at).detach().unwrap();
        }
        held.detach_all("none");
        assert_eq!(held.order(&runtime).await, "x1 none x5 x7 y1 y1 again x9");
        let status = held.intake.status().await;
        // The holder has no object, either.
        assert_eq!(status.policies[1].declined, 2);
    });
}

/// NR-04, the delay policy: with 100 percent each request starts within the bounds, and none before its time. The same
/// seed gives the same order, and another seed another one.
#[test]
fn a_delay_is_between_its_bounds_and_follows_from_the_seed() {
    limited(|| async {
        let mut orders = Vec::new();
        for seed in [1, 1, 2] {
            let clock = TestClock::new();
            let runtime = one(&clock).build().unwrap();
            let delay = Delay::new(millis(50), millis(90), 100).unwrap().seed(seed);
            assert_eq!(
                delay.name(),
                format!("delay least=50ms most=90ms percent=100 seed={seed}")
            );
            let mut held = held(&runtime, Fifo::new()).await;
            held.intake.set_policy(delay);
            held.detach_all("a1 a2 a3 a4 a5 a6 a7 a8");
            held.go().await;
            clock.advance(millis(49));
            runtime.quiet().await;
            assert_eq!(held.starts.take(), ["holder"]);
            let mut order = Vec::new();
            for _ in 0..42 {
                clock.advance(millis(1));
                runtime.quiet().await;
                order.extend(held.starts.take());
            }
            assert_eq!(order.len(), 8);
            orders.push(order);
        }
        assert_eq!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
    });
}

/// NR-04, the delay policy: requests that are not chosen are not delayed, and a drain waits for none.
#[test]
fn a_delay_is_for_a_share_of_the_requests() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let delay = Delay::new(secs(60), secs(60), 30).unwrap();
        let mut held = held(&runtime, Fifo::new()).await;
        held.intake.set_policy(delay);
        for number in 0..200 {
            let request = held.intake.submit(held.quick(number.to_string()));
            request.detach().unwrap();
        }
        held.go().await;
        runtime.quiet().await;
        let at_once = held.starts.len() - 1;
        assert!((120..160).contains(&at_once), "{at_once} of 200 at once");
        assert_eq!(held.intake.queued(), 200 - at_once);
        runtime
            .shutdown(fom_runtime::config::Shutdown::Drain, secs(10))
            .await;
        assert_eq!(held.starts.len(), 201);
    });
}

/// NR-04: a delay that cannot be is refused, also as text.
#[test]
fn a_delay_has_good_bounds() {
    let wrong = |least, most, percent| Delay::new(least, most, percent).unwrap_err();
    assert_eq!(wrong(millis(1), millis(2), 101), ConfigError::Percent(101));
    assert_eq!(
        wrong(millis(2), millis(1), 10),
        ConfigError::Order("least", "most")
    );
    let policy: Box<dyn Policy> = "delay least=5ms most=2s percent=10 seed=7".parse().unwrap();
    assert_eq!(policy.name(), "delay least=5ms most=2s percent=10 seed=7");
    let wrong = "delay least=3s most=2s percent=10".parse::<Box<dyn Policy>>();
    assert_eq!(
        wrong.err().unwrap().to_string(),
        "the least is greater than the most; exchange them"
    );
}
