//! The memory of a fom in bytes, as listed: without a journal no more than before journals existed.

use fom_runtime::prelude::*;

#[allow(dead_code, reason = "it is only waited for")]
enum Go {
    Go,
}

/// Like the benchmark `parked`: 64 bytes of the user.
struct Plain([u64; 8]);

#[fom(operation(Plain), event(Go), transient)]
enum Plainly {
    #[phase(start, sync, on(Go), to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl PlainlyTransitions for Plain {
    fn wait(&mut self, _: &mut Cx<'_, Go>, Go::Go: Go) -> Result<PlainlyAfterWait, BoxError> {
        self.0[0] += 1;
        Ok(PlainlyAfterWait::Over)
    }
}

struct Timed([u64; 8]);

#[fom(operation(Timed), event(Go), transient)]
enum Timing {
    #[phase(start, sync, on(Go), to(Over), within = "1h")]
    Wait,
    #[phase(end)]
    Over,
}

impl TimingTransitions for Timed {
    fn wait(&mut self, _: &mut Cx<'_, Go>, Go::Go: Go) -> Result<TimingAfterWait, BoxError> {
        self.0[0] += 1;
        Ok(TimingAfterWait::Over)
    }
}

struct Async([u64; 8]);

#[fom(operation(Async), event(Go), transient)]
enum Asynchronously {
    #[phase(start, on(Go), to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl AsynchronouslyTransitions for Async {
    async fn wait(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        let Go::Go = cx.event().await;
        self.0[0] += 1;
        Ok(())
    }
}

struct Small(u64);

#[fom(operation(Small), transient)]
enum Sleeping {
    #[phase(start, to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl SleepingTransitions for Small {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        std::future::pending::<()>().await;
        self.0 += 1;
        Ok(())
    }
}

/// Returns the size of the only fom.
fn size<O: Operation>(operation: O) -> usize {
    let runtime = Runtime::builder().localities(1).build().unwrap();
    let handle = runtime
        .submit(operation)
        .start()
        .unwrap_or_else(|_| panic!("there is room"));
    let bytes = runtime.operations().foms[0].home.bytes;
    handle.cancel();
    assert!(handle.wait().is_err());
    bytes
}

#[test]
fn no_fom_is_larger_than_before_there_were_journals() {
    // The sizes before journals existed.
    let before = [168, 232, 312, 232];
    let now = [
        size(Plain([0; 8])),
        size(Timed([0; 8])),
        size(Async([0; 8])),
        size(Small(0)),
    ];
    let larger = now.iter().zip(before).any(|(now, before)| *now > before);
    assert!(!larger, "{now:?}, {before:?} before");
}
