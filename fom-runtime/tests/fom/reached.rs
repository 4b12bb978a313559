//! Waiting until a fom reaches a phase: passed through, reached already, never reached, or not in time.

use std::{pin::pin, time::Duration};

use fom_runtime::{
    error::TimedOut, machine::FomState, prelude::*, submission::Reached, time::TestClock,
};

use crate::kit::foms::{WalkKind, Word, walker};
use crate::kit::{Log, limited, one, poll_once, secs};

/// FL-12: a caller that waits for a phase hears of it also when the fom only passes through. Trap 5: a wait that looks
/// at the current phase would miss it.
#[test]
fn a_phase_that_is_only_passed_through_is_reached() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        let passes = fom.reached([WalkKind::Passes]);
        let either = fom.reached([WalkKind::Stopped, WalkKind::Passes]);
        let stopped = fom.reached([WalkKind::Stopped]);
        fom.send(Word::Go).unwrap();
        runtime.quiet().await;
        assert_eq!(fom.phase(), "Waits", "it has passed through long ago");
        assert_eq!(passes.await, Reached::Phase(WalkKind::Passes));
        assert_eq!(either.await, Reached::Phase(WalkKind::Passes));
        fom.send(Word::Stop).unwrap();
        assert_eq!(stopped.await, Reached::Phase(WalkKind::Stopped));
        fom.await.unwrap();
    });
}

/// FL-12: the current phase is reached at once. A fom that ended elsewhere is an answer, before and after the end.
/// Trap 6: the end phase itself, waited for before or after the end, is reached and not gone.
#[test]
fn the_answers_of_a_wait_for_a_phase() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(
            fom.reached([WalkKind::Waits]).await,
            Reached::Phase(WalkKind::Waits)
        );
        let before = (
            fom.reached([WalkKind::Stopped]),
            fom.reached([WalkKind::Passes]),
        );
        let address = fom.fom().clone();
        fom.send(Word::Stop).unwrap();
        fom.await.unwrap();
        assert_eq!(before.0.await, Reached::Phase(WalkKind::Stopped));
        assert_eq!(before.1.await, Reached::Ended);
        assert_eq!(
            address.reached([WalkKind::Stopped]).await,
            Reached::Phase(WalkKind::Stopped)
        );
        assert_eq!(address.reached([WalkKind::Passes]).await, Reached::Ended);
        assert_eq!(
            address.reached([WalkKind::Waits]).await,
            Reached::Ended,
            "it was, but is not"
        );
        // In a plain thread, and for a fom that failed.
        let fom = runtime
            .submit(walker(&Log::default(), "b"))
            .start()
            .unwrap();
        let waits = fom.reached([WalkKind::Stopped]);
        let thread = std::thread::spawn(move || waits.wait());
        fom.send(Word::Fail).unwrap();
        assert_eq!(thread.join().unwrap(), Reached::Ended);
        assert!(fom.await.is_err());
    });
}

/// FL-12: a wait may have a limit, on the runtime's clock; then the answer is `TimedOut`, and the fom goes on.
#[test]
fn a_wait_for_a_phase_with_a_limit() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let fom = runtime
            .submit(walker(&Log::default(), "a"))
            .start()
            .unwrap();
        runtime.quiet().await;
        let mut wait = pin!(fom.reached([WalkKind::Passes]).within(secs(5)));
        assert!(poll_once(wait.as_mut()).await.is_pending());
        let mut longer = pin!(fom.reached([WalkKind::Passes]).within(secs(7)));
        assert!(poll_once(longer.as_mut()).await.is_pending());
        runtime.quiet().await;
        clock.advance(secs(5) - Duration::from_nanos(1));
        runtime.quiet().await;
        assert!(poll_once(wait.as_mut()).await.is_pending());
        clock.advance(Duration::from_nanos(1));
        runtime.quiet().await;
        assert_eq!(wait.await, Err(TimedOut(secs(5))));
        fom.send(Word::Go).unwrap();
        assert_eq!(longer.await, Ok(Reached::Phase(WalkKind::Passes)));
        runtime.quiet().await;
        assert_eq!(fom.state(), FomState::Waiting);
        fom.cancel();
        assert!(fom.await.is_err());
    });
}

struct Trip;

enum Go {
    On,
}

#[fom(operation(Trip), event(Go), transient)]
enum Travel {
    #[phase(start, sync, to(There), on(On))]
    Here,
    #[allow(dead_code)]
    #[phase(sync, to(Home, There), on(On))]
    There,
    #[phase(end)]
    Home,
}

impl TravelTransitions for Trip {
    fn here(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterHere, BoxError> {
        Ok(TravelAfterHere::There)
    }

    fn there(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterThere, BoxError> {
        Ok(TravelAfterThere::There)
    }
}

/// A wait for a phase that the fom can no longer reach is answered at once: when the fom leaves the last phase that leads
/// there, and if it has left it before. A phase that it can enter again is waited for.
#[test]
fn a_phase_that_cannot_be_reached_is_an_answer() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let trip = runtime.submit(Trip).start().unwrap();
        runtime.quiet().await;
        let mut here = pin!(trip.reached([TravelKind::Here, TravelKind::There]));
        assert_eq!(here.as_mut().await, Reached::Phase(TravelKind::Here));
        // It is in the phase, so it has not left the way to it.
        trip.send(Go::On).unwrap();
        runtime.quiet().await;
        assert_eq!(trip.reached([TravelKind::Here]).await, Reached::Unreachable);
        let mut home = pin!(trip.reached([TravelKind::Here, TravelKind::Home]));
        assert!(poll_once(home.as_mut()).await.is_pending());
        let mut end = pin!(trip.reached([]));
        assert!(poll_once(end.as_mut()).await.is_pending());
        trip.send(Go::On).unwrap();
        runtime.quiet().await;
        assert!(poll_once(home.as_mut()).await.is_pending());
        trip.cancel();
        assert_eq!(home.await, Reached::Ended);
        assert_eq!(end.await, Reached::Ended);
    });
}
