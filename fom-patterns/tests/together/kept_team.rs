//! A leader that is kept in a journal.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_patterns::prelude::*;
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, many, secs};

#[derive(Serialize, Deserialize)]
struct Lead;

#[fom(operation(Lead))]
enum Leading {
    #[phase(start, to(Led))]
    Split,
    #[phase(end)]
    Led,
}

impl LeadingTransitions for Lead {
    async fn split(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("leader splits");
        let mut team = cx.team();
        for part in 0..2 {
            let id = cx.step_key().part(part).to_string();
            drop(team.start(cx.submit(Help { part }).key(part).once(id))?);
        }
        team.all().await;
        cx.resource::<Log>().put("leader goes on");
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Help {
    part: u32,
}

enum Word {
    Go,
}

#[fom(operation(Help), event(Word))]
enum Helping {
    #[phase(start, sync, to(Done), on(Go))]
    Begin,
    #[phase(end)]
    Done,
}

impl HelpingTransitions for Help {
    fn begin(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<HelpingAfterBegin, BoxError> {
        cx.resource::<Log>().put(format!("helper {}", self.part));
        Ok(HelpingAfterBegin::Done)
    }
}

/// A leader that comes back runs its phase again. It joins its helpers by their operation ids: the one that is there,
/// and the one that has ended.
#[test]
fn a_leader_that_comes_back_joins_its_helpers() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let build = || {
            let builder = many(2, &TestClock::new()).resource(log.clone());
            builder.journal_with(journal.clone()).build().unwrap()
        };
        let runtime = build();
        let leader = runtime.submit(Lead).key("leader").start().unwrap();
        runtime.quiet().await;
        let go = |runtime: &Runtime, part: u32| {
            let helper = runtime.find::<Help>(part).unwrap();
            helper.send(Word::Go).unwrap();
        };
        go(&runtime, 0);
        runtime.quiet().await;
        assert_eq!(log.take(), ["leader splits", "helper 0"]);
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        drop((leader, runtime));

        let runtime = build();
        runtime.quiet().await;
        assert_eq!(
            runtime.operations().foms.len(),
            2,
            "no helper is there twice"
        );
        assert_eq!(log.take(), ["leader splits"]);
        go(&runtime, 1);
        runtime.idle().await;
        assert_eq!(log.take(), ["helper 1", "leader goes on"]);
    });
}
