//! A phase that takes its data, and fails: the data are kept, as they were when the function began.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Cause, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{limited, one},
    order::{Answer, Provider, one_failed},
};

#[derive(Debug, Serialize, Deserialize)]
struct Parcel {
    count: u32,
}

#[fom(operation(Parcel), error(&'static str))]
#[derive(Debug, PartialEq)]
enum Packing {
    #[phase(start, sync, to(Send))]
    Begin,
    #[phase(take, to(Sent))]
    Send { label: String, boxes: Vec<u8> },
    #[phase(end)]
    Sent { label: String },
}

impl PackingTransitions for Parcel {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<PackingAfterBegin, &'static str> {
        Ok(PackingAfterBegin::Send {
            label: "to Ada".into(),
            boxes: vec![1, 2],
        })
    }

    async fn send(
        &mut self,
        cx: &mut Cx<'_>,
        PackingInSend { mut label, boxes }: PackingInSend,
    ) -> Result<PackingAfterSend, &'static str> {
        self.count += 1;
        label.push_str(", by ship");
        match cx.resource::<Provider>().answer() {
            Answer::Declined => return Err("no ship"),
            Answer::Panic => panic!("no such ship"),
            Answer::Charged | Answer::Never => {}
        }
        assert_eq!(boxes, [1, 2]);
        Ok(PackingAfterSend::Sent { label })
    }
}

#[test]
fn a_phase_that_took_its_data_is_tried_again_with_them() {
    for answer in [Answer::Declined, Answer::Panic] {
        limited(move || async move {
            let mut journal = MemoryJournal::new();
            let provider = Provider::that(answer);
            let open = |journal: &MemoryJournal| {
                let builder = one(&TestClock::new()).resource(provider.clone());
                builder.journal_with(journal.clone()).build().unwrap()
            };
            let runtime = open(&journal);
            let failure = runtime.submit(Parcel { count: 0 }).await.unwrap_err();
            assert_eq!(failure.phase_name(), "Send");
            assert!(matches!(
                failure.cause,
                Cause::Error("no ship") | Cause::Panicked(_)
            ));
            // As the function found them: what it changed before it failed is not there.
            let check = |runtime: &Runtime| {
                let kept = one_failed(runtime);
                let (parcel, phase) = Parcel::restore(&kept.snapshot().unwrap()).unwrap();
                assert_eq!(parcel.count, 0);
                let (label, boxes) = ("to Ada".into(), vec![1, 2]);
                assert_eq!(phase, Packing::Send { label, boxes });
                kept.id
            };
            check(&runtime);

            journal = journal.fork();
            drop(runtime);
            let runtime = open(&journal);
            let id = check(&runtime);
            provider.answers(Answer::Charged);
            runtime.quarantine().retry(id).unwrap();
            runtime.quiet().await;
            assert!(runtime.quarantine().list().is_empty());
            assert!(runtime.operations().foms.is_empty());
        });
    }
}
