//! The crash at each boundary, of an operation with an effect for each of its events.

use fom_durable::{
    prelude::*,
    testing::{BoundaryError, Effects, Trial, crash_at_each_boundary, try_crash_at_each_boundary},
};
use serde::{Deserialize, Serialize};

/// The key that the till gives to the provider for a payment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Under {
    StepKey,
    /// Its own key and the number of its payments: the same key for any next event.
    Count,
}

#[derive(Serialize, Deserialize)]
struct Till {
    under: Under,
    paid: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
enum Bill {
    Pay(u32),
    Close,
}

#[fom(operation(Till), event(Bill))]
enum Tilling {
    #[phase(start, sync, on(Pay, Close), to(Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl TillingTransitions for Till {
    fn open(&mut self, cx: &mut Cx<'_, Bill>, bill: Bill) -> Result<TillingAfterOpen, BoxError> {
        let Bill::Pay(cents) = bill else {
            return Ok(TillingAfterOpen::Closed);
        };
        if !self.paid.contains(&cents) {
            let (effects, what) = (cx.resource::<Effects>(), format!("pay {cents}"));
            match self.under {
                Under::StepKey => effects.once(cx.step_key(), what),
                Under::Count => effects.once(format!("till-{}", self.paid.len()), what),
            };
            self.paid.push(cents);
        }
        Ok(TillingAfterOpen::Stay)
    }
}

fn trial(under: Under, with_ids: bool) -> impl Fn() -> Trial<Till> {
    move || {
        let paid = Vec::new();
        Trial::new(Till { under, paid })
            .drive(move |life| async move {
                for cents in [10, 20, 30] {
                    let sent = match with_ids {
                        true => life.fom.send_with_id(cents, Bill::Pay(cents)),
                        false => life.fom.send(Bill::Pay(cents)),
                    };
                    sent.unwrap();
                }
                life.fom.send(Bill::Close).unwrap();
            })
            .compare(|end| end.operation.paid.clone())
    }
}

fn differences(trial: impl Fn() -> Trial<Till>) -> Vec<String> {
    match try_crash_at_each_boundary(trial) {
        Err(BoundaryError::Differs { differences, .. }) => {
            differences.iter().map(ToString::to_string).collect()
        }
        other => panic!("it should have differed: {other:?}"),
    }
}

/// Step keys name the events. So the operation pays each event once, also if another event comes after the crash.
#[test]
fn events_with_ids_are_paid_once_under_step_keys() {
    let tried = crash_at_each_boundary(trial(Under::StepKey, true));
    assert_eq!(tried.crashes, 5);
}

/// A key that names the step alone serves two payments if another event comes at that step after the crash.
#[test]
fn a_key_that_does_not_name_the_event_is_found() {
    let found = differences(trial(Under::Count, true));
    let first = "the key till-0 was used for `pay 10` and for `pay 20`";
    assert!(found[0].contains(first), "{found:?}");
    assert!(
        found[0].starts_with("after commit 1, with Till"),
        "{found:?}"
    );
    assert!(
        found[0].contains("another event comes after the crash"),
        "{found:?}"
    );
}

/// An event that its sender repeats without an id is another event.
#[test]
fn an_event_that_is_sent_again_without_an_id_is_found() {
    let found = differences(trial(Under::StepKey, false));
    assert!(
        found[0].contains("`pay 10` was done under 2 keys"),
        "{found:?}"
    );
}
