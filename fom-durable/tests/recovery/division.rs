//! A journal that is divided among several: each operation goes on in one of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};

use fom_durable::{
    Destination, Division, SavedNames,
    journal::{Batch, Damage, EntryId, FileJournal, Journal, Recover},
    prelude::*,
    reading::{self, Content, Reader, Record},
};
use fom_runtime::{Key, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, secs, task::until};

/// What the operations did: the step key of each visit to the first phase, and how each of them ended.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(StepKeys, Ends)>>);

type StepKeys = BTreeMap<u64, Vec<String>>;

/// The number of each bid, and its sum.
type Ends = Vec<(u64, u64)>;

#[derive(Serialize, Deserialize)]
struct Bid {
    number: u64,
}

#[derive(Serialize, Deserialize)]
enum Said {
    Sum { cents: u64 },
}

/// The bid with this number fails after a second.
const FAILS: u64 = 8;

#[fom(operation(Bid), event(Said))]
enum Bidding {
    #[phase(start, to(Open))]
    Check,
    #[phase(sync, on(Sum), to(Closed), within = "10s", late)]
    Open,
    #[phase(end)]
    Closed,
}

impl BiddingTransitions for Bid {
    async fn check(&mut self, cx: &mut Cx<'_, Said>) -> Result<(), BoxError> {
        let key = cx.step_key().to_string();
        let seen = cx.resource::<Seen>().clone();
        seen.0
            .lock()
            .unwrap()
            .0
            .entry(self.number)
            .or_default()
            .push(key);
        if self.number == FAILS {
            cx.sleep(secs(1)).await;
            return Err("no bid".into());
        }
        Ok(())
    }

    fn open(
        &mut self,
        cx: &mut Cx<'_, Said>,
        Said::Sum { cents }: Said,
    ) -> Result<BiddingAfterOpen, BoxError> {
        cx.resource::<Seen>()
            .0
            .lock()
            .unwrap()
            .1
            .push((self.number, cents));
        Ok(BiddingAfterOpen::Closed)
    }

    fn open_late(&mut self, cx: &mut Cx<'_, Said>) -> Result<BiddingAfterOpen, BoxError> {
        cx.resource::<Seen>()
            .0
            .lock()
            .unwrap()
            .1
            .push((self.number, 0));
        Ok(BiddingAfterOpen::Closed)
    }
}

/// The number of a journal.
#[derive(Default)]
struct Number(Option<u128>);

impl Reader for Number {
    fn record(&mut self, record: Record<'_>) {
        if let Content::Head { journal, .. } = record.content {
            self.0 = Some(journal);
        }
    }

    fn damaged(&mut self, entry: EntryId, damage: Damage) {
        panic!("{entry}: {damage}");
    }
}

fn number_of(journal: &Path) -> u128 {
    let mut number = Number::default();
    reading::read(journal, &mut number).unwrap();
    number.0.unwrap()
}

/// Nothing: a new journal has no entries.
struct Nothing;

impl Recover for Nothing {
    fn entry(&mut self, _: EntryId, _: &[u8]) {}

    fn damaged(&mut self, _: EntryId, _: Damage) {}
}

/// Bids go by their number, and those of a series to the odd ones.
fn by_number(names: &SavedNames) -> Destination {
    let number = match (&names.series, &names.key) {
        (Some(_), _) => 1,
        (None, Some(Key::Int(number))) => *number,
        (None, other) => panic!("{other:?}"),
    };
    Destination {
        part: (number % 2) as u16,
        once: names.once.clone().map(|once| Key::from(("part", once))),
    }
}

fn divide(journal: &Path, to: [&Path; 2]) {
    let mut parts = to.map(|part| {
        let mut journal = FileJournal::open(part).unwrap();
        journal.recover(&mut Nothing).unwrap();
        (journal, Batch::new())
    });
    let division = Division::of(journal, by_number).unwrap();
    let mut put = |part, id, bytes: &[u8]| {
        let (_, batch) = &mut parts[usize::from(part)];
        batch.put(id, bytes);
        batch.end_group();
    };
    division.write(2, &mut put).unwrap();
    for (mut journal, batch) in parts {
        journal.commit(&batch).unwrap();
    }
}

/// PR-06: operations keep their phases, deadlines, ids, step keys and events, also after they failed. Ids of the parts are their own.
#[test]
fn each_operation_goes_on_in_its_part() {
    limited(|| async {
        let (folder, clock, seen) = (
            tempfile::tempdir().unwrap(),
            TestClock::new(),
            Seen::default(),
        );
        let open = |journal: &Path| {
            Runtime::builder()
                .localities(1)
                .pin(false)
                .clock(&clock)
                .resource(seen.clone())
                .operation::<Bid>()
                .journal(journal)
                .build()
                .unwrap()
        };
        let [whole, even, odd] = ["whole", "0", "1"].map(|name| folder.path().join(name));
        let runtime = open(&whole);
        let submit = |runtime: &Runtime, number: u64| {
            let mut bid = runtime.submit(Bid { number }).key(number);
            if number == FAILS {
                bid = bid.serial("fails");
            }
            let handle = bid.once(format!("bid {number}")).start().unwrap();
            handle.id()
        };
        let ids: Vec<_> = (0..4).map(|number| submit(&runtime, number)).collect();
        let fails = submit(&runtime, FAILS);
        runtime.quiet().await;
        // It fails before it takes this.
        let sum = Said::Sum { cents: 88 };
        runtime
            .send_durably::<Bid>(FAILS, sum, "a sum")
            .await
            .unwrap();
        clock.advance(secs(4));
        until("the bid fails", || runtime.quarantine().list().len() == 2);
        // Another bid gets the key, takes an event, and ends.
        let again = runtime.submit(Bid { number: 20 }).key(FAILS).start();
        let again = again.unwrap();
        again.committed().await.unwrap();
        let sum = Said::Sum { cents: 20 };
        let sent = runtime.send_durably::<Bid>(FAILS, sum, "the next sum");
        sent.await.unwrap();
        again.await.unwrap();
        // And one more has it now.
        let last = runtime.submit(Bid { number: 22 }).key(FAILS).start();
        last.unwrap().committed().await.unwrap();
        runtime.quiet().await;
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        drop(runtime);
        seen.0.lock().unwrap().1.clear();

        divide(&whole, [&even, &odd]);
        let numbers: BTreeSet<_> = [&whole, &even, &odd].map(|part| number_of(part)).into();
        assert_eq!(numbers.len(), 3, "parts give out the same ids");

        let parts = [open(&even), open(&odd)];
        for (number, id) in ids.iter().enumerate() {
            let info = parts[number % 2].operation(*id).unwrap();
            assert_eq!(info.phase, "Open");
            assert!(parts[1 - number % 2].operation(*id).is_none());
        }
        assert!(parts[0].quarantine().list().is_empty());
        // What was sent to the bid with its key is known in the part of that bid.
        let sum = Said::Sum { cents: 20 };
        let again = parts[0].send_durably::<Bid>(FAILS, sum, "the next sum");
        assert!(matches!(again.await.unwrap(), fom_durable::Sent::Before));
        // With its event.
        let entries = parts[1].quarantine().list();
        assert_eq!((entries.len(), entries[0].id), (2, fails));
        parts[1].quarantine().retry(fails).unwrap();
        for (number, runtime) in [(4, &parts[0]), (5, &parts[1])] {
            submit(runtime, number);
        }
        for runtime in &parts {
            runtime.quiet().await;
        }
        let keys = seen.0.lock().unwrap().0.clone();
        assert_eq!(keys[&FAILS].len(), 2);
        assert_eq!(keys[&FAILS][0], keys[&FAILS][1]);
        let all: BTreeSet<_> = keys.values().map(|keys| &keys[0]).collect();
        assert_eq!(all.len(), 9, "each has a step key of its own: {keys:?}");

        // Six seconds are left.
        clock.advance(secs(5));
        for runtime in &parts {
            runtime.quiet().await;
        }
        assert_eq!(seen.0.lock().unwrap().1, []);
        clock.advance(secs(2));
        until("all are late", || seen.0.lock().unwrap().1.len() == 4);
        let mut late = seen.0.lock().unwrap().1.clone();
        late.sort_unstable();
        assert_eq!(late, [(0, 0), (1, 0), (2, 0), (3, 0)]);

        // The outcome is found by the id that the operation has there.
        for number in 0..4 {
            let id = Key::from(("part", format!("bid {number}")));
            let runtime = &parts[number % 2];
            assert!(matches!(
                runtime.ended::<Bid>(id).await,
                fom_durable::End::Saved(_)
            ));
        }
    });
}

/// A journal whose entries cannot all be placed is not divided.
#[test]
fn a_journal_in_use_and_one_that_is_missing_are_refused() {
    limited(|| async {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let missing = Division::of(&none, by_number).unwrap_err();
        assert!(missing.to_string().contains("none"), "{missing}");
        let runtime = Runtime::builder().journal(folder.path()).build().unwrap();
        let in_use = Division::of(folder.path(), by_number).unwrap_err();
        assert!(in_use.to_string().contains("in use"), "{in_use}");
        drop(runtime);
        let mut entries = 0;
        let empty = Division::of(folder.path(), by_number).unwrap();
        empty.write(2, &mut |_, _, _| entries += 1).unwrap();
        // No operation was ever there.
        assert_eq!(entries % 2, 0);
    });
}
