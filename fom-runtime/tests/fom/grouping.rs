//! `group(..)`: several phases share a way out, a cancel, a deadline and their functions.

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// What an order is told in each phase of the saga.
#[derive(Debug, PartialEq)]
enum Word {
    Go,
    Back,
    Fail,
}

struct Order(Log);

#[fom(
    operation(Order),
    event(Word),
    error(&'static str),
    transient,
    group(Saga, phases(Reserve, Charge, Pack), failed(Refund), cancelled, within = "10s")
)]
enum Selling {
    #[phase(start, sync, on(Go), to(Reserve))]
    Open,
    #[phase(sync, on(Go, Fail, Back), to(Charge, Reserve))]
    Reserve,
    /// It has a time limit of its own, because it is not where the saga begins.
    #[phase(on(Go, Fail, Back), to(Pack, Reserve), within = "4s")]
    Charge { cents: u32 },
    /// Its own way out comes before the one of the group.
    #[phase(sync, on(Go, Fail), to(Ship), failed(Lost))]
    Pack { label: String, boxes: u8 },
    /// Behind the saga there is no way back.
    #[phase(sync, on(Go), to(Done))]
    Ship,
    #[phase(sync, to(Lost))]
    Refund { cause: String },
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Lost,
}

fn heard(word: Word) -> Result<(), &'static str> {
    match word {
        Word::Fail => Err("told so"),
        Word::Go | Word::Back => Ok(()),
    }
}

impl SellingTransitions for Order {
    fn open(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<SellingAfterOpen, &'static str> {
        heard(word)?;
        Ok(SellingAfterOpen::Reserve)
    }

    fn reserve(
        &mut self,
        _: &mut Cx<'_, Word>,
        word: Word,
    ) -> Result<SellingAfterReserve, &'static str> {
        if word == Word::Back {
            return Ok(SellingAfterReserve::Reserve);
        }
        heard(word)?;
        Ok(SellingAfterReserve::Charge { cents: 7 })
    }

    async fn charge(
        &mut self,
        cx: &mut Cx<'_, Word>,
        cents: &mut u32,
    ) -> Result<SellingAfterCharge, &'static str> {
        self.0.put(format_args!("charge {cents}"));
        match cx.event().await {
            Word::Back => Ok(SellingAfterCharge::Reserve),
            word => {
                heard(word)?;
                let label = "to Ada".into();
                Ok(SellingAfterCharge::Pack { label, boxes: 2 })
            }
        }
    }

    fn pack(
        &mut self,
        _: &mut Cx<'_, Word>,
        _: SellingInPack<'_>,
        word: Word,
    ) -> Result<SellingAfterPack, &'static str> {
        heard(word)?;
        Ok(SellingAfterPack::Ship)
    }

    fn pack_failed(
        &mut self,
        _: &mut Cx<'_, Word>,
        SellingInPack { label, boxes }: SellingInPack<'_>,
        cause: Cause<&'static str>,
    ) -> Result<(), &'static str> {
        self.0
            .put(format_args!("{boxes} boxes {label} lost: {}", cause.name()));
        Ok(())
    }

    fn ship(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterShip, &'static str> {
        Ok(SellingAfterShip::Done)
    }

    async fn saga_failed(
        &mut self,
        _: &mut Cx<'_, Word>,
        cause: Cause<&'static str>,
    ) -> Result<SellingAfterSagaFailed, &'static str> {
        self.0.put("back");
        let cause = cause.name().to_owned();
        Ok(SellingAfterSagaFailed::Refund { cause })
    }

    fn refund(&mut self, _: &mut Cx<'_, Word>, cause: &mut String) -> Result<(), &'static str> {
        self.0.put(format_args!("refund: {cause}"));
        Ok(())
    }
}

/// Runs an order, and returns its handle after these words.
async fn told(clock: &TestClock, runtime: &Runtime, log: &Log, words: Vec<Word>) -> Handle<Order> {
    let handle = runtime.submit(Order(log.clone())).start().unwrap();
    for word in words {
        handle.send(word).unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
    }
    handle
}

#[test]
fn a_failure_in_any_phase_of_the_group_takes_its_way_out() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        use Word::{Fail, Go};
        for (words, lines) in [
            (vec![Go, Fail], vec!["back", "refund: error"]),
            (
                vec![Go, Go, Fail],
                vec!["charge 7", "back", "refund: error"],
            ),
            (
                vec![Go, Go, Go, Fail],
                vec!["charge 7", "2 boxes to Ada lost: error"],
            ),
        ] {
            let handle = told(&clock, &runtime, &log, words).await;
            assert!(matches!(handle.await.unwrap().end, SellingEnd::Lost));
            assert_eq!(log.take(), lines);
        }
        let handle = told(&clock, &runtime, &log, vec![Go, Go, Go, Go, Go]).await;
        assert!(matches!(handle.await.unwrap().end, SellingEnd::Done));
    });
}

#[test]
fn a_cancel_in_the_group_takes_its_way_out_and_not_behind_it() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        use Word::Go;
        let handle = told(&clock, &runtime, &log, vec![Go]).await;
        handle.cancel();
        assert!(matches!(handle.await.unwrap().end, SellingEnd::Lost));
        assert_eq!(log.take(), ["back", "refund: cancelled"]);

        let handle = told(&clock, &runtime, &log, vec![Go, Go, Go, Go]).await;
        assert_eq!(handle.phase(), "Ship");
        handle.cancel();
        assert!(handle.await.is_err());
    });
}

/// The deadline begins when the fom enters the group. It goes on in each phase of the group, also in a phase that is
/// entered again, and ends behind the group.
#[test]
fn one_deadline_is_over_all_phases_of_the_group() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        use Word::{Back, Go};
        // Each word takes a second, and the saga begins with the first.
        let words = vec![Go, Go, Back, Go, Back, Go, Back];
        let handle = told(&clock, &runtime, &log, words).await;
        assert_eq!(handle.phase(), "Reserve");
        // Seven seconds have passed in the saga, and one in its phase.
        clock.advance(secs(2));
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Reserve");
        clock.advance(secs(1));
        assert!(matches!(handle.await.unwrap().end, SellingEnd::Lost));
        assert_eq!(
            log.take(),
            ["charge 7", "charge 7", "charge 7", "back", "refund: late"]
        );

        // A phase that follows itself begins no new deadline.
        let handle = told(&clock, &runtime, &log, vec![Go, Back, Back, Back]).await;
        clock.advance(secs(5));
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Reserve");
        clock.advance(secs(1));
        assert!(matches!(handle.await.unwrap().end, SellingEnd::Lost));
        assert_eq!(log.take(), ["back", "refund: late"]);

        // The phase has its own time limit, too.
        let handle = told(&clock, &runtime, &log, vec![Go, Go]).await;
        clock.advance(secs(3));
        assert!(matches!(handle.await.unwrap().end, SellingEnd::Lost));
        assert_eq!(log.take(), ["charge 7", "back", "refund: late"]);

        let handle = told(&clock, &runtime, &log, vec![Go, Go, Go, Go]).await;
        clock.advance(secs(60));
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Ship");
    });
}
