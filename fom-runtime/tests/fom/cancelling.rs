//! Cancelling a fom: in the queue, while it waits, while it runs or blocks, and after its end.

use std::sync::mpsc;

use fom_runtime::{machine::FomState, prelude::*, time::TestClock};

use crate::kit::foms::{Oops, Word, walker};
use crate::kit::{Gate, Log, limited, one};

/// A fom that is cancelled in the queue never runs; a fom that waits ends at once. A second cancel changes nothing, and
/// a cancel after the end does nothing.
#[test]
fn cancel_in_the_queue_while_waiting_and_after_the_end() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let gate = Gate::close(&runtime, 0);
        let queued = runtime.submit(walker(&log, "queued")).start().unwrap();
        queued.cancel();
        queued.cancel();
        gate.open();
        let failure = queued.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Cancelled));
        assert_eq!(
            (failure.phase_name(), failure.operation.is_some()),
            ("Begin", true)
        );
        assert_eq!(log.take(), [""; 0]);

        let waiting = runtime.submit(walker(&log, "waiting")).start().unwrap();
        let address = waiting.fom().clone();
        runtime.quiet().await;
        assert_eq!(log.take(), ["waiting begins", "waiting waits"]);
        // An event that is already there does not come first: its effect is dropped.
        let gate = Gate::close(&runtime, 0);
        waiting.send(Word::Go).unwrap();
        assert!(runtime.cancel(waiting.id()));
        gate.open();
        let failure = waiting.await.unwrap_err();
        assert_eq!(
            (failure.cause.name(), failure.phase_name()),
            ("cancelled", "Waits")
        );
        assert_eq!(log.take(), [""; 0]);
        address.cancel();
        assert!(!runtime.cancel(address.id()));
        assert_eq!(
            address.send(Word::Go),
            Err(fom_runtime::error::SendError::Ended(Word::Go))
        );
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// A fom that is cancelled while it runs, blocked or not, is told. It goes on to its next wait, and is dropped there.
/// If it ends before that, it has ended.
#[test]
fn cancel_while_it_runs() {
    struct Busy {
        blocking: bool,
        waits: bool,
        running: mpsc::Sender<()>,
        go: mpsc::Receiver<()>,
        log: Log,
    }
    impl Busy {
        fn run(&self, is_cancelled: impl Fn() -> bool) {
            self.log.put(format_args!("cancelled: {}", is_cancelled()));
            self.running.send(()).unwrap();
            self.go.recv().unwrap();
            self.log.put(format_args!("cancelled: {}", is_cancelled()));
        }
    }
    #[fom(operation(Busy), error(Oops), transient)]
    enum Being {
        #[phase(start, to(Plain, Block), sync)]
        Choose,
        #[phase(to(Next), sync)]
        Plain,
        #[phase(to(Next), blocking)]
        Block,
        #[phase(to(Done))]
        Next,
        #[phase(end)]
        Done,
    }
    impl BeingTransitions for Busy {
        fn choose(&mut self, _: &mut Cx<'_>) -> Result<BeingAfterChoose, Oops> {
            Ok(if self.blocking {
                BeingAfterChoose::Block
            } else {
                BeingAfterChoose::Plain
            })
        }
        fn plain(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
            self.run(|| cx.is_cancelled());
            Ok(())
        }
        fn block(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), Oops> {
            self.run(|| cx.is_cancelled());
            Ok(())
        }
        async fn next(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            self.log.put("next");
            if self.waits {
                tokio::task::yield_now().await;
                self.log.put("after the wait");
            }
            Ok(())
        }
    }
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        for (blocking, waits) in [(false, false), (false, true), (true, false), (true, true)] {
            let (running, runs) = mpsc::channel();
            let (go, gone) = mpsc::channel();
            let busy = Busy {
                blocking,
                waits,
                running,
                go: gone,
                log: log.clone(),
            };
            let fom = runtime.submit(busy).start().unwrap();
            runs.recv().unwrap();
            assert_eq!(fom.state(), FomState::Running);
            assert_eq!(runtime.operation(fom.id()).unwrap().blocked, blocking);
            fom.cancel();
            go.send(()).unwrap();
            match fom.await {
                Ok(ended) => assert!(!waits && matches!(ended.end, BeingEnd::Done)),
                Err(failure) => {
                    assert!(waits);
                    assert_eq!(
                        (failure.cause.name(), failure.phase_name()),
                        ("cancelled", "Next")
                    );
                    assert!(failure.operation.is_some());
                }
            }
            assert_eq!(log.take(), ["cancelled: false", "cancelled: true", "next"]);
        }
    });
}
