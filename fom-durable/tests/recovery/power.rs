//! The points of power failure in the book's table. At each, the journal is copied as a crash would leave it, and
//! another process goes on with the copy.

use std::sync::{Arc, Mutex};

use fom_durable::{
    journal::{Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery},
    prelude::*,
};
use fom_runtime::{Builder, observe::TransitionCause};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited};

/// A process: what it did and heard, and what a crash would have left at each point.
#[derive(Clone, Default)]
struct Life {
    journal: MemoryJournal,
    log: Log,
    cuts: Arc<Mutex<Vec<(String, MemoryJournal)>>>,
}

impl Life {
    fn on(journal: MemoryJournal) -> Self {
        Self {
            journal,
            ..Self::default()
        }
    }

    fn cut(&self, point: impl Into<String>) {
        let cut = (point.into(), self.journal.fork());
        self.cuts.lock().unwrap().push(cut);
    }

    fn builder(&self) -> Builder {
        let (first, second) = (self.clone(), self.clone());
        Runtime::builder()
            .localities(1)
            .pin(false)
            .resource(self.clone())
            .journal_with(self.clone())
            .listen(move |heard| first.cut(format!("{} is told {:?}", heard.machine(), heard.to())))
            .listen(move |heard| {
                let way = match heard.cause() {
                    TransitionCause::Resumed => "resumed in",
                    _ => "went to",
                };
                let to = heard.to().unwrap_or("a failure");
                second.log.put(format!("{} {way} {to}", heard.machine()));
            })
    }

    /// Returns what the process did in one machine.
    fn lines(&self, machine: &str) -> Vec<String> {
        let lines = self.log.lines().into_iter();
        lines
            .filter_map(|line| Some(line.strip_prefix(machine)?.trim_start().to_owned()))
            .collect()
    }

    /// Returns what a crash at this point would have left; with `then`, at the next point of that name.
    fn crash(&self, point: &str, then: Option<&str>) -> Self {
        let cuts = self.cuts.lock().unwrap();
        let mut left = cuts.iter().skip_while(|cut| cut.0 != point);
        let found = match then {
            None => left.next(),
            Some(then) => left.find(|cut| cut.0 == then),
        };
        let known: Vec<_> = cuts.iter().map(|cut| &cut.0).collect();
        let found = found.unwrap_or_else(|| panic!("{point} {then:?} is none of {known:?}"));
        Self::on(found.1.fork())
    }
}

/// Commits, with a point on either side.
impl Journal for Life {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.cut("not written");
        self.journal.commit(batch)?;
        self.cut("synced");
        Ok(())
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
#[derive(Debug)]
enum Delivery {
    #[phase(start, to(Pack))]
    Pay,
    #[phase(to(Sent))]
    Pack,
    #[phase(end)]
    Sent,
}

impl DeliveryTransitions for Order {
    async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let life = cx.resource::<Life>();
        life.log
            .put(format!("Delivery pays {} {}", cx.step_key(), cx.attempt()));
        life.cut("in Pay");
        cx.outbox().submit(Parcel).post()?;
        cx.outbox().send::<Register>("sales", Sale::Sold(3))?;
        Ok(())
    }

    async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let life = cx.resource::<Life>();
        life.log.put("Delivery packs");
        life.cut("in Pack");
        Ok(())
    }

    fn resume(&mut self, cx: &mut Cx<'_>, _: &mut Delivery) -> Result<(), BoxError> {
        let life = cx.resource::<Life>();
        life.log.put("Delivery is made again");
        life.cut("in resume");
        Ok(())
    }
}

/// Started through the outbox.
#[derive(Serialize, Deserialize)]
struct Parcel;

#[fom(operation(Parcel))]
enum Carrying {
    #[phase(start, to(There))]
    Carry,
    #[phase(end)]
    There,
}

impl CarryingTransitions for Parcel {
    async fn carry(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Life>().cut("in Carry");
        Ok(())
    }
}

/// Gets events through the outbox.
#[derive(Serialize, Deserialize)]
struct Register {
    sold: u32,
}

#[derive(Serialize, Deserialize)]
enum Sale {
    Sold(u32),
}

#[fom(operation(Register), event(Sale))]
enum Counting {
    #[allow(dead_code)]
    #[phase(start, sync, on(Sold), to(Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl CountingTransitions for Register {
    fn open(&mut self, cx: &mut Cx<'_, Sale>, event: Sale) -> Result<CountingAfterOpen, BoxError> {
        let Sale::Sold(pieces) = event;
        self.sold += pieces;
        let life = cx.resource::<Life>();
        life.log.put(format!("Counting counts {}", self.sold));
        life.cut("in Open");
        Ok(CountingAfterOpen::Stay)
    }
}

/// A life without a crash, to its end.
async fn whole() -> Life {
    let life = Life::default();
    let runtime = life.builder().build().unwrap();
    let register = runtime.submit(Register { sold: 0 }).key("sales");
    let register = register.start().unwrap();
    register.reached([CountingKind::Open]).await;
    runtime.submit(Order).once("order 1").await.unwrap();
    runtime.quiet().await;
    let expected = [
        "went to Pay",
        "pays KEY 0",
        "went to Pack",
        "packs",
        "went to Sent",
    ];
    assert_eq!(keyless(&life.lines("Delivery")), expected);
    assert_eq!(life.lines("Carrying"), ["went to Carry", "went to There"]);
    assert_eq!(life.lines("Counting"), ["went to Open", "counts 3"]);
    life
}

fn keyless(lines: &[String]) -> Vec<String> {
    let is_key = |word: &&str| word.len() > 30;
    let without = |line: &String| match line.split(' ').find(is_key) {
        Some(key) => line.replace(key, "KEY"),
        None => line.clone(),
    };
    lines.iter().map(without).collect()
}

/// The next process, until nothing is left to do.
async fn goes_on(life: &Life) -> Runtime {
    let runtime = life.builder().build().unwrap();
    runtime.quiet().await;
    runtime
}

/// Checks that all that the outbox of `Pay` started and sent came exactly once.
fn came_once(life: &Life) {
    let carried = life.lines("Carrying");
    assert_eq!(carried.last().unwrap(), "went to There");
    let counted = life.lines("Counting").into_iter();
    let counts: Vec<_> = counted.filter(|line| line.starts_with("counts")).collect();
    assert_eq!(counts, ["counts 3"]);
}

/// After `start()`, before its first commit.
#[test]
fn before_the_first_commit_it_was_never_there() {
    limited(async || {
        let life = whole().await;
        let life = life.crash("Counting is told Some(\"Open\")", Some("not written"));
        let runtime = goes_on(&life).await;
        assert_eq!(life.lines("Delivery"), [""; 0]);
        // A caller without an answer submits again.
        runtime.submit(Order).once("order 1").await.unwrap();
        runtime.quiet().await;
        came_once(&life);
    });
}

/// In the phase, before its function.
#[test]
fn before_the_function_it_is_run_for_the_first_time() {
    limited(async || {
        let life = whole().await;
        let life = life.crash("Delivery is told Some(\"Pay\")", None);
        goes_on(&life).await;
        let expected = [
            "resumed in Pay",
            "is made again",
            "pays KEY 0",
            "went to Pack",
            "packs",
            "went to Sent",
        ];
        assert_eq!(keyless(&life.lines("Delivery")), expected);
        came_once(&life);
    });
}

/// Inside the function (A), and when it has returned and nothing is written (B).
#[test]
fn until_it_is_written_the_function_is_run_again_with_its_key() {
    limited(async || {
        let first = whole().await;
        for then in [None, Some("not written")] {
            let life = first.crash("in Pay", then);
            goes_on(&life).await;
            let lines = life.lines("Delivery");
            assert_eq!(lines[..2], ["resumed in Pay", "is made again"]);
            // The key and the attempt are the same.
            assert_eq!(lines[2..], first.lines("Delivery")[1..], "{then:?}");
            came_once(&life);
        }
    });
}

/// Synced, before any listener is told (D); told, but not to all listeners (E).
#[test]
fn when_it_is_synced_the_next_function_is_run() {
    limited(async || {
        let first = whole().await;
        let synced = first.crash("in Pay", Some("synced"));
        let told = first.crash("Delivery is told Some(\"Pack\")", None);
        for life in [synced, told] {
            goes_on(&life).await;
            // No listener hears of the transition into `Pack` any more.
            let expected = ["resumed in Pack", "is made again", "packs", "went to Sent"];
            assert_eq!(life.lines("Delivery"), expected);
            came_once(&life);
        }
    });
}

/// The content of an outbox is on its own, also when its sender has ended.
#[test]
fn what_was_in_the_outbox_comes_once() {
    limited(async || {
        let first = whole().await;
        for (point, again) in [
            ("Carrying is told Some(\"Carry\")", true),
            ("in Carry", true),
            ("Carrying is told Some(\"There\")", false),
        ] {
            let life = first.crash(point, None);
            goes_on(&life).await;
            let expected: &[&str] = match again {
                true => &["resumed in Carry", "went to There"],
                false => &[],
            };
            assert_eq!(life.lines("Carrying"), expected, "{point}");
        }
    });
}

/// An event was taken out of the mailbox; first its step was not committed, then it was.
#[test]
fn an_event_is_taken_again_until_its_step_is_committed() {
    limited(async || {
        let first = whole().await;
        let life = first.crash("in Open", None);
        let runtime = goes_on(&life).await;
        let expected = ["resumed in Open", "counts 3"];
        assert_eq!(life.lines("Counting"), expected);
        drop(runtime);
        let life = life.crash("in Open", Some("synced"));
        let runtime = goes_on(&life).await;
        assert_eq!(life.lines("Counting"), ["resumed in Open"]);
        runtime.submit(Order).await.unwrap();
        runtime.quiet().await;
        assert_eq!(life.lines("Counting")[1..], ["counts 6"]);
    });
}

/// In the function of the last phase.
#[test]
fn in_the_last_phase_its_function_is_run_again() {
    limited(async || {
        let life = whole().await.crash("in Pack", None);
        goes_on(&life).await;
        let expected = ["resumed in Pack", "is made again", "packs", "went to Sent"];
        assert_eq!(life.lines("Delivery"), expected);
    });
}

/// The end is committed, but its caller was not told.
#[test]
fn an_end_that_was_not_told_is_told_to_a_caller_that_asks_again() {
    limited(async || {
        let life = whole().await.crash("in Pack", Some("synced"));
        let runtime = goes_on(&life).await;
        assert_eq!(life.lines("Delivery"), [""; 0]);
        let ended = runtime.submit(Order).once("order 1").await.unwrap();
        assert!(matches!(ended.end, DeliveryEnd::Sent));
        runtime.quiet().await;
        assert_eq!(life.lines("Delivery"), [""; 0], "it is not run again");
    });
}

/// Inside `resume`.
#[test]
fn what_is_made_again_may_be_made_again() {
    limited(async || {
        let first = whole().await;
        let second = first.crash("in Pay", None);
        drop(goes_on(&second).await);
        let third = second.crash("in resume", None);
        goes_on(&third).await;
        assert_eq!(third.lines("Delivery"), second.lines("Delivery"));
        came_once(&third);
    });
}

/// A crash at any point of a whole life: each order is delivered, each piece is counted once, and nothing is left.
#[test]
fn wherever_it_goes_all_comes_to_its_end() {
    limited(async || {
        let first = whole().await;
        let cuts = first.cuts.lock().unwrap().clone();
        assert!(cuts.len() >= 15, "{}", cuts.len());
        for (number, (point, left)) in cuts.into_iter().enumerate() {
            let life = Life::on(left);
            let runtime = goes_on(&life).await;
            let register = runtime.submit(Register { sold: 0 }).key("sales");
            // Before the first commit there is no register.
            let _ = register.start();
            runtime.submit(Order).once("order 1").await.unwrap();
            runtime.quiet().await;
            let left = runtime.operations();
            let counting: Vec<_> = left.foms.iter().map(|fom| fom.operation).collect();
            assert_eq!(counting, ["Register"], "{number} {point}");
            assert!(left.quarantine.is_empty() && left.incidents.is_empty());
            runtime.submit(Order).await.unwrap();
            runtime.quiet().await;
            let counted = life.lines("Counting");
            assert_eq!(counted.last().unwrap(), "counts 6", "{number} {point}");
        }
    });
}

/// Two lives on copies of one moment, as after a backup was restored. A fom in the copy makes its steps under the same
/// keys as before; a new fom gets keys that were never used.
#[test]
fn after_a_copy_was_restored_keys_come_again_for_what_was_in_it() {
    limited(async || {
        let first = whole().await;
        let mut paid = Vec::new();
        for _ in 0..2 {
            let life = first.crash("Delivery is told Some(\"Pay\")", None);
            let runtime = goes_on(&life).await;
            runtime.submit(Order).await.unwrap();
            let lines = life.lines("Delivery").into_iter();
            paid.push(lines.filter(|line| line.starts_with("pays")).collect());
        }
        let [before, after]: [Vec<_>; 2] = paid.try_into().unwrap();
        assert_eq!((before.len(), after.len()), (2, 2));
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[1]);
    });
}
