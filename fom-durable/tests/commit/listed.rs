//! The journal among the parts of its runtime.

use std::time::{Duration, Instant};

use fom_durable::prelude::*;
use fom_runtime::{observe::PartValue, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{held::Held, limited, one};

#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
enum Ordering {
    #[phase(start, sync, to(Done))]
    Accept,
    #[phase(end)]
    Done,
}

impl OrderingTransitions for Order {
    fn accept(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Returns how long the commit that is under way has lasted.
fn under_way(runtime: &Runtime) -> Option<Duration> {
    let parts = runtime.inspect().parts().parts;
    let journal = parts.iter().find(|part| part.kind == "journal").unwrap();
    journal.get("under_way").map(|value| match value {
        PartValue::Time(time) => *time,
        other => panic!("{other:?} is no time"),
    })
}

#[test]
fn a_commit_that_hangs_is_listed_with_its_time() {
    limited(|| async {
        let journal = Held::default();
        let builder = one(&TestClock::new()).journal_with(journal.clone());
        let runtime = builder.build().unwrap();
        assert_eq!(under_way(&runtime), None);
        let began = Instant::now();
        let before = journal.asked();
        journal.hold_commits(true);
        let order = runtime.submit(Order).start().unwrap();
        journal.wait_for_asked(before + 1);
        let first = under_way(&runtime).expect("the commit has no answer");
        let second = under_way(&runtime).expect("the commit has no answer");
        assert!(first < second && second < began.elapsed());
        journal.hold_commits(false);
        order.await.unwrap();
        assert_eq!(under_way(&runtime), None);
    });
}
