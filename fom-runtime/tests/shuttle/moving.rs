//! Foms that are moved while other threads wake them, cancel them, wait for them, or end the runtime.

use std::sync::atomic::{AtomicUsize as Total, Ordering::Relaxed};

use super::*;

/// The time of a run on the test's clock: enough for a queue of two to be halved.
const LONG: Duration = Duration::from_millis(1);

/// Runs for this long, then waits for a word.
struct Hiker {
    clock: TestClock,
    watch: Arc<Watch>,
    /// The fom runs, never in two places.
    inside: AtomicBool,
}

#[fom(operation(Hiker), event(Word), transient)]
enum Hike {
    #[phase(start, sync, to(Walk))]
    Leave,
    #[phase(sync, to(Rest))]
    Walk,
    #[phase(sync, on(Go), to(Home))]
    Rest,
    #[phase(end)]
    Home,
}

impl Hiker {
    fn step(&mut self, cx: &Cx<'_, Word>) {
        let here = cx.locality();
        assert!(!self.inside.swap(true, Ordering::AcqRel), "in two places");
        assert!(
            !self.watch.inside[here].swap(true, Ordering::AcqRel),
            "two foms in one locality"
        );
        // The budget is used up now: the fom goes to the tail.
        self.clock.advance(LONG);
        self.watch.inside[here].store(false, Ordering::Release);
        self.inside.store(false, Ordering::Release);
    }
}

impl HikeTransitions for Hiker {
    fn leave(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.step(cx);
        Ok(())
    }

    fn walk(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        self.step(cx);
        Ok(())
    }

    fn rest(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<HikeAfterRest, BoxError> {
        self.step(cx);
        Ok(HikeAfterRest::Home)
    }
}

/// Submits the hikers in its own locality.
struct Crowd(Vec<Hiker>, shuttle::sync::mpsc::Sender<Handle<Hiker>>);

#[fom(operation(Crowd), transient)]
enum Crowding {
    #[phase(start, sync, to(Done))]
    Submit,
    #[phase(end)]
    Done,
}

impl CrowdingTransitions for Crowd {
    fn submit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let runtime = cx.runtime();
        for hiker in self.0.drain(..) {
            // The receiver may be gone.
            if let Ok(fom) = runtime.submit(hiker).start() {
                let _ = self.1.send(fom);
            }
        }
        Ok(())
    }
}

struct Party {
    bench: Bench,
    foms: Vec<Handle<Hiker>>,
}

impl Party {
    fn new() -> Self {
        let clock = TestClock::new();
        let bench = Bench::balanced(2, MOST, Balance::Foms, &clock);
        let hiker = || Hiker {
            clock: clock.clone(),
            watch: Arc::clone(&bench.watch),
            inside: AtomicBool::new(false),
        };
        let (tell, told) = shuttle::sync::mpsc::channel();
        let crowd = Crowd((0..4).map(|_| hiker()).collect(), tell);
        let submission = bench.runtime.submit(crowd).place(Placement::Locality(0));
        submission.start().unwrap().wait().unwrap();
        let foms = (0..4).map(|_| told.recv().unwrap()).collect();
        Self { bench, foms }
    }
}

/// Runs a model in many orders. The model returns the number of moved foms: a model in which nothing is moved shows
/// nothing.
fn check_moves(orders: usize, f: impl Fn() -> usize + Send + Sync + 'static) {
    let moved = Arc::new(Total::new(0));
    let seen = Arc::clone(&moved);
    check(orders, move || {
        seen.fetch_add(f(), Relaxed);
    });
    let moved = moved.load(Relaxed);
    assert!(moved > orders / 50, "{moved} moves in {orders} orders");
}

fn addresses(foms: &[Handle<Hiker>]) -> Vec<FomRef<Hiker>> {
    foms.iter().map(|fom| fom.fom().clone()).collect()
}

fn moved(foms: &[FomRef<Hiker>]) -> usize {
    foms.iter().filter(|fom| fom.locality() == 1).count()
}

/// Words, wakes by id and a cancel, from other threads: all foms end, each in one way, and the counts are even.
#[test]
fn moved_against_words_and_a_cancel() {
    check_moves(2000, || {
        let Party { bench, foms } = Party::new();
        let addresses = addresses(&foms);
        let words = addresses.clone();
        let cancelled = words[0].clone();
        let (sends, cancels) = (
            thread::spawn(move || words.iter().for_each(|fom| drop(fom.send(Word::Go)))),
            thread::spawn(move || cancelled.cancel()),
        );
        let runtime = bench.runtime.clone();
        let id = foms[1].id();
        let wakes = thread::spawn(move || {
            // The fom may have ended.
            let _ = runtime.wake(id);
        });
        for (n, fom) in foms.into_iter().enumerate() {
            match fom.wait() {
                Ok(ended) => assert!(matches!(ended.end, HikeEnd::Home)),
                Err(failure) => assert!(matches!(failure.cause, Cause::Cancelled) && n == 0),
            }
        }
        for thread in [sends, cancels, wakes] {
            thread.join().unwrap();
        }
        block_on(bench.runtime.idle());
        let listed = bench.runtime.operations();
        assert!(listed.localities.iter().all(|locality| locality.foms == 0));
        let hikes = listed.types.iter().find(|of| of.started == 4).unwrap();
        assert_eq!(hikes.ended, 4);
        bench.end(Some(Shutdown::Drain));
        moved(&addresses)
    });
}

/// A caller that waits until no fom is in flight hears so only when it is true, not while some foms are on their way.
#[test]
fn idle_against_moves() {
    check_moves(2000, || {
        let Party { bench, foms } = Party::new();
        for fom in &foms {
            fom.send(Word::Go).unwrap();
        }
        block_on(bench.runtime.idle());
        for fom in &foms {
            assert_eq!(fom.state(), FomState::Finished);
        }
        let addresses = addresses(&foms);
        drop(foms);
        bench.end(Some(Shutdown::Drain));
        moved(&addresses)
    });
}

/// A shutdown, or the drop of the last handle: each fom is answered, wherever it is, and every thread ends.
///
/// Seeded: a move that leaves the home of the fom as it was (fails everywhere). A sweep that looks for foms only in the
/// locality where they began (a deadlock when the last handle goes).
fn ends(how: Option<Shutdown>) {
    check_moves(2000, move || {
        let Party { bench, foms } = Party::new();
        // One of the foms waits forever, unless it is told to end.
        for fom in foms.iter().skip(usize::from(how != Some(Shutdown::Drain))) {
            fom.send(Word::Go).unwrap();
        }
        // No fom moves after the runtime is closed.
        block_on(foms[1].reached([HikeKind::Walk]).into_future());
        bench.end(how);
        let addresses = addresses(&foms);
        for fom in foms {
            if let Err(failure) = fom.wait() {
                assert!(matches!(failure.cause, Cause::Shutdown));
                assert_ne!(how, Some(Shutdown::Drain));
            }
        }
        moved(&addresses)
    });
}

#[test]
fn moved_while_drained() {
    ends(Some(Shutdown::Drain));
}

#[test]
fn moved_while_shut_down() {
    ends(Some(Shutdown::Now));
}

#[test]
fn moved_while_the_last_handle_goes() {
    ends(None);
}
