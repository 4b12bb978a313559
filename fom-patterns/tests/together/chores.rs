//! Periodic work of localities.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fom_patterns::{
    chore::{Chore, ChoreError},
    prelude::*,
};
use fom_runtime::{
    context::Local,
    observe::IncidentKind,
    time::{Instant, TestClock},
};
use futures::executor::block_on;

use crate::kit::task::{self, Drops, LIMIT, limit, quick, until};

const SECOND: Duration = Duration::from_secs(1);

fn two(clock: &TestClock) -> Runtime {
    let builder = Runtime::builder().localities(2).pin(false);
    let builder = builder.locality_data(|_| Ok::<_, BoxError>(Vec::<Duration>::new()));
    builder.clock(clock.clone()).build().unwrap()
}

/// Moves the clock, and waits until nothing runs any more.
fn pass(runtime: &Runtime, clock: &TestClock, time: Duration) {
    clock.advance(time);
    block_on(runtime.quiet());
}

fn ticks(runtime: &Runtime) -> Vec<Vec<u64>> {
    let seconds = |local: &mut Local<'_>| {
        let times = local.data::<Vec<Duration>>().iter();
        times.map(Duration::as_secs).collect()
    };
    block_on(runtime.each(seconds)).unwrap()
}

fn note(runtime: &Runtime, every: Duration) -> Chore {
    let chore = runtime.chore("note the time", every, |_| {
        Ok::<_, BoxError>(|local: &mut Local<'_>| {
            let now = local.now() - Instant::START;
            local.data::<Vec<Duration>>().push(now);
        })
    });
    block_on(chore).unwrap()
}

/// LO-10, trap 12: a chore ticks at each of its intervals, also in idle localities that never had work. Missed ticks
/// are not made up for. The next tick comes at the time at which it would have come anyway.
#[test]
fn chores_tick_on_time_in_idle_localities() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = two(&clock);
    let chore = note(&runtime, 10 * SECOND);
    for _ in 0..25 {
        pass(&runtime, &clock, SECOND);
    }
    assert_eq!(ticks(&runtime), [[10, 20], [10, 20]]);
    pass(&runtime, &clock, 30 * SECOND);
    pass(&runtime, &clock, 5 * SECOND);
    assert_eq!(ticks(&runtime), [[10, 20, 55, 60], [10, 20, 55, 60]]);
    block_on(chore.stop());
    pass(&runtime, &clock, 100 * SECOND);
    assert_eq!(ticks(&runtime)[0].len(), 4);
}

/// LO-10: if a chore cannot begin in one locality, it ends in the others before the error is returned. What it had
/// there is dropped, and it never ticks.
#[test]
fn a_chore_begins_everywhere_or_nowhere() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = two(&clock);
    let (began, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, drops) = (Arc::clone(&began), Arc::clone(&dropped));
    let chore = runtime.chore("sweep", SECOND, move |local| {
        begun.fetch_add(1, SeqCst);
        if local.index() == 1 {
            return Err("no broom");
        }
        let kept = Drops(Arc::clone(&drops));
        Ok(move |local: &mut Local<'_>| {
            let _kept = &kept;
            let now = local.now() - Instant::START;
            local.data::<Vec<Duration>>().push(now);
        })
    });
    let error = block_on(chore).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chore sweep could not begin in locality 1: no broom"
    );
    assert_eq!((began.load(SeqCst), dropped.load(SeqCst)), (2, 1));
    pass(&runtime, &clock, 5 * SECOND);
    assert_eq!(ticks(&runtime), [[], []] as [[u64; 0]; 2]);
    let never = |_: &mut Local<'_>| Ok::<_, BoxError>(|_: &mut Local<'_>| {});
    let error = block_on(runtime.chore("always", Duration::ZERO, never)).unwrap_err();
    assert!(matches!(error, ChoreError::NoInterval));
}

/// LO-10: a chore that panics is removed in that locality, and reported. The other chores, the locality and its foms
/// go on. Trap 31.
#[test]
fn a_chore_that_panics_is_taken_off() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = two(&clock);
    let _notes = note(&runtime, SECOND);
    let fragile = runtime.chore("fragile", SECOND, |local| {
        let fragile = local.index() == 0;
        let mut ticks = 0;
        Ok::<_, BoxError>(move |_: &mut Local<'_>| {
            ticks += 1;
            assert!(!fragile || ticks < 2, "it broke");
        })
    });
    let _fragile = block_on(fragile).unwrap();
    for _ in 0..4 {
        pass(&runtime, &clock, SECOND);
    }
    let incidents = runtime.operations().incidents;
    let [incident] = &incidents[..] else {
        panic!("one incident: {incidents:?}")
    };
    assert_eq!(
        incident.text,
        "the chore fragile panicked in locality 0 and was removed there: it broke"
    );
    assert_eq!(
        (incident.kind, incident.subject.as_str(), incident.count),
        (IncidentKind::Panicked, "chore fragile", 1)
    );
    assert_eq!(ticks(&runtime), [[1, 2, 3, 4], [1, 2, 3, 4]]);
    let fom = runtime.submit(quick(|_| {})).place(Placement::Locality(0));
    fom.start().unwrap().wait().unwrap();
}

/// LO-08, FL-03: a chore never runs beside a fom of its locality. Foms that always run do not keep a chore from its
/// time.
#[test]
fn chores_take_turns_with_foms() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = two(&clock);
    let _chore = note(&runtime, SECOND);
    let over = Arc::new(AtomicUsize::new(0));
    let busy: Vec<_> = (0..2)
        .map(|index| {
            let over = Arc::clone(&over);
            let fom = task::task(move |_| {
                Box::pin(async move {
                    while over.load(SeqCst) == 0 {
                        task::pause().await;
                    }
                })
            });
            let fom = runtime.submit(fom).place(Placement::Locality(index));
            fom.start().unwrap()
        })
        .collect();
    clock.advance(SECOND);
    until("a tick in both localities", || {
        ticks(&runtime).iter().all(|ticks| ticks == &[1])
    });
    over.store(1, SeqCst);
    busy.into_iter().for_each(|fom| drop(fom.wait().unwrap()));
}

/// LO-10, LO-11: what a chore keeps in a locality is made there and dropped there. If the runtime ends with the chore
/// in place, the drop comes before the drop of the locality's own data.
#[test]
fn a_chore_ends_with_its_locality() {
    struct Last(Arc<Mutex<Vec<&'static str>>>, &'static str);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let _limit = limit();
    let log = Arc::new(Mutex::new(Vec::new()));
    let data = Arc::clone(&log);
    let runtime = Runtime::builder().localities(1).pin(false);
    let runtime = runtime.locality_data(move |_| Ok::<_, BoxError>(Last(data.clone(), "data")));
    let runtime = runtime.build().unwrap();
    let kept = Arc::clone(&log);
    let chore = runtime.chore("keep", SECOND, move |_| {
        let kept = Last(Arc::clone(&kept), "chore");
        Ok::<_, BoxError>(move |_: &mut Local<'_>| {
            let _kept = &kept;
        })
    });
    let chore = block_on(chore).unwrap();
    runtime.shutdown_blocking(Shutdown::Drain, LIMIT);
    assert_eq!(*log.lock().unwrap(), ["chore", "data"]);
    block_on(chore.stop());
    let late = |_: &mut Local<'_>| Ok::<_, BoxError>(|_: &mut Local<'_>| {});
    let error = block_on(runtime.chore("late", SECOND, late)).unwrap_err();
    assert!(matches!(error, ChoreError::Dropped(_)));
}

/// LO-10: if the future of a chore is dropped, the chore is removed where it has begun.
#[test]
fn a_chore_without_its_caller_ends() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = two(&clock);
    let dropped = Arc::new(AtomicUsize::new(0));
    let drops = Arc::clone(&dropped);
    let chore = runtime.chore("forgotten", SECOND, move |_| {
        let kept = Drops(Arc::clone(&drops));
        Ok::<_, BoxError>(move |local: &mut Local<'_>| {
            let _kept = &kept;
            let now = local.now() - Instant::START;
            local.data::<Vec<Duration>>().push(now);
        })
    });
    {
        let mut chore = std::pin::pin!(chore);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _begun = chore.as_mut().poll(&mut cx);
    }
    pass(&runtime, &clock, 5 * SECOND);
    assert_eq!(dropped.load(SeqCst), 2);
    assert_eq!(ticks(&runtime), [[], []] as [[u64; 0]; 2]);
}
