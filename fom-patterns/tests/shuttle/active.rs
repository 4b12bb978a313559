//! Active objects: a call is answered once, and every waiter sees the answer. The answer meets a cancel, an observer, a
//! further call, the drop of the last proxy, and the end of the runtime.

use std::future::pending;

use fom_patterns::active::{ActiveCallError, Carrier, Carrying, Forwarding};

use super::*;

#[derive(Default)]
struct Lamp {
    lit: bool,
    runs: Arc<AtomicUsize>,
}

#[active]
impl Lamp {
    pub(super) fn light(&mut self) {
        self.lit = true;
    }

    #[when(self.lit)]
    pub(super) fn read(&mut self) -> usize {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }
}

fn bench() -> (Bench, LampProxy, Arc<AtomicUsize>) {
    let bench = Bench::new(1, MOST);
    let lamp = Lamp::default();
    let runs = Arc::clone(&lamp.runs);
    let lamp = lamp.activate(&bench.runtime).unwrap();
    (bench, lamp, runs)
}

/// A call that comes at the moment in which the object begins to rest is run.
#[test]
fn a_call_that_meets_the_rest_of_the_object_is_run() {
    check(300, || {
        let (bench, lamp, runs) = bench();
        let reads = {
            let lamp = lamp.clone();
            thread::spawn(move || block_on(lamp.read()))
        };
        lamp.light().wait().unwrap();
        assert_eq!(reads.join().unwrap().unwrap(), 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        drop(lamp);
        bench.end(None);
    });
}

/// AO-02, AO-03: the answer, a cancel and an observer at once: one outcome, told once.
#[test]
fn an_answer_meets_a_cancel_and_an_observer() {
    check(300, || {
        let (bench, lamp, runs) = bench();
        let told = Arc::new(AtomicUsize::new(0));
        let call = lamp.read();
        let canceller = call.canceller();
        let cancels = thread::spawn(move || canceller.cancel());
        drop(lamp.light());
        let observer = Arc::clone(&told);
        let call = call.observe(move |_| {
            observer.fetch_add(1, Ordering::SeqCst);
        });
        let outcome = block_on(call);
        cancels.join().unwrap();
        match outcome {
            Ok(run) => assert_eq!((run, runs.load(Ordering::SeqCst)), (1, 1)),
            Err(ActiveCallError::Cancelled) => assert_eq!(runs.load(Ordering::SeqCst), 0),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(told.load(Ordering::SeqCst), 1);
        drop(lamp);
        bench.end(None);
    });
}

/// Trap 36: queued calls run after the last proxy is gone, and then the object ends.
#[test]
fn the_last_proxy_goes_while_calls_are_queued() {
    check(300, || {
        let (bench, lamp, runs) = bench();
        let never = lamp.read();
        let another = lamp.clone();
        let lights = thread::spawn(move || drop(another.light()));
        drop(lamp);
        let outcome = block_on(never);
        lights.join().unwrap();
        assert_eq!(outcome.unwrap(), 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        // The object has ended by itself.
        block_on(bench.runtime.idle());
        bench.end(None);
    });
}

/// Every waiter is answered, whenever the end of the runtime comes.
#[test]
fn a_shutdown_meets_calls() {
    check(300, || {
        let (bench, lamp, _) = bench();
        let waits = {
            let lamp = lamp.clone();
            thread::spawn(move || block_on(lamp.read()).is_ok())
        };
        let lights = {
            let lamp = lamp.clone();
            thread::spawn(move || block_on(lamp.light()).is_ok())
        };
        bench.runtime.shutdown_blocking(Shutdown::Now, NEVER);
        let (read, lit) = (waits.join().unwrap(), lights.join().unwrap());
        assert!(lit || !read);
        bench.end(None);
    });
}

/// A drain does not wait for a resting object, whenever the rest begins.
#[test]
fn a_drain_meets_the_last_call() {
    check(300, || {
        let (bench, lamp, _) = bench();
        drop(lamp.light());
        let late = {
            let lamp = lamp.clone();
            thread::spawn(move || block_on(lamp.light()).is_ok())
        };
        let report = bench.runtime.shutdown_blocking(Shutdown::Drain, NEVER);
        assert!(report.remained.is_empty());
        late.join().unwrap();
        assert!(lamp.has_ended());
        bench.end(None);
    });
}

/// An object that is made while the runtime drains ends with it, even if its proxy lives. The drain may have looked for
/// resting objects before this one was known.
///
/// Seeded: a daemon that is added without a look at the drain (`daemon-late-for-drain`, a deadlock).
#[test]
fn a_drain_meets_a_new_object() {
    check(300, || {
        let bench = Bench::new(1, MOST);
        let makes = {
            let runtime = bench.runtime.clone();
            thread::spawn(move || Lamp::default().activate(&runtime).ok())
        };
        let report = bench.runtime.shutdown_blocking(Shutdown::Drain, NEVER);
        assert!(report.remained.is_empty());
        let lamp = makes.join().unwrap();
        assert!(lamp.is_none_or(|lamp| lamp.has_ended()));
        bench.end(None);
    });
}

/// Two objects end in one drain: one because its last proxy goes, the other because nothing else is left.
#[test]
fn a_drain_meets_an_object_that_ends() {
    check(300, || {
        let (bench, lamp, _) = bench();
        let other = Lamp::default().activate(&bench.runtime).unwrap();
        let drops = thread::spawn(move || drop(other));
        let report = bench.runtime.shutdown_blocking(Shutdown::Drain, NEVER);
        assert!(report.remained.is_empty());
        drops.join().unwrap();
        assert!(lamp.has_ended());
        bench.end(None);
    });
}

struct Bell;

#[active(remote)]
impl Bell {
    pub(super) fn ring(&mut self) {}
}

/// Brings no answer.
struct Silent;

impl Carrier for Silent {
    fn carry(&self, _: Vec<u8>) -> Carrying {
        Box::pin(pending())
    }
}

/// AO-02: a cancel ends a call of an object elsewhere, also at the moment in which the call leaves the list.
///
/// Seeded: a cancel that meets a call on its way only sets a flag (`forward-cancel-lost`, a deadlock).
#[test]
fn a_cancel_meets_the_departure_of_a_call() {
    check(300, || {
        let bench = Bench::new(1, MOST);
        let bell = Forwarding::<Bell>::new("bell", Silent);
        let bell: BellProxy = bell.start(&bench.runtime).unwrap();
        let call = bell.ring();
        let canceller = call.canceller();
        let cancels = thread::spawn(move || canceller.cancel());
        let error = block_on(call).unwrap_err();
        assert!(matches!(error, ActiveCallError::Cancelled), "{error}");
        cancels.join().unwrap();
        drop(bell);
        bench.end(None);
    });
}
