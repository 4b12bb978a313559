//! The end of a runtime meets foms in every state.

use super::*;

/// A shutdown meets foms that are queued, run, block and wait: each handle gets an answer, and every thread ends.
fn shutdown(how: Shutdown) {
    check(3000, move || {
        let bench = Bench::new(2, MOST);
        let words = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        let works = [1, 0].map(|sections| bench.runtime.submit(Work { sections }).start().unwrap());
        let sender = thread::spawn({
            let words = words.each_ref().map(|fom| FomRef::clone(fom));
            move || {
                // A fom may have ended already, by the shutdown.
                words.map(|fom| fom.send(Word::Go).is_ok())
            }
        });
        let late = thread::spawn({
            let runtime = bench.runtime.clone();
            move || match how {
                Shutdown::Drain => answer(how, runtime.submit(Work { sections: 0 }).start()),
                // The fom waits for a word that never comes.
                _ => answer(how, runtime.submit(task(|| {})).start()),
            }
        });
        let report = bench.runtime.shutdown_blocking(how, NEVER);
        assert!(report.remained.is_empty());
        for fom in words {
            answer(how, Ok(fom));
        }
        for fom in works {
            answer(how, Ok(fom));
        }
        let sent = sender.join().unwrap();
        assert!(how == Shutdown::Now || sent == [true; 2]);
        late.join().unwrap();
        bench.end(None);
    });

    fn answer<O>(how: Shutdown, started: Result<Handle<O>, Refused<O>>)
    where
        O: Operation<Error = BoxError>,
    {
        match started.map(Handle::wait) {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => match failure.cause {
                Cause::Shutdown => assert_eq!(how, Shutdown::Now),
                cause => panic!("{cause:?}"),
            },
            Err(refused) => assert_eq!(refused.reason(), RefusedReason::ShuttingDown),
        }
    }
}

#[test]
fn shutdown_drain() {
    shutdown(Shutdown::Drain);
}

/// Seeded: a fom that begins in a closed runtime (it is never told: deadlock); the reason of an end read before the
/// cancel (it said "cancelled").
#[test]
fn shutdown_now() {
    shutdown(Shutdown::Now);
}

/// A submission that begins to wait for room while the runtime drains is refused, and its caller can end the fom that
/// has the room. The drain waits for that fom.
///
/// Seeded: a wait for room that begins after the end of all waits (`room-wait-after-shutdown`, a deadlock).
#[test]
fn a_wait_for_room_meets_a_drain() {
    check(3000, || {
        let bench = Bench::with(1, MOST, |builder| builder.capacity(1));
        let fom = bench.runtime.submit(task(|| {})).start().unwrap();
        let waits = {
            let (runtime, fom) = (bench.runtime.clone(), FomRef::clone(&fom));
            thread::spawn(move || {
                let started = runtime.submit(Work { sections: 0 }).start_when_room();
                let refused = started.wait().unwrap_err();
                assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
                fom.send(Word::Go).unwrap();
            })
        };
        let report = bench.runtime.shutdown_blocking(Shutdown::Drain, NEVER);
        assert!(report.remained.is_empty());
        waits.join().unwrap();
        fom.wait().unwrap();
        bench.end(None);
    });
}

/// The last handle goes while foms run, block, wait, and submit others: each gets some answer, and every thread ends.
#[test]
fn the_last_handle_goes() {
    check(4000, || {
        let bench = Bench::new(2, MOST);
        let parents = [Placement::Here, Placement::RoundRobin]
            .map(|place| bench.runtime.submit(Parent(place)).start().unwrap());
        let waiting = bench.runtime.submit(task(|| {})).start().unwrap();
        bench.end(None);
        for parent in parents {
            drop(parent.wait());
        }
        let cause = waiting.wait().unwrap_err().cause;
        assert!(matches!(cause, Cause::Shutdown), "{cause:?}");
    });
}

/// A fom submits another to a locality that ends at that moment. The new fom is refused, or runs, or is told that it
/// came too late.
///
/// Seeded: a parcel that is rejected without an answer (deadlock).
#[test]
fn submitted_to_a_locality_that_ends() {
    check(8000, || {
        let bench = Bench::new(2, MOST);
        let parent = Parent(Placement::Locality(1));
        let parent = bench.runtime.submit(parent).place(Placement::Locality(0));
        let parent = parent.start().unwrap();
        bench.end(None);
        drop(parent.wait());
    });
}
