//! Operations in quarantine are told.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::time::TestClock;
use fom_watch::{Level, Warned, WarningKind, Watch, WatchExt};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{limited, one, secs},
    task::only,
};

#[derive(Serialize, Deserialize)]
struct Payment;

#[fom(operation(Payment))]
enum Paying {
    #[phase(start, sync, to(Paid))]
    Charge,
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Payment {
    fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("the card is declined".into())
    }
}

#[test]
fn operations_in_quarantine_are_told_with_their_phase_and_cause() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock)
            .journal_with(MemoryJournal::new())
            .operation::<Payment>()
            .watch(Watch::default())
            .build()
            .unwrap();
        let mut ids = Vec::new();
        for _ in 0..12 {
            let payment = runtime.submit(Payment).key("ada").start().unwrap();
            ids.push(payment.id());
            payment.await.unwrap_err();
        }
        runtime.quiet().await;
        clock.advance(secs(20));
        runtime.inspect().warnings();
        let warning = only(&runtime, WarningKind::Quarantine);
        assert_eq!(warning.operation.as_deref(), Some("Payment"));
        assert_eq!(warning.phase.as_deref(), Some("Charge"));
        assert_eq!((warning.foms, warning.level), (12, Level::Warning));
        assert_eq!(warning.ids, ids[..8]);
        assert_eq!(warning.age, secs(20));
        let common = &warning.common;
        let has = |line: &str| common.iter().any(|one| one == line);
        assert!(has("the cause: the card is declined"), "{warning}");
        assert!(has("key ada"), "{warning}");
    });
}
