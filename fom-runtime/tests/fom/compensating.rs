//! A cancel in a phase with `cancelled` is a transition: the operation goes back the way it came.

use std::{future::pending, sync::mpsc};

use fom_runtime::{Cause, config::Shutdown, prelude::*, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// Charges, waits for goods, and ships. A cancel gives the money back.
struct Order {
    log: Log,
    fails: bool,
}

enum Word {
    Go,
}

#[fom(operation(Order), event(Word), transient)]
#[derive(Debug, PartialEq)]
enum Selling {
    #[phase(start, to(Pack), retry = "3, 10s..10s", failed(Refund), cancelled)]
    Charge,
    #[phase(sync, on(Go), to(Ship), failed(Refund, Lost), cancelled)]
    Pack,
    #[phase(to(Done))]
    Ship,
    #[phase(sync, on(Go), to(Refunded))]
    Refund { why: String },
    #[phase(end)]
    Done,
    #[phase(end)]
    Refunded { why: String },
    #[phase(end, failure)]
    Lost,
}

impl SellingTransitions for Order {
    async fn charge(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.log.put("charge");
        match self.fails {
            true => Err("no answer".into()),
            false => Ok(()),
        }
    }

    async fn charge_failed(
        &mut self,
        _: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<SellingAfterChargeFailed, BoxError> {
        let why = cause.to_string();
        Ok(SellingAfterChargeFailed::Refund { why })
    }

    fn pack(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterPack, BoxError> {
        Ok(SellingAfterPack::Ship)
    }

    fn pack_failed(
        &mut self,
        cx: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<SellingAfterPackFailed, BoxError> {
        // The cancel is heard.
        assert!(!cx.is_cancelled());
        self.log
            .put(format_args!("back from pack: {}", cause.name()));
        match cause {
            Cause::Cancelled => Ok(SellingAfterPackFailed::Refund {
                why: cause.to_string(),
            }),
            _ => Ok(SellingAfterPackFailed::Lost),
        }
    }

    async fn ship(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.log.put("ship");
        pending().await
    }

    fn refund(
        &mut self,
        cx: &mut Cx<'_, Word>,
        why: &mut String,
        _: Word,
    ) -> Result<SellingAfterRefund, BoxError> {
        assert!(!cx.is_cancelled());
        let why = why.clone();
        Ok(SellingAfterRefund::Refunded { why })
    }
}

fn order(log: &Log) -> Order {
    Order {
        log: log.clone(),
        fails: false,
    }
}

/// The way back of the phase gets the cause. Further cancels do nothing, and the outcome is the end.
#[test]
fn a_cancel_is_a_transition_and_is_heard_once() {
    limited(|| async {
        let (log, heard) = (Log::default(), Log::default());
        let told = heard.clone();
        let builder = one(&TestClock::new());
        let failed = heard.clone();
        let builder = builder.listen_to_failures(move |_| failed.put("failed"));
        let builder = builder.listen_to::<Order>(move |seen| {
            told.put(format_args!(
                "{:?} -> {:?} ({})",
                seen.from(),
                seen.to(),
                seen.cause()
            ));
        });
        let runtime = builder.build().unwrap();
        let handle = runtime.submit(order(&log)).start().unwrap();
        handle.reached([SellingKind::Pack]).await;
        handle.cancel();
        handle.reached([SellingKind::Refund]).await;
        assert_eq!(log.take(), ["charge", "back from pack: cancelled"]);
        for _ in 0..3 {
            handle.cancel();
            assert!(runtime.cancel(handle.id()));
            runtime.quiet().await;
        }
        assert_eq!(handle.phase(), "Refund");
        handle.send(Word::Go).unwrap();
        let ended = handle.await.unwrap();
        let why = "cancelled".to_owned();
        assert_eq!(ended.end, SellingEnd::Refunded { why });
        let back = &heard.lines()[2];
        assert_eq!(back, "Some(\"Pack\") -> Some(\"Refund\") (cancelled)");
    });
}

/// In the pause of a retry, the cancel ends the pause. A phase without the key drops the operation, as `abort` does in
/// any phase, also on the way back.
#[test]
fn a_pause_is_left_and_abort_drops_in_any_phase() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let fails = Order {
            fails: true,
            ..order(&log)
        };
        let paused = runtime.submit(fails).start().unwrap();
        runtime.quiet().await;
        assert_eq!(log.take(), ["charge"]);
        paused.cancel();
        paused.reached([SellingKind::Refund]).await;
        paused.abort();
        let failure = paused.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(failure.phase_name(), "Refund");

        let shipped = runtime.submit(order(&log)).start().unwrap();
        shipped.reached([SellingKind::Pack]).await;
        shipped.send(Word::Go).unwrap();
        shipped.reached([SellingKind::Ship]).await;
        shipped.cancel();
        assert_eq!(shipped.await.unwrap_err().phase, SellingKind::Ship);

        let dropped = runtime.submit(order(&log)).start().unwrap();
        dropped.reached([SellingKind::Pack]).await;
        assert!(runtime.abort(dropped.id()));
        assert_eq!(dropped.await.unwrap_err().phase, SellingKind::Pack);
        assert_eq!(log.take(), ["charge", "ship", "charge"]);
    });
}

/// An operation that has not begun has nothing to take back. A shutdown is no cancel.
#[test]
fn there_is_no_way_back_before_the_start_and_at_a_shutdown() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let first = runtime.submit(order(&log)).serial(7).start().unwrap();
        first.reached([SellingKind::Pack]).await;
        let second = runtime.submit(order(&log)).serial(7).start().unwrap();
        second.cancel();
        assert!(matches!(second.await.unwrap_err().cause, Cause::Cancelled));
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(matches!(first.await.unwrap_err().cause, Cause::Shutdown));
        assert_eq!(log.take(), ["charge"]);
    });
}

/// Calls a service, and reads the answer from a disk.
struct Slow {
    log: Log,
    opened: mpsc::Receiver<()>,
}

#[fom(operation(Slow), transient)]
enum Slowly {
    #[phase(start, blocking, to(Ask), failed(Undone), cancelled)]
    Read,
    #[phase(to(Done), failed(Undone), cancelled)]
    Ask,
    #[phase(end)]
    Done,
    #[phase(end)]
    Undone,
}

/// Says that its future was dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.put("dropped");
    }
}

impl SlowlyTransitions for Slow {
    fn read(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        self.log.put("reads");
        self.opened.recv()?;
        self.log.put(format_args!("told: {}", cx.is_cancelled()));
        Ok(())
    }

    fn read_failed(&mut self, _: &mut Cx<'_>, cause: Cause<BoxError>) -> Result<(), BoxError> {
        self.log.put(format_args!("read: {}", cause.name()));
        Ok(())
    }

    async fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.log.put("asks");
        let _dropped = Dropped(self.log.clone());
        pending().await
    }

    async fn ask_failed(&mut self, _: &mut Cx<'_>, cause: Cause<BoxError>) -> Result<(), BoxError> {
        self.log.put(format_args!("ask: {}", cause.name()));
        Ok(())
    }
}

/// The future of an async phase is dropped before its way back runs. A blocking function ends first. The next phase
/// hears the cancel then, at its first wait.
#[test]
fn a_cancel_is_heard_where_the_phase_waits() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (log, (open, opened)) = (Log::default(), mpsc::channel());
        let slow = Slow {
            log: log.clone(),
            opened,
        };
        let handle = runtime.submit(slow).start().unwrap();
        until_log(&log, "reads");
        open.send(()).unwrap();
        handle.reached([SlowlyKind::Ask]).await;
        runtime.quiet().await;
        handle.cancel();
        assert_eq!(handle.await.unwrap().kind(), SlowlyKind::Undone);
        let lines = ["reads", "told: false", "asks", "dropped", "ask: cancelled"];
        assert_eq!(log.take(), lines);

        let (open, opened) = mpsc::channel();
        let slow = Slow {
            log: log.clone(),
            opened,
        };
        let handle = runtime.submit(slow).start().unwrap();
        until_log(&log, "reads");
        handle.cancel();
        open.send(()).unwrap();
        assert_eq!(handle.await.unwrap().kind(), SlowlyKind::Undone);
        let lines = ["reads", "told: true", "asks", "dropped", "ask: cancelled"];
        assert_eq!(log.take(), lines);
    });
}

fn until_log(log: &Log, line: &str) {
    while !log.lines().iter().any(|seen| seen == line) {
        std::thread::yield_now();
    }
}

/// Pictures say that a cancel takes the edge.
#[test]
fn pictures_show_the_way_back() {
    let mermaid = Order::GRAPH.mermaid();
    assert!(
        mermaid.contains("Pack --> Lost: failed or cancelled"),
        "{mermaid}"
    );
    let table = Order::GRAPH.table();
    assert!(
        table.contains("failed or cancelled: Refund, Lost"),
        "{table}"
    );
    assert!(Order::GRAPH.json().contains("\"cancelled\": true"));
    let pack = Order::GRAPH.find("Pack").unwrap();
    assert!(pack.hears_cancel());
}
