//! Events: kept in order until a phase takes them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_runtime::{
    error::SendError,
    machine::FomState,
    prelude::*,
    submission::{EventSender, Reached},
    time::TestClock,
};

use crate::kit::{Gate, Log, limited, one, secs};

#[derive(Debug, PartialEq)]
struct Oops(&'static str);

#[derive(Clone, Debug, PartialEq)]
enum Call {
    Ack(u32),
    Bye { why: &'static str },
    Ring,
    Quit,
}

/// Takes events in async phases; each phase takes its own kinds.
struct Listener {
    log: Log,
    /// Number of events that `First` takes.
    first: u32,
}

#[fom(operation(Listener), error(Oops), event(Call), transient)]
enum Listening {
    #[phase(start, to(Deaf), on(Ack))]
    First,
    #[phase(to(Second))]
    Deaf,
    #[phase(to(Done), on(Bye, Ring, Quit))]
    Second,
    #[phase(end)]
    Done,
}

impl ListeningTransitions for Listener {
    async fn first(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), Oops> {
        for _ in 0..self.first {
            let event = cx.event().await;
            self.log.put(format_args!("first {event:?}"));
        }
        Ok(())
    }

    async fn deaf(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), Oops> {
        // This phase declares no event, so none comes, whatever the phase before took.
        self.log.put(format_args!("deaf {:?}", cx.try_event()));
        let none = cx.event_within(secs(1)).await;
        self.log.put(format_args!("deaf {none:?}"));
        Ok(())
    }

    async fn second(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), Oops> {
        loop {
            let event = cx.event().await;
            self.log.put(format_args!("second {event:?}"));
            if event == Call::Quit {
                return Ok(());
            }
        }
    }
}

/// WK-07: events that come while the fom does not wait are kept, and taken in the order of their arrival.
/// WK-06: an event that the phase does not take stays where it is, and uses nothing up. The wait goes on, and the event
/// waits for a phase that takes it. No filter of the user runs in the sending thread.
/// Trap 9: a filtered event does not consume the wait. Trap 10: kept events keep their order, and all of them come.
#[test]
fn events_wait_in_order_for_a_phase_that_takes_them() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime
            .submit(Listener {
                log: log.clone(),
                first: 3,
            })
            .start()
            .unwrap();
        runtime.quiet().await;
        for event in [
            Call::Bye { why: "a" },
            Call::Ack(1),
            Call::Ring,
            Call::Ack(2),
            Call::Bye { why: "b" },
        ] {
            fom.send(event).unwrap();
            runtime.quiet().await;
        }
        assert_eq!(
            log.take(),
            ["first Ack(1)", "first Ack(2)"],
            "the wait outlived three filtered events"
        );
        assert_eq!(runtime.operation(fom.id()).unwrap().events, 3);
        let gate = Gate::close(&runtime, 0);
        for event in [Call::Quit, Call::Ack(3), Call::Ack(4)] {
            fom.send(event).unwrap();
        }
        gate.open();
        runtime.quiet().await;
        assert_eq!(log.take(), ["first Ack(3)", "deaf None"]);
        clock.advance(secs(1));
        fom.await.unwrap();
        assert_eq!(
            log.take(),
            [
                "deaf None",
                r#"second Bye { why: "a" }"#,
                "second Ring",
                r#"second Bye { why: "b" }"#,
                "second Quit"
            ]
        );
    });
}

/// The events of each sender come in its order, from any number of senders. No event is lost or doubled.
#[test]
fn events_of_many_senders() {
    struct Adds(Vec<u32>);
    #[fom(operation(Adds), error(Oops), event(Call), transient)]
    enum Adding {
        #[phase(start, to(Done), sync, on(Ack, Bye, Ring, Quit))]
        Add,
        #[phase(end)]
        Done,
    }
    impl AddingTransitions for Adds {
        fn add(&mut self, _: &mut Cx<'_, Call>, event: Call) -> Result<AddingAfterAdd, Oops> {
            if let Call::Ack(n) = event {
                self.0.push(n);
            }
            Ok(if self.0.len() == 400 {
                AddingAfterAdd::Done
            } else {
                AddingAfterAdd::Stay
            })
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime.submit(Adds(Vec::new())).start().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|sender| {
                let fom = fom.sender();
                std::thread::spawn(move || {
                    (0..100).for_each(|n| fom.send(Call::Ack(sender * 100 + n)).unwrap())
                })
            })
            .collect();
        let added = fom.await.unwrap().operation.0;
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        for sender in 0..4 {
            let of_one: Vec<_> = added
                .iter()
                .filter(|n| *n / 100 == sender)
                .map(|n| n % 100)
                .collect();
            assert_eq!(of_one, (0..100).collect::<Vec<_>>());
        }
    });
}

/// A full mailbox gives the event back, and has room again after an event was taken. A fom that ended gives the event
/// back, too.
#[test]
fn a_full_mailbox_gives_the_event_back() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).mailbox(2).build().unwrap();
        let fom = runtime
            .submit(Listener {
                log: Log::default(),
                first: 2,
            })
            .start()
            .unwrap();
        runtime.quiet().await;
        fom.send(Call::Ring).unwrap();
        fom.send(Call::Quit).unwrap();
        assert_eq!(fom.send(Call::Ack(1)), Err(SendError::Full(Call::Ack(1))));
        let sender = fom.sender();
        assert_eq!(
            sender.send(Call::Ack(2)).unwrap_err().into_event(),
            Call::Ack(2)
        );
        fom.cancel();
        let address = fom.fom().clone();
        assert!(fom.await.is_err());
        assert_eq!(address.send(Call::Ring), Err(SendError::Ended(Call::Ring)));
        assert_eq!(
            sender.clone().send(Call::Ring),
            Err(SendError::Ended(Call::Ring))
        );

        let fom = runtime
            .submit(Listener {
                log: Log::default(),
                first: 2,
            })
            .start()
            .unwrap();
        for n in 0..2 {
            fom.send(Call::Ack(n)).unwrap();
            runtime.quiet().await;
        }
        fom.send(Call::Quit).unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        fom.await.unwrap();
    });
}

/// A switch of plain functions. Each of its waiting phases is itself the wait for events.
struct Switch {
    log: Log,
    presses: u32,
}

#[fom(operation(Switch), error(Oops), event(Call), transient)]
enum Switching {
    #[phase(start, to(On, Broken), sync, on(Ring, Quit), within = "10s", late)]
    Off,
    #[phase(to(Off, Done), sync, on(Ack, Bye))]
    On { level: u32 },
    #[phase(end)]
    Done { level: u32 },
    #[phase(end, failure)]
    Broken,
}

impl SwitchingTransitions for Switch {
    fn off(&mut self, cx: &mut Cx<'_, Call>, event: Call) -> Result<SwitchingAfterOff, Oops> {
        self.log.put(format_args!(
            "off {event:?} due {:?}",
            cx.deadline().unwrap()
        ));
        self.presses += 1;
        match event {
            Call::Ring if self.presses < 3 => Ok(SwitchingAfterOff::Stay),
            Call::Ring => Ok(SwitchingAfterOff::On { level: 1 }),
            _ => Err(Oops("not now")),
        }
    }

    fn off_late(&mut self, cx: &mut Cx<'_, Call>) -> Result<SwitchingAfterOff, Oops> {
        self.log.put(format_args!("late at {:?}", cx.now()));
        Ok(SwitchingAfterOff::Broken)
    }

    fn on(
        &mut self,
        _: &mut Cx<'_, Call>,
        level: &mut u32,
        event: Call,
    ) -> Result<SwitchingAfterOn, Oops> {
        self.log.put(format_args!("on {level} {event:?}"));
        Ok(match event {
            Call::Ack(more) => {
                *level += more;
                SwitchingAfterOn::Stay
            }
            Call::Bye { why: "off" } => SwitchingAfterOn::Off,
            _ => SwitchingAfterOn::Done { level: *level },
        })
    }
}

fn switch(log: &Log) -> Switch {
    Switch {
        log: log.clone(),
        presses: 0,
    }
}

/// A plain function with `on(..)` runs once for each event. With `Stay` the visit goes on: its data and its deadline
/// are kept, and no listener hears of a transition.
#[test]
fn stay_waits_for_the_next_event_in_the_same_visit() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let seen = log.clone();
        runtime
            .listen(move |step| seen.put(format_args!("to {:?}", step.to())))
            .forever();
        let fom = runtime.submit(switch(&log)).start().unwrap();
        runtime.quiet().await;
        assert_eq!((fom.state(), fom.phase()), (FomState::Waiting, "Off"));
        let listed = runtime.operation(fom.id()).unwrap();
        assert_eq!(
            listed.waiting_for().as_deref(),
            Some("an event: Ring, Quit")
        );
        // A wake without an event runs nothing.
        fom.wake();
        fom.send(Call::Ack(4)).unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), [r#"to Some("Off")"#]);
        for _ in 0..3 {
            clock.advance(secs(2));
            fom.send(Call::Ring).unwrap();
            runtime.quiet().await;
        }
        assert_eq!(
            log.take(),
            [
                "off Ring due 10s",
                "off Ring due 10s",
                "off Ring due 10s",
                r#"to Some("On")"#,
                "on 1 Ack(4)",
            ]
        );
        clock.advance(secs(100));
        fom.send(Call::Bye { why: "" }).unwrap();
        let ended = fom.await.unwrap();
        assert!(matches!(ended.end, SwitchingEnd::Done { level: 5 }));
        assert_eq!(
            log.take(),
            [r#"on 5 Bye { why: "" }"#, r#"to Some("Done")"#]
        );
    });
}

/// The events for which such a phase stays do not move its deadline, and its late function runs. An error of the
/// function fails the fom.
#[test]
fn a_wait_for_events_has_one_deadline() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(switch(&log)).start().unwrap();
        for _ in 0..2 {
            runtime.quiet().await;
            clock.advance(secs(4));
            fom.send(Call::Ring).unwrap();
        }
        runtime.quiet().await;
        clock.advance(secs(2));
        let ended = fom.await.unwrap();
        assert!(matches!(ended.end, SwitchingEnd::Broken));
        assert_eq!(
            log.take(),
            ["off Ring due 10s", "off Ring due 10s", "late at 10s"]
        );

        let fom = runtime.submit(switch(&log)).start().unwrap();
        fom.send(Call::Quit).unwrap();
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(Oops("not now"))));
    });
}

/// A new visit of the phase is a new wait, with a new deadline. The events that an earlier phase left in the mailbox
/// come first.
#[test]
fn each_visit_waits_anew() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime
            .submit(Switch {
                log: log.clone(),
                presses: 2,
            })
            .start()
            .unwrap();
        let gate = Gate::close(&runtime, 0);
        for event in [
            Call::Bye { why: "off" },
            Call::Bye { why: "b" },
            Call::Ring,
            Call::Ring,
        ] {
            fom.send(event).unwrap();
        }
        gate.open();
        let ended = fom.await.unwrap();
        assert!(matches!(ended.end, SwitchingEnd::Done { level: 1 }));
        assert_eq!(
            log.take(),
            [
                "off Ring due 10s",
                r#"on 1 Bye { why: "off" }"#,
                "off Ring due 10s",
                r#"on 1 Bye { why: "b" }"#
            ]
        );
    });
}

/// A fom gives its own address away, for answers that come as events. The holder of the address does not need the type
/// of the operation. The address keeps the memory alive, not the fom.
#[test]
fn a_fom_gives_its_address_away() {
    type Book = Arc<Mutex<Option<EventSender<Call>>>>;
    struct Gives;
    #[fom(operation(Gives), error(Oops), event(Call), transient)]
    enum Giving {
        #[phase(start, to(Waits), sync)]
        Give,
        #[phase(to(Done), on(Ack, Bye, Ring, Quit))]
        Waits,
        #[phase(end)]
        Done { event: Call },
    }
    impl GivingTransitions for Gives {
        fn give(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), Oops> {
            *cx.resource::<Book>().lock().unwrap() = Some(cx.address());
            // A send to itself works too, and its event comes first.
            cx.address()
                .send(Call::Ack(1))
                .map_err(|_| Oops("to itself"))
        }
        async fn waits(&mut self, cx: &mut Cx<'_, Call>) -> Result<GivingAfterWaits, Oops> {
            assert_eq!(cx.event().await, Call::Ack(1));
            Ok(GivingAfterWaits::Done {
                event: cx.event().await,
            })
        }
    }
    limited(|| async {
        let book = Book::default();
        let runtime = one(&TestClock::new())
            .resource(Arc::clone(&book))
            .build()
            .unwrap();
        let fom = runtime.submit(Gives).start().unwrap();
        assert_eq!(
            fom.reached([GivingKind::Waits]).await,
            Reached::Phase(GivingKind::Waits)
        );
        let address = book.lock().unwrap().take().unwrap();
        address.send(Call::Ring).unwrap();
        assert!(matches!(
            fom.await.unwrap().end,
            GivingEnd::Done { event: Call::Ring }
        ));
        assert_eq!(address.send(Call::Ring), Err(SendError::Ended(Call::Ring)));
    });
}

/// `event_within` gives up on the runtime's clock. A later event is for the next call that asks.
#[test]
fn a_wait_for_an_event_with_a_limit() {
    struct Patient(Log);
    #[fom(operation(Patient), error(Oops), event(Call), transient)]
    enum Waiting {
        #[phase(start, to(Done), on(Ack, Bye, Ring, Quit))]
        Wait,
        #[phase(end)]
        Done,
    }
    impl WaitingTransitions for Patient {
        async fn wait(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), Oops> {
            for _ in 0..3 {
                let event = cx.event_within(Duration::from_secs(2)).await;
                self.0.put(format_args!("{event:?} at {:?}", cx.now()));
            }
            Ok(())
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let fom = runtime.submit(Patient(log.clone())).start().unwrap();
        runtime.quiet().await;
        assert_eq!(
            runtime
                .operation(fom.id())
                .unwrap()
                .waiting_for()
                .as_deref(),
            Some("an event: Ack, Bye, Ring, Quit")
        );
        clock.advance(secs(2));
        runtime.quiet().await;
        clock.advance(secs(1));
        fom.send(Call::Ring).unwrap();
        runtime.quiet().await;
        clock.advance(secs(2));
        fom.await.unwrap();
        assert_eq!(log.take(), ["None at 2s", "Some(Ring) at 3s", "None at 5s"]);
    });
}

/// Events that no phase took come back with the outcome, success or failure, and are counted. A later event comes back
/// to its sender.
#[test]
fn events_that_no_phase_took_are_given_back() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let listener = || Listener {
            log: Log::default(),
            first: 1,
        };

        let ends = runtime.submit(listener()).start().unwrap();
        for event in [
            Call::Ack(1),
            Call::Quit,
            Call::Ack(2),
            Call::Bye { why: "late" },
        ] {
            ends.send(event).unwrap();
        }
        runtime.quiet().await;
        clock.advance(secs(1));
        let sender = ends.sender();
        let ended = ends.await.unwrap();
        assert_eq!(ended.untaken, [Call::Ack(2), Call::Bye { why: "late" }]);
        assert_eq!(
            sender.send(Call::Ring).unwrap_err().into_event(),
            Call::Ring
        );

        let fails = runtime.submit(listener()).start().unwrap();
        fails.send(Call::Ring).unwrap();
        runtime.quiet().await;
        fails.cancel();
        let failure = fails.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(failure.untaken, [Call::Ring]);

        assert_eq!(runtime.operations().types[0].untaken, 3);
    });
}

/// Sends itself the next event whenever it takes an event.
struct Mill;

#[fom(operation(Mill), event(Call), transient)]
enum Milling {
    #[allow(dead_code)]
    #[phase(start, to(Stopped), sync, on(Ack, Bye, Ring, Quit))]
    Turns,
    #[phase(end)]
    Stopped,
}

impl MillingTransitions for Mill {
    fn turns(
        &mut self,
        cx: &mut Cx<'_, Call>,
        event: Call,
    ) -> Result<MillingAfterTurns, fom_runtime::error::BoxError> {
        cx.address().send(event).map_err(|_| "ended")?;
        Ok(MillingAfterTurns::Stay)
    }
}

/// A fom that always has a next event does not keep the locality: others have their turn, and the fom hears of its
/// cancellation.
#[test]
fn a_flood_of_events_does_not_keep_the_locality() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let fom = runtime.submit(Mill).start().unwrap();
        fom.send(Call::Ring).unwrap();
        runtime.call(0, |_| ()).await.unwrap();
        fom.cancel();
        assert!(matches!(
            fom.await.unwrap_err().cause,
            fom_runtime::Cause::Cancelled
        ));
    });
}
