//! The commit protocol: what localities hand over while a sync runs, what fails and is tried again, and what meets a
//! commit under way. The journal fails now and then. Each part is answered once: an unanswered fom would stay, and the
//! model with it. The records of a fom come in order, and nothing is acknowledged that the journal does not have.

use fom_runtime::Operation;
use serde::{Deserialize, Serialize};

use super::{disk::mark, *};

/// Takes this many steps, and checks at each that the journal has the step before.
#[derive(Serialize, Deserialize)]
struct Trip {
    mark: String,
    done: usize,
    steps: usize,
    /// Its first step may begin before it is in the journal: the fom that started it does not wait.
    early: bool,
}

fn trip(steps: usize) -> Trip {
    Trip {
        mark: mark(0),
        done: 0,
        steps,
        early: false,
    }
}

#[fom(operation(Trip))]
enum Travel {
    #[phase(start, sync, to(Step, Home))]
    Step,
    #[phase(end)]
    Home,
}

impl TravelTransitions for Trip {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<TravelAfterStep, BoxError> {
        let kept = cx.resource::<Disk>().mark_of(cx.id());
        let is_early = self.early && self.done == 0 && kept.is_none();
        assert!(
            kept == Some(self.done) || is_early,
            "{kept:?} is in the journal, {} was acknowledged",
            self.done
        );
        self.done += 1;
        self.mark = mark(self.done);
        Ok(match self.done == self.steps {
            true => {
                cx.resource::<Disk>().arrived();
                TravelAfterStep::Home
            }
            false => TravelAfterStep::Step,
        })
    }
}

/// Checks how far the trip came by what its handle says: all the way, or no further than the journal was asked for.
fn check_end(disk: &Disk, id: FomId, ended: Result<Ended<Trip>, Failure<Trip>>) {
    match ended {
        Ok(ended) => assert_eq!(ended.operation.done, ended.operation.steps),
        Err(Failure {
            cause: Cause::Journal(_),
            operation,
            ..
        }) => {
            // The trip was never in the journal, or goes on from where it is.
            assert!(operation.is_some() || disk.mark_of(id).is_some());
        }
        Err(failure) => panic!("{failure:?}"),
    }
}

/// Whether the first commit of this fom failed, so that it never existed for the journal.
fn was_never_there<O: Operation>(
    disk: &Disk,
    id: FomId,
    ended: &Result<Ended<O>, Failure<O>>,
) -> bool {
    let failure = ended.as_ref().err();
    failure.is_some_and(|failure| failure.operation.is_some() && disk.mark_of(id).is_none())
}

/// Localities hand over parts while a sync runs, and syncs fail. Every fom is answered, and every step is in the
/// journal once, in order. What could not be committed is tried again and goes on.
///
/// Seeded: a part that is handed over without a word to the thread, or with a mark that the end of the sync wipes out;
/// a close without a word; parts of a failed commit that get no answer; an answer without a wake; stalled steps that
/// are dropped when they fail again, or that are never looked after when nothing else is committed (all of them:
/// deadlock). An answer that says done where it failed (the journal did not have what was acknowledged).
fn handed_over(localities: usize, faults: usize) {
    check(1000, move || {
        let disk = Disk::failing(faults);
        let bench = disk.bench(localities, |builder| builder);
        let trips = [2, 1, 1].map(|steps| bench.runtime.submit(trip(steps)).start().unwrap());
        for trip in trips {
            let id = trip.id();
            check_end(&disk, id, trip.wait());
        }
        // The failed ones come back by themselves, and end.
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn handed_over_by_one_locality() {
    handed_over(1, 0);
}

#[test]
fn handed_over_by_two_localities() {
    handed_over(2, 0);
}

#[test]
fn a_commit_fails() {
    handed_over(1, 2);
}

#[test]
fn a_commit_fails_for_two_localities() {
    handed_over(2, 1);
}

/// Does not wait for its commits.
#[derive(Serialize, Deserialize)]
struct Stroll {
    mark: String,
    done: usize,
    steps: usize,
    rests: bool,
}

#[fom(operation(Stroll), event(Word), durability = "lazy")]
enum Strolling {
    #[phase(start, sync, to(Step, Rest, Home))]
    Step,
    #[phase(sync, on(Go), to(Home))]
    Rest,
    #[phase(end)]
    Home,
}

impl StrollingTransitions for Stroll {
    fn step(&mut self, cx: &mut Cx<'_, Word>) -> Result<StrollingAfterStep, BoxError> {
        self.done += 1;
        self.mark = mark(self.done);
        if self.done < self.steps {
            return Ok(StrollingAfterStep::Step);
        }
        // This step is in the journal before anything that comes of it.
        let early = true;
        let trip = Trip { early, ..trip(1) };
        cx.outbox().submit(trip).post()?;
        Ok(match self.rests {
            true => StrollingAfterStep::Rest,
            false => StrollingAfterStep::Home,
        })
    }

    fn rest(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<StrollingAfterRest, BoxError> {
        Ok(StrollingAfterRest::Home)
    }
}

fn stroll(steps: usize, rests: bool) -> Stroll {
    Stroll {
        mark: mark(0),
        done: 0,
        steps,
        rests,
    }
}

/// Lazy parts meet parts that a fom waits for, and what one starts the other continues. The parts come down in order,
/// also when a commit fails.
///
/// Seeded: parts that a fom waits for before lazy ones (an older record stood over a newer one); lazy parts that are
/// gone when their commit fails (deadlock).
fn lazy(faults: usize) {
    check(1000, move || {
        let disk = Disk::failing(faults);
        let bench = disk.bench(2, |builder| builder);
        let strolls = [1, 2].map(|steps| {
            let stroll = bench.runtime.submit(stroll(steps, false));
            stroll.start().unwrap()
        });
        let waits = bench.runtime.submit(trip(1)).start().unwrap();
        let id = waits.id();
        let is_there = match waits.wait() {
            ended if was_never_there(&disk, id, &ended) => 0,
            ended => {
                check_end(&disk, id, ended);
                1
            }
        };
        // A lazy fom waits for its first commit when the thread is behind, so that one may fail, too.
        let strolls = strolls.map(|stroll| (stroll.id(), stroll.wait()));
        let gone = strolls
            .iter()
            .filter(|(id, ended)| was_never_there(&disk, *id, ended));
        disk.wait_for_arrived(2 - gone.count() + is_there);
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn lazy_against_waited_for() {
    lazy(0);
}

#[test]
fn a_commit_of_lazy_ones_fails() {
    lazy(1);
}

/// Lazy parts come down by themselves.
///
/// Seeded: the end of a sync that forgets since when lazy parts are there (deadlock).
#[test]
fn lazy_and_nothing_else() {
    check(1000, || {
        let disk = Disk::default();
        let bench = disk.bench(1, |builder| builder);
        let strolls = [1, 2].map(|steps| {
            let stroll = bench.runtime.submit(stroll(steps, true));
            (steps, stroll.start().unwrap())
        });
        for (steps, stroll) in &strolls {
            disk.wait_for_mark(stroll.id(), *steps);
        }
        for (_, stroll) in strolls {
            stroll.send(Word::Go).unwrap();
            stroll.wait().unwrap();
        }
        disk.wait_for_arrived(2);
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

/// Waits for two words.
#[derive(Serialize, Deserialize)]
struct Visit {
    mark: String,
}

#[fom(operation(Visit), event(Word))]
enum Visiting {
    #[phase(start, sync, to(Inside), on(Go))]
    Outside,
    #[phase(sync, to(Home), on(Go))]
    Inside,
    #[phase(end)]
    Home,
}

impl VisitingTransitions for Visit {
    fn outside(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<VisitingAfterOutside, BoxError> {
        self.mark = mark(1);
        Ok(VisitingAfterOutside::Inside)
    }

    fn inside(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<VisitingAfterInside, BoxError> {
        Ok(VisitingAfterInside::Home)
    }
}

/// Words and a cancel meet commits that are under way, and fail or not. The fom is answered, and the journal agrees
/// with what its handle says.
fn met(faults: usize) {
    check(1500, move || {
        let disk = Disk::failing(faults);
        let bench = disk.bench(1, |builder| builder);
        let visit = bench.runtime.submit(Visit { mark: mark(0) }).key("visit");
        let visit = visit.start().unwrap();
        let sends = {
            let fom = FomRef::clone(&visit);
            thread::spawn(move || [fom.send(Word::Go).is_ok(), fom.send(Word::Go).is_ok()])
        };
        let cancels = {
            let fom = FomRef::clone(&visit);
            thread::spawn(move || fom.cancel())
        };
        let id = visit.id();
        match visit.wait() {
            Ok(_) => {}
            Err(Failure {
                cause: Cause::Cancelled,
                ..
            }) => {}
            Err(failure) => end_after_failed_commit(&bench, &disk, id, "visit", &failure),
        }
        cancels.join().unwrap();
        sends.join().unwrap();
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn words_and_a_cancel_meet_commits() {
    met(0);
}

#[test]
fn words_and_a_cancel_meet_commits_that_fail() {
    met(1);
}

/// The runtime ends, in each way, while foms wait for commits: all are answered, and every thread ends. What was
/// acknowledged is in the journal, and the next runtime brings it to its end.
fn ended(how: Option<Shutdown>, faults: usize) {
    check(1000, move || {
        let disk = Disk::failing(faults);
        let bench = disk.bench(2, |builder| builder);
        let trips = [2, 1].map(|steps| bench.runtime.submit(trip(steps)).start().unwrap());
        let waits = trips.map(|trip| {
            let disk = disk.clone();
            thread::spawn(move || {
                let id = trip.id();
                match trip.wait() {
                    // The trip ended with the runtime, but not in the journal, if it came there.
                    Err(Failure {
                        cause: Cause::Shutdown,
                        ..
                    }) => {}
                    ended => check_end(&disk, id, ended),
                }
            })
        });
        bench.end(how);
        for waits in waits {
            waits.join().unwrap();
        }
        let bench = disk.bench(1, |builder| builder);
        disk.wait_for_entries(0);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn shut_down_while_commits_are_under_way() {
    ended(Some(Shutdown::Now), 0);
}

#[test]
fn drained_while_commits_fail() {
    ended(Some(Shutdown::Drain), 1);
}

#[test]
fn the_last_handle_goes_while_commits_fail() {
    ended(None, 1);
}
