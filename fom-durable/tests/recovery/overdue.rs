//! A deadline that passed while nothing ran: the fom is late at once, and no function of the phase runs again.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Cause, error::BoxError, time::TestClock};
use serde::{Deserialize, Serialize};

/// The functions that ran, in order.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<&'static str>>>);

impl Ran {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[derive(Serialize, Deserialize)]
struct Basket;

#[fom(operation(Basket))]
enum Shop {
    #[allow(dead_code)]
    #[phase(start, to(Paid, Refused), within = "10s", late)]
    Pay,
    #[phase(end)]
    Paid,
    #[phase(end, failure)]
    Refused,
}

impl ShopTransitions for Basket {
    async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<ShopAfterPay, BoxError> {
        cx.resource::<Ran>().add("pay");
        std::future::pending().await
    }

    async fn pay_late(&mut self, cx: &mut Cx<'_>) -> Result<ShopAfterPay, BoxError> {
        cx.resource::<Ran>().add("late");
        Ok(ShopAfterPay::Refused)
    }
}

#[derive(Serialize, Deserialize)]
struct Question;

#[fom(operation(Question))]
enum Asking {
    #[phase(start, to(Told), within = "10s")]
    Wait,
    #[phase(end)]
    Told,
}

impl AskingTransitions for Question {
    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Ran>().add("wait");
        std::future::pending().await
    }
}

#[test]
fn what_is_overdue_after_a_restart_is_late_at_once() {
    let (clock, journal, ran) = (TestClock::new(), MemoryJournal::new(), Ran::default());
    let ends = Arc::new(Mutex::new(Vec::new()));
    let build = || {
        let ends = Arc::clone(&ends);
        Runtime::builder()
            .localities(1)
            .pin(false)
            .clock(&clock)
            .resource(ran.clone())
            .listen(move |seen| {
                if seen.to().is_none_or(|to| to == "Refused") {
                    ends.lock().unwrap().push(seen.cause().to_string());
                }
            })
            .journal_with(journal.clone())
            .build()
            .unwrap()
    };
    {
        let runtime = build();
        runtime.submit(Basket).detach().unwrap();
        runtime.submit(Question).detach().unwrap();
        futures::executor::block_on(runtime.quiet());
        clock.advance(Duration::from_secs(9));
        futures::executor::block_on(runtime.quiet());
        assert_eq!(ran.take(), ["pay", "wait"]);
    }
    // The last end was a shutdown, which ends nothing in the journal.
    ends.lock().unwrap().clear();
    clock.advance(Duration::from_secs(5));
    let runtime = build();
    futures::executor::block_on(runtime.quiet());
    assert_eq!(ran.take(), ["late"]);
    let late = Cause::<BoxError>::Late { armed_in: "" };
    assert_eq!(*ends.lock().unwrap(), ["late", late.name()]);
}
