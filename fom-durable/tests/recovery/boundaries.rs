//! The crash at each boundary, for users: it accepts operations that survive, and says where and why others do not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fom_durable::{
    prelude::*,
    testing::{BoundaryError, Effects, Trial, crash_at_each_boundary, try_crash_at_each_boundary},
};
use serde::{Deserialize, Serialize};

/// Async phases with retries, sleeps and a deadline, and a loop over its own data.
#[derive(Serialize, Deserialize)]
struct Trip {
    legs: u32,
    log: Vec<String>,
}

#[fom(operation(Trip))]
enum Travel {
    #[phase(start, to(Ride))]
    Pack,
    #[phase(to(Ride, Rest), retry = "3, 1s..10s")]
    Ride { leg: u32 },
    #[phase(to(Home, Lost), within = "30s", late)]
    Rest { leg: u32 },
    #[phase(end)]
    Home { legs: u32 },
    #[phase(end, failure)]
    Lost,
}

impl TravelTransitions for Trip {
    async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<TravelAfterPack, BoxError> {
        cx.resource::<Effects>().once(cx.step_key(), "pack");
        Ok(TravelAfterPack::Ride { leg: 1 })
    }
    async fn ride(&mut self, cx: &mut Cx<'_>, leg: &mut u32) -> Result<TravelAfterRide, BoxError> {
        cx.resource::<Effects>()
            .once(cx.step_key(), format!("ticket {leg}"));
        if cx.attempt() < 2 {
            return Err("the train is late".into());
        }
        self.log.push(format!("leg {leg}"));
        Ok(if *leg < self.legs {
            TravelAfterRide::Ride { leg: *leg + 1 }
        } else {
            TravelAfterRide::Rest { leg: *leg }
        })
    }
    async fn rest(&mut self, cx: &mut Cx<'_>, _: &mut u32) -> Result<TravelAfterRest, BoxError> {
        cx.sleep(Duration::from_secs(3600)).await;
        Ok(TravelAfterRest::Lost)
    }
    async fn rest_late(
        &mut self,
        cx: &mut Cx<'_>,
        leg: &mut u32,
    ) -> Result<TravelAfterRest, BoxError> {
        cx.resource::<Effects>()
            .once(cx.step_key().part(1), "wake up");
        Ok(TravelAfterRest::Home { legs: *leg })
    }
}

fn trip() -> Trip {
    Trip {
        legs: 2,
        log: vec![],
    }
}

/// Retries, sleeps, late functions and loops of async phases survive a crash after each of their commits, also after
/// the commit of each failed attempt.
#[test]
fn an_async_machine_survives_at_each_boundary() {
    let tried = crash_at_each_boundary(|| {
        Trial::new(trip()).compare(|end| {
            let Some(Travel::Home { legs }) = end.phase else {
                panic!("not at home")
            };
            (*legs, end.operation.log.clone())
        })
    });
    // Pack, two rides with three attempts each, the rest, and the end.
    assert_eq!(tried.crashes, 1 + 2 * 3 + 1 + 1);
}

/// The time for which the program is down counts: a deadline that passed meanwhile fires at once.
#[test]
fn a_long_time_down_is_survived_too() {
    crash_at_each_boundary(|| {
        Trial::new(trip())
            .down(Duration::from_secs(86_400))
            .compare(|end| end.operation.log.clone())
    });
}

#[derive(Serialize, Deserialize)]
struct Call {
    digits: String,
}

#[derive(Debug)]
enum CallEvent {
    Digit(char),
    Answer,
    Bye,
}

#[fom(operation(Call), event(CallEvent))]
enum Dial {
    #[phase(start, sync, to(Ringing, GaveUp), on(Digit), within = "20s", late)]
    Dialling,
    #[phase(sync, to(Talking), on(Answer))]
    Ringing { digits: u32 },
    #[phase(sync, to(Done), on(Bye))]
    Talking,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    GaveUp,
}

impl DialTransitions for Call {
    fn dialling(
        &mut self,
        _: &mut Cx<'_, CallEvent>,
        event: CallEvent,
    ) -> Result<DialAfterDialling, BoxError> {
        if let CallEvent::Digit(digit) = event
            && !self.digits.contains(digit)
        {
            self.digits.push(digit);
        }
        Ok(if self.digits.len() == 3 {
            DialAfterDialling::Ringing { digits: 3 }
        } else {
            DialAfterDialling::Stay
        })
    }
    fn dialling_late(&mut self, _: &mut Cx<'_, CallEvent>) -> Result<DialAfterDialling, BoxError> {
        Ok(DialAfterDialling::GaveUp)
    }
    fn ringing(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        digits: &mut u32,
        _: CallEvent,
    ) -> Result<DialAfterRinging, BoxError> {
        cx.resource::<Effects>()
            .once(cx.step_key(), format!("ring {digits}"));
        Ok(DialAfterRinging::Talking)
    }
    fn talking(
        &mut self,
        _: &mut Cx<'_, CallEvent>,
        _: CallEvent,
    ) -> Result<DialAfterTalking, BoxError> {
        Ok(DialAfterTalking::Done)
    }
}

/// A machine of plain functions that takes events, and stays in its phase for some of them. All events are sent again
/// after the crash: each is taken once.
#[test]
fn a_machine_with_events_survives_at_each_boundary() {
    let tried = crash_at_each_boundary(|| {
        let digits = ['7', '8', '9'];
        Trial::new(Call {
            digits: String::new(),
        })
        .key("a call")
        .drive(move |life| async move {
            for digit in digits {
                // A dialled digit is in the record, so it is not dialled twice.
                life.fom.send(CallEvent::Digit(digit)).unwrap();
            }
            // The call rings once for this answer, whichever life takes it.
            let answer = life.fom.send_with_id("answer", CallEvent::Answer);
            answer.unwrap();
            life.fom.send(CallEvent::Bye).unwrap();
        })
        .compare(|end| end.operation.digits.clone())
    });
    // The start, three digits, the answer, the end.
    assert_eq!(tried.crashes, 6);
}

/// Forgets to save what matters.
#[derive(Serialize, Deserialize)]
struct Forgets {
    #[serde(skip)]
    name: String,
}

#[fom(operation(Forgets))]
enum Forgetting {
    #[phase(start, sync, to(Greet))]
    Ask,
    #[phase(sync, to(Greeted, Nobody))]
    Greet,
    #[phase(end)]
    Greeted,
    #[phase(end)]
    Nobody,
}

impl ForgettingTransitions for Forgets {
    fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.name = "Ada".to_owned();
        Ok(())
    }
    fn greet(&mut self, _: &mut Cx<'_>) -> Result<ForgettingAfterGreet, BoxError> {
        Ok(match self.name.as_str() {
            "" => ForgettingAfterGreet::Nobody,
            _ => ForgettingAfterGreet::Greeted,
        })
    }
}

fn differences<O: Persistent>(trial: impl Fn() -> Trial<O>) -> Vec<String> {
    match try_crash_at_each_boundary(trial) {
        Err(BoundaryError::Differs { differences, .. }) => {
            differences.iter().map(ToString::to_string).collect()
        }
        other => panic!("it should have differed: {other:?}"),
    }
}

/// State that matters but is not saved is found at the boundary where it is missing. The message names what follows
/// from the loss.
#[test]
fn state_that_is_not_saved_is_found() {
    let trial = || {
        Trial::new(Forgets {
            name: String::new(),
        })
    };
    assert_eq!(
        differences(trial),
        [
            "after commit 2, with Forgets 1 in `Greet`: it ended in `Nobody`, undisturbed in `Greeted`"
        ]
    );
    let panic = std::panic::catch_unwind(|| crash_at_each_boundary(trial)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert_eq!(
        message,
        "Forgets does not survive a crash at every boundary (3 of them):\n  \
         after commit 2, with Forgets 1 in `Greet`: it ended in `Nobody`, undisturbed in `Greeted`"
    );
}

/// Pays in the right way, or in one of several wrong ways.
#[derive(Serialize, Deserialize)]
struct Payment {
    how: How,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum How {
    Right,
    WithoutKey,
    NewKeyEachTime,
    OneKeyForTwo,
}

#[derive(Clone, Default)]
struct Bank(Arc<Mutex<u32>>);

#[fom(operation(Payment))]
enum Paying {
    #[phase(start, to(Paid))]
    Pay,
    #[phase(end)]
    Paid,
}

static TIMES: AtomicU32 = AtomicU32::new(0);

impl PayingTransitions for Payment {
    async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (effects, key) = (cx.resource::<Effects>(), cx.step_key());
        let first = match self.how {
            How::Right => effects.once(key, "pay 5"),
            How::WithoutKey => true,
            How::NewKeyEachTime => {
                effects.once(key.part(TIMES.fetch_add(1, Ordering::Relaxed) + 1), "pay 5")
            }
            How::OneKeyForTwo => {
                effects.once(key, "pay 5");
                effects.once(key, "send a receipt")
            }
        };
        if first {
            *cx.resource::<Bank>().0.lock().unwrap() += 5;
        }
        Ok(())
    }
}

fn payment(how: How) -> Trial<Payment> {
    let bank = Bank::default();
    Trial::new(Payment { how })
        .runtime({
            let bank = bank.clone();
            move |builder| builder.resource(bank.clone())
        })
        .outside(move || *bank.0.lock().unwrap())
}

/// An effect that runs again after the crash must be recognized by its step key. A missing key, another key, and one
/// key for two effects are found.
#[test]
fn effects_that_are_not_idempotent_are_found() {
    assert_eq!(
        crash_at_each_boundary(|| payment(How::Right)).crashes,
        2,
        "the start and the end"
    );
    let at = "after commit 1, with Payment 1 in `Pay`: ";
    assert_eq!(
        differences(|| payment(How::WithoutKey)),
        [format!("{at}the world outside is 10, undisturbed 5")]
    );
    assert_eq!(
        differences(|| payment(How::NewKeyEachTime)),
        [
            format!("{at}the world outside is 10, undisturbed 5"),
            format!(
                "{at}`pay 5` was done under 2 keys, undisturbed under 1: a repetition that no service can tell from a new request"
            )
        ]
    );
    let reused = differences(|| payment(How::OneKeyForTwo));
    assert!(
        reused[0].contains("was used for `pay 5` and for `send a receipt`"),
        "{reused:?}"
    );
}

/// Starts a child with the transition, or in a phase function that waits for the child.
#[derive(Serialize, Deserialize)]
struct Parent {
    posts: bool,
    pays: bool,
}

#[derive(Serialize, Deserialize)]
struct Child {
    pays: bool,
}

#[fom(operation(Parent))]
enum Parenting {
    #[phase(start, sync, to(Watch))]
    Begin,
    #[phase(to(Grown))]
    Watch,
    #[phase(end)]
    Grown,
}

#[fom(operation(Child))]
enum Growing {
    #[phase(start, sync, to(Small))]
    Born,
    #[phase(to(Adult))]
    Small,
    #[phase(end)]
    Adult,
}

impl ParentingTransitions for Parent {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if self.posts {
            cx.outbox().submit(Child { pays: self.pays }).post()?;
        }
        Ok(())
    }
    async fn watch(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if self.posts {
            return Ok(());
        }
        let child = cx.submit(Child { pays: self.pays }).await;
        child
            .map(drop)
            .map_err(|failure| failure.to_string().into())
    }
}

impl GrowingTransitions for Child {
    fn born(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn small(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_secs(20)).await;
        if self.pays {
            cx.resource::<Effects>().once(cx.step_key(), "pay");
        }
        Ok(())
    }
}

/// Children come back as well. A child that is started in a phase function is an effect like any other: after a crash
/// there are two children. Each child uses its own key, and the check reports the effect under two keys.
#[test]
fn children_come_back_too() {
    let trial = |pays| move || Trial::new(Parent { posts: false, pays });
    let tried = crash_at_each_boundary(trial(false));
    assert_eq!(tried.crashes, 6, "three for each of the two");
    let twice = differences(trial(true));
    assert!(
        twice[0].contains("`pay` was done under 2 keys"),
        "{twice:?}"
    );
}

/// A child in the outbox is started exactly once.
#[test]
fn a_child_of_the_outbox_is_started_once() {
    let trial = || {
        Trial::new(Parent {
            posts: true,
            pays: true,
        })
    };
    let tried = crash_at_each_boundary(trial);
    // The child's start is in the same group as its parent's transition.
    assert_eq!(tried.crashes, 5);
}

/// A lazy operation may lose its last steps, but reaches the same end.
#[test]
fn a_lazy_operation_comes_to_the_same_end() {
    #[derive(Serialize, Deserialize)]
    struct Counter {
        count: u32,
    }
    #[fom(operation(Counter), durability = "lazy")]
    enum Counting {
        #[phase(start, to(Count, Counted))]
        Count,
        #[phase(end)]
        Counted,
    }
    impl CountingTransitions for Counter {
        async fn count(&mut self, cx: &mut Cx<'_>) -> Result<CountingAfterCount, BoxError> {
            cx.resource::<Effects>()
                .once(cx.step_key(), format!("count {}", self.count));
            self.count += 1;
            Ok(match self.count {
                5.. => CountingAfterCount::Counted,
                _ => CountingAfterCount::Count,
            })
        }
    }
    let trial = || Trial::new(Counter { count: 0 }).compare(|end| end.operation.count);
    assert!(crash_at_each_boundary(trial).crashes >= 1);
}

/// An operation that does not end by itself is an error in time, undisturbed and after a crash. The error says what the
/// operation waits for, and nothing hangs.
#[test]
fn what_does_not_end_is_said_in_time() {
    let limit = Duration::from_millis(300);
    let silent = try_crash_at_each_boundary(|| {
        Trial::new(Call {
            digits: String::new(),
        })
        .clock_by_hand()
        .limit(limit)
    });
    let Err(BoundaryError::Stuck(why)) = silent else {
        panic!("{silent:?}")
    };
    assert_eq!(
        why,
        "after 300ms, Call 1 in `Dialling` waits for an event: Digit"
    );
    // Its driver gives up at the crash.
    let lost = differences(|| {
        Trial::new(Call {
            digits: String::new(),
        })
        .clock_by_hand()
        .limit(limit)
        .drive(|life| async move {
            if !life.restarted {
                for n in ['1', '2', '3'] {
                    life.fom.send(CallEvent::Digit(n)).unwrap();
                }
                life.fom.send(CallEvent::Answer).unwrap();
                life.fom.send(CallEvent::Bye).unwrap();
            }
        })
    });
    assert!(
        lost[0].contains("it does not end: after 300ms, Call 1 in `Dialling`"),
        "{lost:?}"
    );
}

/// There must be something to survive.
#[test]
fn nothing_committed_is_an_error() {
    #[derive(Serialize, Deserialize)]
    struct Fleeting;
    #[fom(operation(Fleeting), durability = "none")]
    enum Fleet {
        #[phase(start, sync, to(Gone))]
        Go,
        #[phase(end)]
        Gone,
    }
    impl FleetTransitions for Fleeting {
        fn go(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let tried = try_crash_at_each_boundary(|| Trial::new(Fleeting));
    assert!(
        matches!(tried, Err(BoundaryError::NothingCommitted)),
        "{tried:?}"
    );
}

/// A lazy child may lose its last steps, and makes them again. The check allows that if the child reaches its end.
#[test]
fn a_lazy_child_may_lose_its_last_steps() {
    #[derive(Serialize, Deserialize)]
    struct Sale;

    #[fom(operation(Sale))]
    enum Selling {
        #[phase(start, sync, to(Sold))]
        Sell,
        #[phase(end)]
        Sold,
    }
    impl SellingTransitions for Sale {
        fn sell(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            cx.outbox().submit(Thanks).post()?;
            Ok(())
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Thanks;

    #[fom(operation(Thanks), durability = "lazy")]
    enum Thanking {
        #[phase(start, sync, to(Send))]
        Write,
        #[phase(sync, to(Sent))]
        Send,
        #[phase(end)]
        Sent,
    }
    impl ThankingTransitions for Thanks {
        fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            cx.resource::<Effects>().once(cx.step_key(), "write");
            Ok(())
        }
        fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            cx.resource::<Effects>().once(cx.step_key(), "send");
            Ok(())
        }
    }

    let tried = crash_at_each_boundary(|| Trial::new(Sale));
    assert!(tried.crashes >= 3, "{tried:?}");
}
