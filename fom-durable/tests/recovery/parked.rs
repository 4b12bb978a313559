//! Foms that park until they are told to go, and a runtime for them that starts again.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, FomId, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, one};

/// Parks until it is told to go, or its time is up.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) name: String,
    tries: u32,
}

#[derive(Debug)]
pub(super) enum JobEvent {
    Go,
    Wait,
    Keep,
    Try,
}

#[fom(operation(Job), event(JobEvent))]
#[derive(Debug)]
pub(super) enum Work {
    /// Parked forever.
    #[phase(start, sync, to(Timed, Long, Flaky, Done), on(Go, Wait, Keep, Try))]
    Park,
    /// Parked for a while.
    #[phase(sync, to(Done), on(Go), within = "60s", late)]
    Timed,
    /// The deadline runs on over the next phase.
    #[phase(sync, to(Second), on(Go), within = "100s", keep(Second))]
    Long,
    #[phase(sync, to(Done), on(Go))]
    Second,
    #[phase(to(Done), retry = "4, 10s..10s")]
    Flaky,
    #[phase(end)]
    Done { late: bool },
}

impl WorkTransitions for Job {
    fn park(
        &mut self,
        _: &mut Cx<'_, JobEvent>,
        event: JobEvent,
    ) -> Result<WorkAfterPark, BoxError> {
        Ok(match event {
            JobEvent::Go => WorkAfterPark::Done { late: false },
            JobEvent::Wait => WorkAfterPark::Timed,
            JobEvent::Keep => WorkAfterPark::Long,
            JobEvent::Try => WorkAfterPark::Flaky,
        })
    }
    fn timed(&mut self, _: &mut Cx<'_, JobEvent>, _: JobEvent) -> Result<WorkAfterTimed, BoxError> {
        Ok(WorkAfterTimed::Done { late: false })
    }
    fn timed_late(&mut self, cx: &mut Cx<'_, JobEvent>) -> Result<WorkAfterTimed, BoxError> {
        cx.resource::<Log>().put(format!("late {}", self.name));
        Ok(WorkAfterTimed::Done { late: true })
    }
    fn long(&mut self, _: &mut Cx<'_, JobEvent>, _: JobEvent) -> Result<WorkAfterLong, BoxError> {
        Ok(WorkAfterLong::Second)
    }
    fn second(
        &mut self,
        _: &mut Cx<'_, JobEvent>,
        _: JobEvent,
    ) -> Result<WorkAfterSecond, BoxError> {
        Ok(WorkAfterSecond::Done { late: false })
    }
    async fn flaky(&mut self, cx: &mut Cx<'_, JobEvent>) -> Result<WorkAfterFlaky, BoxError> {
        cx.resource::<Log>()
            .put(format!("{} {}", self.name, cx.attempt()));
        Err("not yet".into())
    }
}

pub(super) fn job(name: impl ToString) -> Job {
    Job {
        name: name.to_string(),
        tries: 0,
    }
}

pub(super) struct Bench {
    pub(super) clock: TestClock,
    pub(super) journal: MemoryJournal,
    pub(super) log: Log,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            clock: TestClock::new(),
            journal: MemoryJournal::new(),
            log: Log::default(),
        }
    }

    pub(super) fn builder(&self) -> Builder {
        one(&self.clock)
            .journal_with(self.journal.clone())
            .resource(self.log.clone())
    }

    pub(super) fn build(&self) -> Runtime {
        self.builder().build().unwrap()
    }

    /// Parks this many jobs, with their number as the key; `event` leads them into a phase.
    pub(super) async fn park(&self, count: usize, event: Option<fn() -> JobEvent>) -> Vec<FomId> {
        let runtime = self.build();
        let mut ids = Vec::new();
        for number in 0..count {
            let key = number as u64;
            ids.push(runtime.submit(job(number)).key(key).detach().unwrap());
            if let Some(event) = event {
                let fom = runtime.find::<Job>(key).unwrap();
                fom.send(event()).unwrap();
            }
        }
        runtime.quiet().await;
        ids
    }
}
