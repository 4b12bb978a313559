//! `entry`: an end has a function, which runs before the end counts.

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

struct Order {
    log: Log,
    /// How often the function of the end fails.
    failures: u32,
    takes: u32,
}

#[fom(operation(Order), error(&'static str), transient)]
enum Selling {
    #[phase(start, sync, to(Ship, GivenUp))]
    Look,
    #[phase(sync, to(Shipped), retry = "1, 1s..1s", failed(Lost))]
    Ship,
    /// Writes the parcel down.
    #[phase(end, entry, blocking)]
    Shipped { parcel: u32, place: String },
    #[phase(end, failure, entry)]
    Lost,
    #[phase(end)]
    GivenUp,
}

impl SellingTransitions for Order {
    fn look(&mut self, _: &mut Cx<'_>) -> Result<SellingAfterLook, &'static str> {
        Ok(match self.takes {
            0 => SellingAfterLook::GivenUp,
            _ => SellingAfterLook::Ship,
        })
    }

    fn ship(&mut self, _: &mut Cx<'_>) -> Result<SellingAfterShip, &'static str> {
        self.log.put("ship");
        let place = "harbour".into();
        Ok(SellingAfterShip::Shipped { parcel: 3, place })
    }

    fn shipped(
        &mut self,
        _: &mut BlockingCx<'_>,
        SellingInShipped { parcel, place }: SellingInShipped<'_>,
    ) -> Result<(), &'static str> {
        self.log.put(format_args!("parcel {parcel} at the {place}"));
        if self.failures > 0 {
            self.failures -= 1;
            return Err("the disk is full");
        }
        *parcel += 1;
        Ok(())
    }

    fn ship_failed(
        &mut self,
        _: &mut Cx<'_>,
        cause: Cause<&'static str>,
    ) -> Result<(), &'static str> {
        self.log.put(cause);
        Ok(())
    }

    async fn lost(&mut self, cx: &mut Cx<'_>) -> Result<(), &'static str> {
        cx.sleep(secs(1)).await;
        self.log.put("lost");
        Ok(())
    }
}

async fn ended(failures: u32, takes: u32) -> (SellingEnd, Vec<String>) {
    let clock = TestClock::new();
    let runtime = one(&clock).build().unwrap();
    let log = Log::default();
    let order = Order {
        log: log.clone(),
        failures,
        takes,
    };
    let handle = runtime.submit(order).start().unwrap();
    for _ in 0..3 {
        runtime.quiet().await;
        clock.advance(secs(1));
    }
    (handle.await.unwrap().end, log.take())
}

#[test]
fn the_function_of_an_end_runs_before_the_end() {
    limited(|| async {
        let (end, lines) = ended(0, 1).await;
        assert!(matches!(end, SellingEnd::Shipped { parcel: 4, place } if place == "harbour"));
        assert_eq!(lines, ["ship", "parcel 3 at the harbour"]);

        let (end, lines) = ended(0, 0).await;
        assert!(matches!(end, SellingEnd::GivenUp));
        assert!(lines.is_empty());
    });
}

/// Its error is one of the phase that has chosen the end: the phase is tried again, and takes its way out.
#[test]
fn an_error_is_one_of_the_phase_before() {
    limited(|| async {
        let (end, lines) = ended(1, 1).await;
        assert!(matches!(end, SellingEnd::Shipped { .. }));
        let once = ["ship", "parcel 3 at the harbour"];
        assert_eq!(lines, [once, once].concat());

        let (end, lines) = ended(2, 1).await;
        assert!(matches!(end, SellingEnd::Lost));
        assert_eq!(lines[4..], ["the disk is full", "lost"]);
    });
}

struct Audit {
    order: Order,
}

/// A layer has an end with a function, around an operation that has some.
#[fom(operation(Audit), around(Order), error(&'static str), transient)]
enum Auditing {
    #[phase(start, inner(order), to(Booked))]
    Inside { order: Selling },
    #[phase(end, entry, sync)]
    Booked,
}

impl AuditingTransitions for Audit {
    async fn inside(&mut self, _: &mut Cx<'_>, _: &mut Selling) -> Result<(), &'static str> {
        Ok(())
    }

    fn booked(&mut self, _: &mut Cx<'_>) -> Result<(), &'static str> {
        self.order.log.put("booked");
        Ok(())
    }
}

#[test]
fn a_layer_and_the_operation_inside_have_their_own() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let order = Order {
            log: log.clone(),
            failures: 0,
            takes: 1,
        };
        let ended = runtime.submit(Audit { order }).await.unwrap();
        assert!(matches!(ended.end, AuditingEnd::Booked));
        assert_eq!(log.take(), ["ship", "parcel 3 at the harbour", "booked"]);
    });
}
