//! "Acknowledged" means on disk: before a transition is committed, no caller or listener hears of it, and the next
//! phase does not begin.

use fom_durable::prelude::*;
use fom_runtime::{error::BoxError, submission::Reached};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, gate::Gated};

#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
enum Shop {
    #[phase(sync, start, to(Pack))]
    Pay,
    #[phase(to(Sent))]
    Pack,
    #[phase(end)]
    Sent,
}

impl ShopTransitions for Order {
    fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("pay runs");
        Ok(())
    }

    async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("pack runs");
        Ok(())
    }
}

/// A fom that has reached its first phase is on disk.
#[test]
fn a_fom_has_not_reached_its_first_phase_before_that_is_committed() {
    let journal = Gated::default();
    let builder = Runtime::builder().localities(1).pin(false);
    let builder = builder.resource(Log::default());
    let runtime = builder.journal_with(journal.clone()).build().unwrap();
    let handle = runtime.submit(Order).start().unwrap();
    journal.wait_for_asked(1);
    let mut reached = handle.reached([ShopKind::Pay]).into_future();
    // This call into the locality comes after the look that `reached` takes there.
    futures::executor::block_on(runtime.call(0, |_| ())).unwrap();
    assert!(futures::FutureExt::now_or_never(&mut reached).is_none());
    journal.open(true);
    assert_eq!(
        futures::executor::block_on(reached),
        Reached::Phase(ShopKind::Pay)
    );
    futures::executor::block_on(handle).unwrap();
}

/// One step at a time: everything that runs or is heard was committed before, from the start to the end (PR-01).
#[test]
fn no_caller_hears_of_a_transition_before_it_is_committed() {
    let (journal, log) = (Gated::default(), Log::default());
    let builder = Runtime::builder().localities(1).pin(false);
    let builder = builder.resource(log.clone());
    let runtime = builder.journal_with(journal.clone()).build().unwrap();
    let heard = log.clone();
    runtime
        .listen(move |transition| heard.put(format_args!("heard {:?}", transition.to().unwrap())))
        .forever();
    let mut handle = Box::pin(runtime.submit(Order).into_future());
    let mut ended = futures::FutureExt::now_or_never(&mut handle).is_some();
    let mut expected = Vec::new();
    let steps: [&[&str]; 3] = [
        &["heard \"Pay\"", "pay runs"],
        &["heard \"Pack\"", "pack runs"],
        &["heard \"Sent\""],
    ];
    for (number, step) in steps.iter().enumerate() {
        journal.wait_for_asked(number + 1);
        assert_eq!(log.lines(), expected, "before commit {}", number + 1);
        assert!(!ended, "before commit {}", number + 1);
        journal.let_one();
        expected.extend(step.iter().map(ToString::to_string));
        if number + 1 < steps.len() {
            journal.wait_for_asked(number + 2);
        } else {
            assert!(futures::executor::block_on(&mut handle).is_ok());
            ended = true;
        }
        assert_eq!(log.lines(), expected, "after commit {}", number + 1);
    }
    assert!(ended);
}
