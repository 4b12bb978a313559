//! Foms that are moved to an idle locality: that they are, what stays, and that nothing is lost on the way.
//!
//! The clock is the test's, and moves only while foms run: a run takes as long as a test says, on any machine.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    time::Duration,
};

use fom_runtime::{
    Cx, FomRef, Handle, balance::Balance, error::CallError, prelude::*, time::TestClock,
    topology::Machine,
};

use crate::kit::{limited, many, secs};

const LONG: Duration = Duration::from_micros(200);

#[derive(Debug, PartialEq)]
enum Word {
    Go,
    Stop,
}

/// Runs for [`LONG`], a few times; then waits for words, and records where it has been.
struct Hiker {
    clock: TestClock,
    runs: usize,
    local: bool,
    /// How long it sleeps, counted from before its runs.
    sleeps: Option<Duration>,
    been: Vec<usize>,
    words: usize,
    ended: Arc<AtomicUsize>,
}

impl Drop for Hiker {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[fom(operation(Hiker), error(CallError), event(Word), transient)]
enum Hike {
    #[phase(start, to(Walk), sync)]
    Leave,
    /// The deadline is armed before the move, and stands after it.
    #[allow(dead_code)]
    #[phase(to(Walk, Rest), within = "100s", keep(Walk, Rest))]
    Walk,
    #[allow(dead_code)]
    #[phase(to(Home, Lost), on(Go, Stop))]
    Rest,
    #[phase(end)]
    Home,
    #[phase(end, failure)]
    Lost,
}

impl HikeTransitions for Hiker {
    fn leave(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), CallError> {
        if self.local {
            cx.local(|foms: &mut usize| *foms += 1);
        }
        Ok(())
    }

    async fn walk(&mut self, cx: &mut Cx<'_, Word>) -> Result<HikeAfterWalk, CallError> {
        let mut sleep = self.sleeps.map(|time| Box::pin(cx.sleep(time)));
        while self.been.len() < self.runs {
            self.been.push(here(cx));
            self.clock.advance(LONG);
            if let Some(sleep) = &mut sleep {
                let armed = std::future::poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                assert!(armed.is_pending());
            }
            pause().await;
        }
        if let Some(sleep) = sleep {
            sleep.await;
            self.been.push(here(cx));
        }
        Ok(HikeAfterWalk::Rest)
    }

    async fn rest(&mut self, cx: &mut Cx<'_, Word>) -> Result<HikeAfterRest, CallError> {
        loop {
            let word = cx.event().await;
            self.been.push(here(cx));
            match word {
                Word::Go => self.words += 1,
                Word::Stop => return Ok(HikeAfterRest::Home),
            }
        }
    }
}

/// The locality of this thread, which the fom reports as well.
fn here(cx: &Cx<'_, Word>) -> usize {
    let thread = std::thread::current();
    let name = thread.name().expect("a thread of a locality");
    assert!(
        name.starts_with(&format!("fom-{}-", cx.locality())),
        "{name}"
    );
    cx.locality()
}

/// Yields once: the fom goes to the tail of the run queue.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What the hikers of a test have in common.
struct Party {
    runtime: Runtime,
    clock: TestClock,
    ended: Arc<AtomicUsize>,
}

impl Party {
    fn new(balance: Balance) -> Self {
        let clock = TestClock::new();
        let runtime = many(2, &clock)
            .machine(Machine::synthetic(1, 1, 2, 1))
            .balance(balance)
            .locality_data(|_| Ok::<_, CallError>(0_usize))
            .build()
            .unwrap();
        Self {
            runtime,
            clock,
            ended: Arc::default(),
        }
    }

    fn hiker(&self, runs: usize) -> Hiker {
        Hiker {
            clock: self.clock.clone(),
            runs,
            local: false,
            sleeps: None,
            been: Vec::new(),
            words: 0,
            ended: Arc::clone(&self.ended),
        }
    }

    /// Submits this many hikers at once from inside locality 0, where they are at home.
    fn crowd(
        &self,
        foms: usize,
        submit: impl Fn(&Runtime, Hiker) -> Handle<Hiker> + Send + 'static,
    ) -> Vec<Handle<Hiker>> {
        let hikers: Vec<_> = (0..foms).map(|_| self.hiker(4)).collect();
        let (tell, told) = mpsc::channel();
        let parent = Parent(Some(Box::new(move |runtime| {
            let handles: Vec<_> = hikers
                .into_iter()
                .map(|hiker| submit(runtime, hiker))
                .collect();
            tell.send(handles).unwrap();
        })));
        let submission = self.runtime.submit(parent).place(Placement::Locality(0));
        submission.start().unwrap().wait().unwrap();
        told.recv().unwrap()
    }

    /// The same, until four hikers live in locality 1 (which gets foms only while it sleeps).
    async fn crowd_that_moved(&self) -> Vec<Handle<Hiker>> {
        let mut all = Vec::new();
        loop {
            all.extend(self.crowd(40, |runtime, hiker| runtime.submit(hiker).start().unwrap()));
            resting(&all).await;
            if all.iter().filter(|fom| fom.locality() == 1).count() >= 4 {
                return all;
            }
        }
    }
}

async fn resting(foms: &[Handle<Hiker>]) {
    for fom in foms {
        fom.reached([HikeKind::Rest]).await;
    }
}

type Errand = Box<dyn FnOnce(&Runtime) + Send>;

/// Does something inside a locality.
struct Parent(Option<Errand>);

#[fom(operation(Parent), error(CallError), transient)]
enum Parenting {
    #[phase(start, to(Done), sync)]
    Act,
    #[phase(end)]
    Done,
}

impl ParentingTransitions for Parent {
    fn act(&mut self, cx: &mut Cx<'_>) -> Result<(), CallError> {
        if let Some(act) = self.0.take() {
            act(&cx.runtime());
        }
        Ok(())
    }
}

/// By default nothing is moved.
#[test]
fn off_by_default() {
    limited(|| async {
        let party = Party::new(Balance::default());
        let foms = party.crowd(100, |runtime, hiker| runtime.submit(hiker).start().unwrap());
        resting(&foms).await;
        assert!(foms.iter().all(|fom| fom.locality() == 0));
    });
}

/// LO-13: an idle locality gets foms. They run on as if they had begun there, and all counts are right.
#[test]
fn an_idle_locality_is_given_foms() {
    limited(|| async {
        let party = Party::new(Balance::Foms);
        let foms = party.crowd_that_moved().await;
        let listed = party.runtime.operations();
        for (index, locality) in listed.localities.iter().enumerate() {
            let here = |home| usize::from(home == index);
            let live: usize = foms.iter().map(|fom| here(fom.locality())).sum();
            assert_eq!(locality.foms, live);
            let shown: usize = listed.foms.iter().map(|fom| here(fom.home.locality)).sum();
            assert_eq!(shown, live);
        }
        assert_eq!(party.runtime.in_flight(), foms.len());
        let mut homes = BTreeSet::new();
        let all = foms.len() as u64;
        for fom in &foms {
            fom.send(Word::Stop).unwrap();
        }
        for fom in foms {
            let home = fom.locality();
            let ended = fom.await.unwrap();
            assert!(matches!(ended.end, HikeEnd::Home));
            // Four runs and the word; a moved fom does not go back to where the others come from.
            assert_eq!(ended.operation.been.len(), 5);
            assert_eq!(ended.operation.been[4], home);
            homes.extend(&ended.operation.been);
        }
        assert_eq!(homes, [0, 1].into());
        party.runtime.idle().await;
        let listed = party.runtime.operations();
        assert!(listed.foms.is_empty());
        assert!(listed.localities.iter().all(|locality| locality.foms == 0));
        let hikes = &listed.types[0];
        assert_eq!((hikes.started, hikes.ended, hikes.failed), (all, all, 0));
        assert_eq!(listed.incidents, []);
    });
}

/// LO-13: a fom with a place or a key, or one that used the data of its locality, stays, also while others move.
#[test]
fn what_relies_on_its_home_stays() {
    limited(|| async {
        let party = Party::new(Balance::Foms);
        let moved = party.crowd_that_moved().await;
        let mut stay = Vec::new();
        for round in 0..4 {
            stay.extend(party.crowd(40, move |runtime, mut hiker| {
                match round {
                    0 => runtime.submit(hiker).place(Placement::Here),
                    1 => runtime.submit(hiker).place(Placement::Locality(0)),
                    2 => {
                        hiker.local = true;
                        // The fom runs to the end of its first phase before it has touched the data: until then it may
                        // move.
                        runtime.submit(hiker).place(Placement::RoundRobin)
                    }
                    _ => runtime
                        .submit(hiker)
                        .key(runtime.in_flight() as u64)
                        .place(Placement::RoundRobin),
                }
                .start()
                .unwrap()
            }));
        }
        resting(&stay).await;
        for fom in &stay {
            fom.send(Word::Stop).unwrap();
        }
        for (n, fom) in stay.into_iter().enumerate() {
            let ended = fom.await.unwrap();
            let been = &ended.operation.been;
            if n < 80 {
                assert_eq!(*been, [0; 5]);
            }
            assert!(been.iter().all(|home| *home == been[0]), "{n}: {been:?}");
        }
        drop(moved);
    });
}

/// Events, wakes and a cancel reach a fom in its new home; its deadline is armed there, and tells of the end.
#[test]
fn a_moved_fom_is_reached_by_everything() {
    limited(|| async {
        let party = Party::new(Balance::Foms);
        let mut foms = party.crowd_that_moved().await;
        let at = foms.iter().position(|fom| fom.locality() == 1).unwrap();
        let moved = foms.swap_remove(at);
        // A word, from outside and from the locality where the fom came from.
        moved.send(Word::Go).unwrap();
        let sender = moved.sender();
        let told = party
            .runtime
            .call(0, move |_| sender.send(Word::Go).is_ok());
        assert_eq!(told.await, Ok(true));
        // A wake by id, and a wait for the current phase, both through the fom's home.
        assert!(party.runtime.wake(moved.id()));
        moved.reached([HikeKind::Rest]).await;
        moved.send(Word::Stop).unwrap();
        let ended = moved.await.unwrap();
        assert_eq!(ended.operation.words, 2);
        assert_eq!(&ended.operation.been[4..], [1, 1, 1]);

        // Two are cancelled, by address and by id.
        for by_number in [false, true] {
            let at = foms.iter().position(|fom| fom.locality() == 1).unwrap();
            let moved = foms.swap_remove(at);
            if by_number {
                assert!(party.runtime.cancel(moved.id()));
            } else {
                moved.cancel();
            }
            assert!(matches!(moved.await.unwrap_err().cause, Cause::Cancelled));
        }

        // The others are late, wherever they are.
        assert!(foms.iter().any(|fom| fom.locality() == 1));
        party.runtime.quiet().await;
        party.clock.advance(secs(100));
        for fom in foms {
            assert!(matches!(
                fom.await.unwrap_err().cause,
                Cause::Late { armed_in: "Walk" }
            ));
        }
    });
}

/// A sleep that was armed before the move ends at its time, and leaves nothing behind when its fom is cancelled.
#[test]
fn a_sleep_goes_along() {
    limited(|| async {
        let party = Party::new(Balance::Foms);
        let mut foms = Vec::new();
        while !foms.iter().any(|fom: &Handle<Hiker>| fom.locality() == 1) {
            foms.extend(party.crowd(40, |runtime, mut hiker| {
                hiker.sleeps = Some(secs(50));
                runtime.submit(hiker).start().unwrap()
            }));
            party.runtime.quiet().await;
        }
        let cancelled = foms.split_off(foms.len() / 2);
        cancelled.iter().for_each(|fom| fom.cancel());
        for fom in cancelled {
            assert!(matches!(fom.await.unwrap_err().cause, Cause::Cancelled));
        }
        party.clock.advance(secs(50));
        resting(&foms).await;
        for fom in foms {
            fom.send(Word::Stop).unwrap();
            let home = fom.locality();
            let ended = fom.await.unwrap();
            assert_eq!(ended.operation.been[4..], [home, home]);
        }
        party.runtime.idle().await;
    });
}

/// Words and cancels arrive while the foms are moved to and fro: each is taken in once.
#[test]
fn nothing_is_lost_on_the_way() {
    limited(|| async {
        let party = Party::new(Balance::Foms);
        for round in 0..20 {
            let foms = party.crowd(100, |runtime, hiker| runtime.submit(hiker).start().unwrap());
            let addresses: Vec<FomRef<Hiker>> = foms.iter().map(|fom| fom.fom().clone()).collect();
            let pokes = std::thread::spawn(move || {
                for fom in &addresses {
                    fom.send(Word::Go).unwrap();
                    fom.wake();
                }
                for fom in &addresses {
                    fom.send(Word::Go).unwrap();
                    fom.send(Word::Stop).unwrap();
                }
                for fom in addresses.iter().step_by(10) {
                    fom.cancel();
                }
            });
            for (n, fom) in foms.into_iter().enumerate() {
                match fom.await {
                    Ok(ended) => assert_eq!(ended.operation.words, 2),
                    Err(failure) => {
                        assert!(matches!(failure.cause, Cause::Cancelled) && n % 10 == 0);
                    }
                }
            }
            pokes.join().unwrap();
            party.runtime.idle().await;
            assert_eq!(party.runtime.in_flight(), 0);
            assert_eq!(party.ended.load(Ordering::SeqCst), (round + 1) * 100);
        }
        let hikes = &party.runtime.operations().types[0];
        assert_eq!((hikes.started, hikes.ended), (2_000, 2_000));
    });
}

/// A shutdown of either kind, and a drop, while foms are on their way: every caller gets an answer, and every operation
/// is dropped.
#[test]
fn a_shutdown_meets_foms_on_their_way() {
    limited(|| async {
        for how in [Some(Shutdown::Drain), Some(Shutdown::Now), None] {
            for _ in 0..10 {
                let party = Party::new(Balance::Foms);
                let foms =
                    party.crowd(100, |runtime, hiker| runtime.submit(hiker).start().unwrap());
                for fom in &foms {
                    fom.send(Word::Stop).unwrap();
                }
                match how {
                    Some(how) => {
                        let report = party.runtime.shutdown(how, secs(20)).await;
                        assert!(report.remained.is_empty());
                    }
                    None => drop(party.runtime),
                }
                for fom in foms {
                    match fom.await {
                        Ok(_) => {}
                        Err(failure) => {
                            assert!(how != Some(Shutdown::Drain));
                            assert!(matches!(failure.cause, Cause::Shutdown));
                        }
                    }
                }
                assert_eq!(party.ended.load(Ordering::SeqCst), 100);
            }
        }
    });
}

/// Foms that wait in their new home are told to end there, also when the locality that they left has long been empty.
#[test]
fn a_shutdown_finds_foms_that_wait_elsewhere() {
    limited(|| async {
        for drops in [false, true] {
            let party = Party::new(Balance::Foms);
            let (stay, moved): (Vec<_>, Vec<_>) = party
                .crowd_that_moved()
                .await
                .into_iter()
                .partition(|fom| fom.locality() == 0);
            for fom in stay {
                fom.cancel();
                assert!(fom.await.is_err());
            }
            party.runtime.quiet().await;
            if drops {
                drop(party.runtime);
            } else {
                let report = party.runtime.shutdown(Shutdown::Now, secs(20)).await;
                assert!(report.remained.is_empty());
            }
            for fom in moved {
                assert!(matches!(fom.await.unwrap_err().cause, Cause::Shutdown));
            }
        }
    });
}

/// A fom that hangs keeps the threads of its own locality only. The other locality ends, although foms moved between
/// the two. The foms that wait beside the hanging one end when it goes on.
#[test]
fn a_hung_fom_keeps_its_own_locality_alone() {
    for hung in [0, 1] {
        limited(move || async move {
            let party = Party::new(Balance::Foms);
            let foms = party.crowd_that_moved().await;
            let (go_on, told) = mpsc::channel::<()>();
            let (tell, began) = mpsc::channel();
            let hangs = Parent(Some(Box::new(move |_| {
                tell.send(()).unwrap();
                // The fom goes on when the other end is dropped.
                let _ = told.recv();
            })));
            let hangs = party.runtime.submit(hangs);
            let hangs = hangs.place(Placement::Locality(hung)).start().unwrap();
            began.recv().unwrap();
            let report = party.runtime.shutdown(Shutdown::Now, secs(0)).await;
            assert!(report.remained.iter().any(|fom| fom.id == hangs.id()));
            let has_ended =
                |index: usize| party.runtime.operations().localities[index].threads == 0;
            while !has_ended(1 - hung) {
                std::thread::yield_now();
            }
            assert!(!has_ended(hung));
            drop(go_on);
            while !has_ended(hung) {
                std::thread::yield_now();
            }
            let all = foms.len();
            for fom in foms {
                assert!(matches!(fom.await.unwrap_err().cause, Cause::Shutdown));
            }
            assert_eq!(party.ended.load(Ordering::SeqCst), all);
        });
    }
}
