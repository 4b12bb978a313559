//! A journal of the first releases comes back: heads of records were MessagePack then.

mod kit;

use fom_runtime::{
    TestClock,
    journal::{Batch, EntryId, Journal, MemoryJournal},
    prelude::*,
};
use kit::{limited, one, secs};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Job {
    name: String,
}

enum Go {
    Go,
}

#[fom(operation(Job), event(Go))]
#[derive(Debug)]
enum Work {
    #[phase(start, sync, to(Done), on(Go), within = "60s")]
    Park,
    #[phase(end)]
    Done,
}

impl WorkTransitions for Job {
    fn park(&mut self, _: &mut Cx<'_, Go>, Go::Go: Go) -> Result<WorkAfterPark, BoxError> {
        Ok(WorkAfterPark::Done)
    }
}

/// The head of a fom with a key, without what tells records apart: in its first step, with a deadline.
const NOW: &[u8] = b"\x06\x19\x01\x00";

#[test]
fn a_record_with_the_first_head_is_a_fom_with_its_key_and_deadline() {
    limited(async || {
        let (clock, mut journal) = (TestClock::new(), MemoryJournal::new());
        {
            let runtime = one(&clock).journal_with(journal.clone()).build().unwrap();
            let name = "Ada".to_owned();
            runtime.submit(Job { name }).key("ada").detach().unwrap();
            runtime.quiet().await;
        }
        let ids = journal.ids();
        let id = *ids.last().unwrap();
        assert!(id >= EntryId::HEAD, "a fom");
        let bytes = journal.entry(id).unwrap();
        let rest = bytes.strip_prefix(NOW).unwrap();
        let (due, rest) = rest.split_first_chunk::<8>().unwrap();
        let body = rest.strip_prefix(b"\x01\x03ada").unwrap();
        // Step, attempt, causes, deadline, one that is kept, home, placed by hand, priority, key, operation id.
        let mut first = b"\x03\x9a\x01\x00\x90\xcf".to_vec();
        first.extend(u64::from_le_bytes(*due).to_be_bytes());
        first.extend(b"\xc0\x00\xc2\x01\x81\xa4text\xa3ada\xc0");
        first.extend(body);
        let mut batch = Batch::new();
        batch.put(id, &first);
        batch.end_group();
        journal.commit(&batch).unwrap();

        let runtime = one(&clock).journal_with(journal.clone()).build().unwrap();
        assert!(runtime.set_aside().is_empty());
        runtime.quiet().await;
        let listed = runtime.operations().foms.remove(0);
        assert_eq!(listed.deadline_in, Some(secs(60)));
        let fom = runtime.find::<Job>("ada").unwrap();
        let done = fom.reached([WorkKind::Done]);
        fom.send(Go::Go).unwrap();
        done.await;
        runtime.quiet().await;
        assert!(!journal.ids().contains(&id), "it has ended");
    });
}
