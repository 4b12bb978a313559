//! Active objects: the activation list is bounded, has priorities, and reports its marks.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::sync::{Arc, Mutex, OnceLock};

use fom_patterns::{
    active::{ActiveCallError, Pressure, WhenFull},
    prelude::*,
};
use fom_runtime::time::TestClock;

use crate::kit::{Gate, Log, limited, one};

struct Printer {
    log: Log,
    paper: usize,
}

#[active]
impl Printer {
    pub fn print(&mut self, page: String) -> usize {
        self.log.put(page);
        self.log.lines().len()
    }

    #[active(priority = "high")]
    pub fn first(&mut self, page: String) {
        self.log.put(page);
    }

    #[active(priority = "low")]
    pub fn last(&mut self, page: String) {
        self.log.put(page);
    }

    #[when(self.paper > 0)]
    pub fn use_paper(&mut self) -> usize {
        self.paper -= 1;
        self.paper
    }

    pub fn load(&mut self, paper: usize) {
        self.paper += paper;
    }
}

fn printer(log: &Log) -> Printer {
    Printer {
        log: log.clone(),
        paper: 0,
    }
}

/// AO-05: a call that finds the list full is answered at once and gives its arguments back. Nothing else is disturbed.
#[test]
fn a_full_list_gives_the_arguments_back() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let printer = printer(&log).activation().capacity(2);
        let printer = printer.start(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        let taken: Vec<_> = ["a", "b"].map(|page| printer.print(page.into())).into();
        let refused = printer.print("c".into());
        assert!(refused.is_ready());
        let Err(ActiveCallError::Full(arguments)) = refused.await else {
            panic!("it was taken")
        };
        assert_eq!(arguments.take::<(u64,)>(), None);
        assert_eq!(arguments.take(), Some(("c".to_owned(),)));
        assert_eq!(arguments.take::<(String,)>(), None);
        gate.open();
        for call in taken {
            call.await.unwrap();
        }
        assert_eq!(log.lines(), ["a", "b"]);
    });
}

/// AO-05: or calls wait for room, in their order. Dropping a waiting call takes its request back.
#[test]
fn calls_wait_for_room_in_their_order() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let printer = printer(&log).activation().capacity(1);
        let printer = printer.when_full(WhenFull::Wait).start(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        let mut calls: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|page| printer.print(page.into()))
            .into();
        assert_eq!(printer.queued(), 1);
        drop(calls.remove(2));
        calls[2].cancel();
        gate.open();
        let mut outcomes = Vec::new();
        for call in calls {
            outcomes.push(call.await.ok());
        }
        assert_eq!(outcomes, [Some(1), Some(2), None, Some(3)]);
        assert_eq!(log.lines(), ["a", "b", "e"]);
    });
}

/// AO-05: a request with a false guard has a place in the list. When the request goes, a waiting call gets the place.
#[test]
fn a_cancelled_request_makes_room() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let printer = printer(&log).activation().capacity(1);
        let printer = printer.when_full(WhenFull::Wait).start(&runtime).unwrap();
        let stuck = printer.use_paper();
        let loads = printer.load(1);
        runtime.quiet().await;
        assert!(!loads.is_ready());
        stuck.cancel();
        loads.await.unwrap();
        assert_eq!(printer.use_paper().await.unwrap(), 0);
    });
}

/// NR-10, AO-05: higher priorities first; inside one priority, the order of the calls.
#[test]
fn priorities_are_first_in_first_out_inside() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let printer = printer(&log).activate(&runtime).unwrap();
        let gate = Gate::close(&runtime, 0);
        drop(printer.last("l1".into()));
        drop(printer.print("n1".into()));
        drop(printer.first("h1".into()));
        drop(printer.print("n2".into()));
        drop(printer.first("h2".into()));
        let end = printer.last("l2".into());
        gate.open();
        end.await.unwrap();
        assert_eq!(log.lines(), ["h1", "h2", "n1", "n2", "l1", "l2"]);
    });
}

/// AO-05, trap 35: the marks have hysteresis, and are reported in order with no lock held. Each object has its own
/// marks.
#[test]
fn marks_are_told_once_each_way() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let told = Arc::new(Mutex::new(Vec::new()));
        let itself: Arc<OnceLock<PrinterProxy>> = Arc::default();
        let tell = {
            let (told, itself) = (Arc::clone(&told), Arc::clone(&itself));
            move |pressure| {
                // The closure may ask the list.
                let queued = itself.get().unwrap().queued();
                told.lock().unwrap().push((pressure, queued));
            }
        };
        let marked = printer(&log).activation().marks(3, 1, tell);
        let marked = marked.start(&runtime).unwrap();
        let other = printer(&log).activate(&runtime).unwrap();
        itself.set(marked.clone()).unwrap();
        let gate = Gate::close(&runtime, 0);
        let flood: Vec<_> = (0..10).map(|_| other.load(1)).collect();
        let mut calls: Vec<_> = (0..4).map(|_| marked.load(1)).collect();
        assert_eq!(*told.lock().unwrap(), [(Pressure::High, 3)]);
        assert_eq!(marked.pressure(), Pressure::High);
        assert_eq!(other.pressure(), Pressure::Low);
        // Up and down between the marks: the closure is not called.
        for _ in 0..5 {
            calls.pop().unwrap().cancel();
            calls.push(marked.load(1));
        }
        assert_eq!(told.lock().unwrap().len(), 1);
        gate.open();
        for call in calls.into_iter().chain(flood) {
            call.await.unwrap();
        }
        assert_eq!(
            *told.lock().unwrap(),
            [(Pressure::High, 3), (Pressure::Low, 1)]
        );
        assert_eq!(marked.pressure(), Pressure::Low);
        // The closure holds a proxy of its own object.
        runtime
            .shutdown(Shutdown::Now, std::time::Duration::from_secs(5))
            .await;
    });
}

/// A panic in the closure of the marks is an incident, and the calls continue.
#[test]
fn marks_that_panic_harm_no_call() {
    limited(|| async {
        let (runtime, log) = (one(&TestClock::new()).build().unwrap(), Log::default());
        let printer = printer(&log)
            .activation()
            .marks(1, 0, |_| panic!("no marks today"));
        let printer = printer.start(&runtime).unwrap();
        assert_eq!(printer.print("a".into()).await.unwrap(), 1);
        assert_eq!(printer.print("b".into()).await.unwrap(), 2);
        let incidents = runtime.operations().incidents;
        assert!(
            incidents
                .iter()
                .all(|one| one.text.contains("no marks today"))
        );
        assert_eq!(incidents.iter().map(|it| it.count).sum::<u64>(), 4);
    });
}
