//! A compensation that has begun runs to its end, although a cancel comes: after a failure, and in a phase with
//! `cancelled = "later"`.

use std::panic::resume_unwind;

use fom_runtime::{Cause, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// How the charge ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Charge {
    Taken,
    Refused,
    Panics,
    Hangs,
}

/// Charges a customer, and ships. What fails is paid back.
struct Order {
    charge: Charge,
    log: Log,
}

enum Word {
    Go,
}

#[fom(operation(Order), event(Word), transient)]
#[derive(Debug, PartialEq)]
enum Selling {
    #[phase(start, to(Pack), within = "10s", failed(Refund, Invoice), cancelled)]
    Charge,
    /// Another way to get the money.
    #[phase(sync, on(Go), to(Check), failed(Refund), cancelled)]
    Invoice,
    /// No effect, and no way out.
    #[phase(sync, on(Go), to(Pack))]
    Check,
    #[phase(sync, on(Go), to(Ship), failed(Refund), cancelled)]
    Pack,
    #[phase(to(Done), cancelled = "later")]
    Ship,
    #[phase(sync, on(Go), to(Restock))]
    Refund,
    #[phase(to(Refunded))]
    Restock,
    #[phase(end)]
    Done,
    #[phase(end)]
    Refunded,
}

impl Order {
    fn back(&self, cx: &Cx<'_, Word>, cause: &Cause<BoxError>) {
        assert!(!cx.is_cancelled());
        self.log.put(cause.name());
    }
}

impl SellingTransitions for Order {
    async fn charge(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        match self.charge {
            Charge::Taken => Ok(()),
            Charge::Refused => Err("refused".into()),
            // Runs no panic hook.
            Charge::Panics => resume_unwind(Box::new("panics")),
            Charge::Hangs => {
                cx.sleep(secs(60)).await;
                Ok(())
            }
        }
    }

    async fn charge_failed(
        &mut self,
        cx: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<SellingAfterChargeFailed, BoxError> {
        self.log.put("asks whether the money was taken");
        cx.sleep(secs(1)).await;
        self.back(cx, &cause);
        Ok(match &cause {
            Cause::Panicked(_) => SellingAfterChargeFailed::Invoice,
            _ => SellingAfterChargeFailed::Refund,
        })
    }

    fn invoice(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterInvoice, BoxError> {
        Ok(SellingAfterInvoice::Check)
    }

    fn invoice_failed(
        &mut self,
        cx: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        self.back(cx, &cause);
        Ok(())
    }

    fn check(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterCheck, BoxError> {
        assert!(!cx.is_cancelled());
        Ok(SellingAfterCheck::Pack)
    }

    fn pack(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterPack, BoxError> {
        Ok(SellingAfterPack::Ship)
    }

    fn pack_failed(
        &mut self,
        cx: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        self.back(cx, &cause);
        Ok(())
    }

    async fn ship(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.sleep(secs(1)).await;
        assert!(!cx.is_cancelled());
        Ok(())
    }

    fn refund(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterRefund, BoxError> {
        assert!(!cx.is_cancelled());
        Ok(SellingAfterRefund::Restock)
    }

    async fn restock(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.sleep(secs(1)).await;
        assert!(!cx.is_cancelled());
        Ok(())
    }
}

fn order(log: &Log, charge: Charge) -> Order {
    let log = log.clone();
    Order { charge, log }
}

fn runtime(clock: &TestClock) -> Runtime {
    one(clock).build().unwrap()
}

/// Cancels the operation, and asserts that it stays in its phase.
async fn cancels_in_vain(runtime: &Runtime, order: &Handle<Order>, phase: SellingKind) {
    order.reached([phase]).await;
    for _ in 0..3 {
        order.cancel();
        assert!(runtime.cancel(order.id()));
        runtime.quiet().await;
    }
    let stays = order.reached([phase]).await;
    assert_eq!(stays, Reached::Phase(phase));
}

/// An error, and a missed deadline. The cancel comes while the way out is chosen, and in each phase after it.
#[test]
fn a_cancel_drops_no_compensation_after_a_failure() {
    limited(|| async {
        for (charge, cause) in [(Charge::Refused, "error"), (Charge::Hangs, "late")] {
            let (log, clock) = (Log::default(), TestClock::new());
            let runtime = runtime(&clock);
            let order = runtime.submit(order(&log, charge)).start().unwrap();
            runtime.quiet().await;
            if charge == Charge::Hangs {
                clock.advance(secs(10));
                runtime.quiet().await;
            }
            assert_eq!(log.take(), ["asks whether the money was taken"]);
            cancels_in_vain(&runtime, &order, SellingKind::Charge).await;
            clock.advance(secs(1));
            cancels_in_vain(&runtime, &order, SellingKind::Refund).await;
            order.send(Word::Go).unwrap();
            cancels_in_vain(&runtime, &order, SellingKind::Restock).await;
            clock.advance(secs(1));
            assert_eq!(order.await.unwrap().end, SellingEnd::Refunded);
            assert_eq!(log.take(), [cause]);
        }
    });
}

/// `abort` drops a compensation.
#[test]
fn abort_drops_on_the_way_back_from_a_failure() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let refused = order(&Log::default(), Charge::Refused);
        let order = runtime.submit(refused).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        order.reached([SellingKind::Refund]).await;
        order.cancel();
        assert!(runtime.abort(order.id()));
        let failure = order.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(failure.phase, SellingKind::Refund);
    });
}

/// `failed(..)` may lead to another way to go on. A phase there with `cancelled` hears a cancel, also one that came in a
/// phase between.
#[test]
fn another_way_to_go_on_hears_a_cancel() {
    limited(|| async {
        for later in [false, true] {
            let (log, clock) = (Log::default(), TestClock::new());
            let runtime = runtime(&clock);
            let panics = order(&log, Charge::Panics);
            let order = runtime.submit(panics).start().unwrap();
            runtime.quiet().await;
            clock.advance(secs(1));
            order.reached([SellingKind::Invoice]).await;
            if later {
                order.send(Word::Go).unwrap();
                cancels_in_vain(&runtime, &order, SellingKind::Check).await;
                order.send(Word::Go).unwrap();
            } else {
                order.cancel();
            }
            cancels_in_vain(&runtime, &order, SellingKind::Refund).await;
            order.send(Word::Go).unwrap();
            runtime.quiet().await;
            clock.advance(secs(1));
            assert_eq!(order.await.unwrap().end, SellingEnd::Refunded);
            let first = "asks whether the money was taken";
            assert_eq!(log.take(), [first, "panicked", "cancelled"]);
        }
    });
}

/// Returns an operation in `Ship`, cancelled there.
async fn cancelled_in_ship(runtime: &Runtime) -> Handle<Order> {
    let taken = order(&Log::default(), Charge::Taken);
    let order = runtime.submit(taken).start().unwrap();
    order.reached([SellingKind::Pack]).await;
    order.send(Word::Go).unwrap();
    cancels_in_vain(runtime, &order, SellingKind::Ship).await;
    order
}

/// A cancel waits in a phase with `cancelled = "later"`. `abort` does not.
#[test]
fn past_the_point_of_no_return_a_cancel_waits() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = runtime(&clock);
        let order = cancelled_in_ship(&runtime).await;
        clock.advance(secs(1));
        assert_eq!(order.await.unwrap().end, SellingEnd::Done);
        let order = cancelled_in_ship(&runtime).await;
        order.abort();
        assert_eq!(order.await.unwrap_err().phase, SellingKind::Ship);
        let ship = Order::GRAPH.find("Ship").unwrap();
        assert!(ship.delays_cancel() && !ship.hears_cancel());
        let table = Order::GRAPH.table();
        assert!(table.contains("a cancel waits"), "{table}");
        let json = Order::GRAPH.json();
        assert!(json.contains("\"cancelled\": \"later\""), "{json}");
    });
}

/// Writes to a file, and then to the network. Each function is to be whole.
struct Copy {
    log: Log,
}

#[fom(operation(Copy), event(Word), transient)]
#[derive(Debug, PartialEq)]
enum Copying {
    #[phase(start, sync, on(Go), to(Send), cancelled = "later")]
    Save,
    #[phase(
        sync,
        on(Go),
        to(Rest, Undo),
        late,
        within = "10s",
        failed(Undo),
        cancelled = "later"
    )]
    Send,
    #[phase(to(Done))]
    Rest,
    #[phase(sync, on(Go), to(Done))]
    Undo,
    #[phase(end)]
    Done,
}

impl CopyingTransitions for Copy {
    fn save(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<CopyingAfterSave, BoxError> {
        assert!(!cx.is_cancelled());
        self.log.put("saved");
        Ok(CopyingAfterSave::Send)
    }

    fn send(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<CopyingAfterSend, BoxError> {
        self.log.put("sent");
        Ok(CopyingAfterSend::Rest)
    }

    fn send_late(&mut self, _: &mut Cx<'_, Word>) -> Result<CopyingAfterSend, BoxError> {
        Ok(CopyingAfterSend::Undo)
    }

    fn send_failed(&mut self, _: &mut Cx<'_, Word>, _: Cause<BoxError>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn rest(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.sleep(secs(60)).await;
        Ok(())
    }

    fn undo(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<CopyingAfterUndo, BoxError> {
        Ok(CopyingAfterUndo::Done)
    }
}

/// The cancel that waited is heard in the next phase without the key, at its first wait. A fom that has not begun has
/// nothing to finish.
#[test]
fn a_cancel_that_waited_is_heard_in_the_next_phase() {
    limited(|| async {
        let (log, clock) = (Log::default(), TestClock::new());
        let runtime = runtime(&clock);
        let submit = |key: u64| {
            let log = log.clone();
            runtime.submit(Copy { log }).serial(key).start().unwrap()
        };
        let copy = submit(1);
        copy.reached([CopyingKind::Save]).await;
        let second = submit(1);
        second.cancel();
        assert!(matches!(second.await.unwrap_err().cause, Cause::Cancelled));
        copy.cancel();
        for phase in [CopyingKind::Save, CopyingKind::Send] {
            copy.reached([phase]).await;
            runtime.quiet().await;
            copy.send(Word::Go).unwrap();
        }
        let failure = copy.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(failure.phase, CopyingKind::Rest);
        assert_eq!(log.take(), ["saved", "sent"]);
    });
}

/// The way out of a phase without `cancelled`, and a phase that the function itself chose, are no way back.
#[test]
fn only_the_way_out_of_a_phase_with_cancelled_is_a_way_back() {
    limited(|| async {
        let (log, clock) = (Log::default(), TestClock::new());
        let runtime = runtime(&clock);
        let copy = runtime.submit(Copy { log }).start().unwrap();
        copy.reached([CopyingKind::Save]).await;
        copy.send(Word::Go).unwrap();
        copy.reached([CopyingKind::Send]).await;
        runtime.quiet().await;
        clock.advance(secs(10));
        copy.reached([CopyingKind::Undo]).await;
        copy.cancel();
        assert_eq!(copy.await.unwrap_err().phase, CopyingKind::Undo);
    });
}
