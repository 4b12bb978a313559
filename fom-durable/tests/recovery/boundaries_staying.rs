//! The crash at each boundary, for an operation with an outbox to foms that never end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_durable::{
    prelude::*,
    testing::{BoundaryError, Trial, crash_at_each_boundary, try_crash_at_each_boundary},
};
use serde::{Deserialize, Serialize};

/// The balances, as the accounts report them.
type Balances = Arc<Mutex<BTreeMap<String, i64>>>;

#[derive(Serialize, Deserialize)]
struct Account {
    name: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
enum Booking {
    Debit { cents: i64 },
    Credit { cents: i64 },
}

#[fom(operation(Account), event(Booking))]
enum Keeping {
    #[allow(dead_code)]
    #[phase(start, sync, to(Closed), on(Debit, Credit))]
    Open,
    #[phase(end)]
    Closed,
}

impl KeepingTransitions for Account {
    fn open(
        &mut self,
        cx: &mut Cx<'_, Booking>,
        event: Booking,
    ) -> Result<KeepingAfterOpen, BoxError> {
        match event {
            Booking::Debit { cents } => {
                self.cents -= cents;
                cx.outbox().send::<Transfer>("transfer", Told::Debited)?;
            }
            Booking::Credit { cents } => self.cents += cents,
        }
        let told = cx.resource::<Balances>();
        told.lock()
            .map_err(|_| "a test panicked")?
            .insert(self.name.clone(), self.cents);
        Ok(KeepingAfterOpen::Stay)
    }
}

#[derive(Serialize, Deserialize)]
struct Transfer {
    cents: i64,
}

#[derive(Serialize, Deserialize)]
enum Told {
    /// The accounts are there.
    Go,
    Debited,
}

#[fom(operation(Transfer), event(Told))]
enum Moving {
    #[phase(start, sync, on(Go), to(Debiting))]
    Ask,
    #[phase(sync, on(Debited), to(Done))]
    Debiting,
    #[phase(end)]
    Done,
}

impl MovingTransitions for Transfer {
    fn ask(&mut self, cx: &mut Cx<'_, Told>, _: Told) -> Result<MovingAfterAsk, BoxError> {
        let cents = self.cents;
        cx.outbox().send::<Account>("a", Booking::Debit { cents })?;
        Ok(MovingAfterAsk::Debiting)
    }
    fn debiting(
        &mut self,
        cx: &mut Cx<'_, Told>,
        _: Told,
    ) -> Result<MovingAfterDebiting, BoxError> {
        let cents = self.cents;
        cx.outbox()
            .send::<Account>("b", Booking::Credit { cents })?;
        Ok(MovingAfterDebiting::Done)
    }
}

fn trial() -> Trial<Transfer> {
    let balances = Balances::default();
    let told = balances.clone();
    Trial::new(Transfer { cents: 30 })
        .key("transfer")
        .runtime(move |builder| builder.resource(balances.clone()))
        .drive(|life| async move {
            for name in ["a", "b"] {
                let account = Account {
                    name: name.into(),
                    cents: 100,
                };
                // An account that came back is submitted once more, and is the same account.
                let submission = life.runtime.submit(account).key(name).once(name);
                drop(submission.start());
            }
            // Not taken if the fom had gone on before the crash.
            let _ = life.fom.send(Told::Go);
        })
        .outside(move || told.lock().unwrap().clone())
}

/// An operation that sends to foms that never end can be tried. No money is lost or made at any boundary, not even
/// after the operation's own end.
#[test]
fn what_sends_to_foms_that_stay_can_be_tried() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let boundaries = crash_at_each_boundary(|| {
        let told = Arc::clone(&told);
        trial().staying::<Account>().compare(move |end| {
            told.lock().unwrap().push(end.operation.cents);
            end.operation.cents
        })
    });
    // Two accounts, the start, both steps, and what each account took.
    assert!(boundaries.crashes >= 6, "{boundaries:?}");
    assert!(told.lock().unwrap().iter().all(|cents| *cents == 30));
}

/// Without `staying`, the trial waits for these foms, and the message says what to write.
#[test]
fn foms_that_stay_are_named_when_they_are_waited_for() {
    let error =
        try_crash_at_each_boundary(|| trial().limit(Duration::from_millis(300))).unwrap_err();
    assert!(matches!(error, BoundaryError::Stuck(_)), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("Account") && error.contains("`Open`"),
        "{error}"
    );
    assert!(error.contains("`Trial::staying`"), "{error}");
}
