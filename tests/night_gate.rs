//! A feature of a user's own, on the public API alone: phases that run only at night.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use fom_runtime::{
    extension::{Attached, FomAddress, Gate, GateError, Wait, WaitKind, block_on},
    machine::FomState,
    observe::WaitsFor,
    prelude::*,
    time::{Instant, Sleep, TestClock},
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: u64 = 24;
/// The night: from 22 o'clock to 6 o'clock. The clock begins at midnight.
const NIGHT_BEGINS: u64 = 22;
const NIGHT_ENDS: u64 = 6;

static NIGHT: WaitKind = WaitKind::new("the night");

/// Returns how long it is until the night, which is zero at night.
fn until_night(now: Instant) -> Duration {
    let now = now - Instant::START;
    let hour = (now.as_secs() / HOUR.as_secs()) % DAY;
    if (NIGHT_ENDS..NIGHT_BEGINS).contains(&hour) {
        let midnight = HOUR * (now.as_secs() / HOUR.as_secs() / DAY * DAY) as u32;
        midnight + HOUR * NIGHT_BEGINS as u32 - now
    } else {
        Duration::ZERO
    }
}

/// A gate that is open at night.
struct NightGate {
    fom: FomAddress,
    sleep: Sleep,
    /// Told in listings as long as the gate waits.
    waiting: Option<Arc<NightWait>>,
}

/// What a listing shows of a fom that waits for the night.
struct NightWait {
    fom: FomAddress,
    since: Instant,
    name: String,
}

impl NightGate {
    fn of<E>(cx: &Cx<'_, E>) -> Self {
        Self {
            fom: cx.fom_address(),
            sleep: cx.sleep(until_night(cx.now())),
            waiting: None,
        }
    }
}

impl Gate for NightGate {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        let now = self.fom.now();
        if until_night(now).is_zero() || Pin::new(&mut self.sleep).poll(cx).is_ready() {
            self.waiting = None;
            return Poll::Ready(Ok(()));
        }
        if self.waiting.is_none() {
            let waiting = Arc::new(NightWait {
                fom: self.fom.clone(),
                since: now,
                name: format!(
                    "of day {}",
                    now.duration_since(Instant::START).as_secs() / HOUR.as_secs() / DAY
                ),
            });
            let part: Arc<dyn Attached> = Arc::clone(&waiting) as _;
            self.fom.attach(Arc::downgrade(&part));
            self.waiting = Some(waiting);
        }
        NIGHT.record();
        Poll::Pending
    }

    fn stop(&mut self) {
        self.waiting = None;
    }
}

impl Attached for NightWait {
    fn waits(&self, kind: &WaitKind) -> Vec<Wait> {
        if *kind != NIGHT {
            return Vec::new();
        }
        vec![Wait {
            subject: Some(self.name.clone()),
            waited: Some(self.fom.now() - self.since),
            ..Wait::of(NIGHT.name())
        }]
    }
}

/// Cleans up at night: in a plain function, and in an async one.
struct Cleanup {
    done: Vec<Instant>,
}

#[fom(operation(Cleanup), transient)]
enum Cleaning {
    #[phase(start, sync, gate, to(Report))]
    Sweep,
    /// Reports at any time.
    #[phase(sync, to(Mop))]
    Report,
    #[phase(gate, to(Done))]
    Mop,
    #[phase(end)]
    Done,
}

impl CleaningTransitions for Cleanup {
    fn sweep_gate(&self, cx: &Cx<'_>) -> impl Gate {
        NightGate::of(cx)
    }

    fn sweep(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.done.push(cx.now());
        Ok(())
    }

    fn report(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn mop_gate(&self, cx: &Cx<'_>) -> impl Gate {
        NightGate::of(cx)
    }

    async fn mop(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.done.push(cx.now());
        Ok(())
    }
}

/// The same with plain functions only, which has no future.
#[derive(Default)]
struct Audit {
    at: Option<Instant>,
}

#[fom(operation(Audit), transient)]
enum Auditing {
    #[phase(start, sync, gate, within = "15h", late, to(Done, Missed))]
    Count,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Missed,
}

impl AuditingTransitions for Audit {
    fn count_gate(&self, cx: &Cx<'_>) -> impl Gate {
        NightGate::of(cx)
    }

    fn count(&mut self, cx: &mut Cx<'_>) -> Result<AuditingAfterCount, BoxError> {
        self.at = Some(cx.now());
        Ok(AuditingAfterCount::Done)
    }

    fn count_late(&mut self, _: &mut Cx<'_>) -> Result<AuditingAfterCount, BoxError> {
        Ok(AuditingAfterCount::Missed)
    }
}

/// Returns this hour of the first day.
fn at(hour: u32) -> Instant {
    Instant::START + HOUR * hour
}

fn runtime(clock: &TestClock) -> Runtime {
    Runtime::builder()
        .localities(1)
        .clock(clock)
        .build()
        .unwrap()
}

#[test]
fn a_phase_runs_only_at_night() {
    let clock = TestClock::new();
    let runtime = runtime(&clock);
    // Five o'clock in the morning is night.
    clock.advance(HOUR * 5);
    let cleanup = || Cleanup { done: Vec::new() };
    let ended = runtime.submit(cleanup()).start().unwrap().wait().unwrap();
    assert!(matches!(ended.end, CleaningEnd::Done));
    assert_eq!(ended.operation.done, [at(5), at(5)]);
    clock.advance(HOUR * 4);
    let fom = runtime.submit(cleanup()).start().unwrap();
    let audit = runtime.submit(Audit::default()).start().unwrap();
    block_on(runtime.quiet());
    for id in [fom.id(), audit.id()] {
        let info = runtime.operation(id).unwrap();
        assert_eq!(info.state, FomState::Waiting);
        assert_eq!(
            info.waiting_for().as_deref(),
            Some("the night `of day 0`, for 0ns")
        );
    }
    clock.advance(HOUR * 12);
    block_on(runtime.quiet());
    let info = runtime.operation(fom.id()).unwrap();
    let told = Wait {
        subject: Some("of day 0".to_owned()),
        waited: Some(HOUR * 12),
        ..Wait::of("the night")
    };
    let on_night = WaitsFor::Package {
        kind: "the night",
        wait: told,
    };
    let on: Vec<_> = info.waits.iter().map(|wait| wait.on.clone()).collect();
    assert_eq!((info.phase, on), ("Sweep", vec![on_night]));
    assert_eq!(info.waits[0].waited, HOUR * 12);
    clock.advance(HOUR);
    let ended = fom.wait().unwrap();
    assert_eq!(ended.operation.done, [at(22), at(22)]);
    assert_eq!(audit.wait().unwrap().operation.at, Some(at(22)));
}

/// The wait at a gate is a wait of the phase: it can be cancelled, and it counts for the deadline of the phase.
#[test]
fn a_fom_at_the_gate_can_be_cancelled_and_late() {
    let clock = TestClock::new();
    let runtime = runtime(&clock);
    clock.advance(HOUR * 9);
    let fom = runtime.submit(Audit::default()).start().unwrap();
    block_on(runtime.quiet());
    fom.cancel();
    let failure = fom.wait().unwrap_err();
    assert!(matches!(failure.cause, Cause::Cancelled));
    assert_eq!(failure.operation.unwrap().into_inner().at, None);
    clock.advance(HOUR * 21 + HOUR / 2);
    let fom = runtime.submit(Audit::default()).start().unwrap();
    block_on(runtime.quiet());
    clock.advance(HOUR * 15);
    let ended = fom.wait().unwrap();
    assert!(matches!(ended.end, AuditingEnd::Missed));
    assert_eq!(ended.operation.at, None);
}
