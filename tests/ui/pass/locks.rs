//! Locks of phases of every kind, with data, parameters and `cfg`.
#![deny(missing_docs, unused)]
use fom_runtime::prelude::*;
use fom_patterns::lock::{LockSet, LongLock, LongLocks};

struct Job<T>(T, LongLock);

enum Word {
    Go,
}

#[fom(operation("Job<T>"), event(Word), transient)]
enum Work<T: Clone + Send + 'static> {
    #[phase(start, to(Write), locks, within = "2s", late)]
    Fetch,
    #[phase(to(Sum, Trace, Never), blocking, locks)]
    Write { item: T, account: u64 },
    #[phase(to(Done), sync, on(Go), locks)]
    Sum { r#type: u8 },
    #[cfg(all())]
    #[phase(to(Done), locks)]
    Trace { level: u8 },
    #[cfg(any())]
    #[phase(to(Done), locks)]
    Never { level: u8 },
    #[phase(end)]
    Done,
}

impl<T: Clone + Send + 'static> WorkTransitions<T> for Job<T> {
    fn fetch_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        LockSet::new().read(&self.1)
    }
    async fn fetch(&mut self, _: &mut Cx<'_, Word>) -> Result<WorkAfterFetch<T>, BoxError> {
        Ok(WorkAfterFetch::Write {
            item: self.0.clone(),
            account: 7,
        })
    }
    async fn fetch_late(&mut self, _: &mut Cx<'_, Word>) -> Result<WorkAfterFetch<T>, BoxError> {
        Err("late".into())
    }
    fn write_locks(&self, cx: &Cx<'_, Word>, WorkInWriteRef { account, .. }: WorkInWriteRef<'_, T>) -> LockSet {
        LockSet::new()
            .read(&self.1)
            .write(&cx.resource::<LongLocks>().of(*account))
    }
    fn write(
        &mut self,
        _: &mut BlockingCx<'_>,
        WorkInWrite { account, .. }: WorkInWrite<'_, T>,
    ) -> Result<WorkAfterWrite, BoxError> {
        Ok(match account {
            0 => WorkAfterWrite::Sum { r#type: 1 },
            _ => WorkAfterWrite::Trace { level: 1 },
        })
    }
    fn sum_locks(&self, _: &Cx<'_, Word>, r#type: &u8) -> LockSet {
        let _ = r#type;
        LockSet::new()
    }
    fn sum(&mut self, _: &mut Cx<'_, Word>, _: &mut u8, _: Word) -> Result<WorkAfterSum, BoxError> {
        Ok(WorkAfterSum::Done)
    }
    fn trace_locks(&self, _: &Cx<'_, Word>, _: &u8) -> LockSet {
        LockSet::new().read(&self.1)
    }
    async fn trace(&mut self, _: &mut Cx<'_, Word>, _: &mut u8) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    // In the order in which the phases take them.
    let lock = LongLock::new("job");
    let runtime = Runtime::builder()
        .resource(LongLocks::new("account"))
        .build()
        .unwrap();
    let job = runtime.submit(Job(7, lock.clone())).start().unwrap();
    job.wait().unwrap();
    assert_eq!(lock.stats().reads, 1);
    let _ = Word::Go;
}
