//! Tests of one operation: its phase functions run one at a time, on the thread of the test.
//!
//! A [`Stepper`] has no threads, and its clock stands still until the test moves it. The code between two phases is the
//! runtime's own.
//!
//! ```
//! use std::time::Duration;
//! use fom_runtime::{prelude::*, testing::{Step, Stepper}};
//!
//! #[derive(Clone)]
//! struct Call {
//!     rings: u32,
//! }
//!
//! enum News {
//!     Answer,
//! }
//!
//! #[fom(operation(Call), event(News), transient)]
//! enum Route {
//!     #[phase(start, sync, to(Ring))]
//!     Locate,
//!     #[phase(sync, on(Answer), to(Answered, Missed), within = "32s", late)]
//!     Ring,
//!     #[phase(end)]
//!     Answered,
//!     #[phase(end)]
//!     Missed,
//! }
//!
//! impl RouteTransitions for Call {
//!     fn locate(&mut self, _: &mut Cx<'_, News>) -> Result<(), BoxError> {
//!         self.rings += 1;
//!         Ok(())
//!     }
//!     fn ring(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<RouteAfterRing, BoxError> {
//!         Ok(RouteAfterRing::Answered)
//!     }
//!     fn ring_late(&mut self, _: &mut Cx<'_, News>) -> Result<RouteAfterRing, BoxError> {
//!         Ok(RouteAfterRing::Missed)
//!     }
//! }
//!
//! let mut call = Stepper::new(Call { rings: 0 });
//! assert_eq!(call.phase(), RouteKind::Locate);
//! assert_eq!(call.step(), Step::Entered(RouteKind::Ring));
//! assert_eq!(call.operation().rings, 1);
//! assert_eq!(call.step(), Step::Waits("an event: Answer".into()));
//! call.clock().advance(Duration::from_secs(32));
//! assert_eq!(call.step(), Step::Entered(RouteKind::Missed));
//! assert_eq!(call.step(), Step::Ended);
//! ```

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{
    clock::TestClock,
    extension,
    locality::Home,
    operation::Operation,
    runtime::{BuildError, Builder, FomRef, Handle, Runtime, end_by_hand},
    typed::{self, Ended, Failure},
};
use fom_protocol::sync::Mutex;

/// What one step of a [`Stepper`] did. `K` has the names of the phases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<K> {
    /// The operation entered this phase. Its function has not run yet.
    Entered(K),
    /// The function of the phase failed with this error, and the phase is tried again after a pause.
    TriedAgain(String),
    /// The operation waits for this, in the words of the listing.
    Waits(String),
    /// The operation has ended in an end phase.
    Ended,
    /// The operation has failed, with this cause.
    Failed(String),
}

/// One operation that a test steps by hand.
///
/// [`step`](Self::step) calls one phase function, on the calling thread, also in an async or a blocking phase. Between
/// two steps the test looks at the phase and at the operation, sends events, and moves the clock.
///
/// A phase function that blocks until another operation of the same runtime goes on never returns: there is no other
/// thread.
pub struct Stepper<O: Operation> {
    runtime: Runtime,
    home: Home,
    clock: TestClock,
    handle: Handle<O>,
    end: Option<Step<O::Kind>>,
    outcome: Option<Result<Ended<O>, Failure<O>>>,
    seen: Arc<Mutex<Seen<O>>>,
    /// The steps belong to one thread.
    _here: PhantomData<*const ()>,
}

/// What the listeners have heard.
struct Seen<O: Operation> {
    steps: VecDeque<Step<O::Kind>>,
    phase: O::Kind,
    operation: O,
}

impl<O: Operation> fmt::Debug for Stepper<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stepper({})", self.handle.phase())
    }
}

impl<O: Operation + Clone> Stepper<O> {
    /// Returns a stepper before the first phase function of the operation. Its runtime has no resources.
    ///
    /// # Panics
    ///
    /// Panics if the system gives the runtime no event queue, and in async code or on a thread that runs foms.
    pub fn new(operation: O) -> Self {
        match Self::with(Builder::default(), operation) {
            Ok(stepper) => stepper,
            Err(error) => panic!("no runtime for the test: {error}"),
        }
    }

    /// As [`new`](Self::new), with the resources, the locality data and the listeners of a builder. The stepper sets
    /// the threads, the localities and the clock itself, and opens no journal.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError`] as [`Builder::build`] does.
    ///
    /// # Panics
    ///
    /// Panics if a listener of the builder refuses the operation, and in async code or on a thread that runs foms.
    pub fn with(builder: Builder, operation: O) -> Result<Self, BuildError> {
        assert_plain_thread();
        let clock = TestClock::new();
        let seen = Arc::new(Mutex::new(Seen {
            steps: VecDeque::new(),
            phase: O::kind(&O::start()),
            operation: operation.clone(),
        }));
        let (moved, failed) = (Arc::clone(&seen), Arc::clone(&seen));
        let runtime = builder
            .by_hand()
            .clock(&clock)
            .listen_to::<O>(move |transition| {
                let mut seen = moved.lock();
                seen.operation = transition.operation().clone();
                let Some(phase) = transition.phase() else {
                    return;
                };
                seen.phase = O::kind(phase);
                if transition.from().is_some() {
                    let entered = Step::Entered(seen.phase);
                    seen.steps.push_back(entered);
                }
            })
            .listen_to_failures(move |attempt| {
                if attempt.next().is_some() {
                    let again = Step::TriedAgain(attempt.error().to_owned());
                    failed.lock().steps.push_back(again);
                }
            })
            .build()?;
        let home = Home::new(runtime.shared.env.owned(), 0);
        let handle = match runtime.submit(operation).start() {
            Ok(handle) => handle,
            Err(refused) => panic!("the runtime of the test refused the operation: {refused}"),
        };
        Ok(Self {
            runtime,
            home,
            clock,
            handle,
            end: None,
            outcome: None,
            seen,
            _here: PhantomData,
        })
    }

    /// Returns a copy of the operation, as the last transition left it. What a function did since then, before it
    /// returned, is not in it.
    pub fn operation(&self) -> O {
        self.seen.lock().operation.clone()
    }
}

impl<O: Operation> Stepper<O> {
    /// Runs until one phase function has returned, or the operation waits or has ended. An event wakes a waiting phase,
    /// and so do the clock, an answer and a cancel. Other operations of the runtime run meanwhile.
    ///
    /// # Panics
    ///
    /// Panics in async code, and on a thread that runs foms: a test steps in a plain thread.
    pub fn step(&mut self) -> Step<O::Kind> {
        assert_plain_thread();
        loop {
            if let Some(step) = self.seen.lock().steps.pop_front() {
                return step;
            }
            if let Some(end) = self.end() {
                return end;
            }
            if !self.home.run_one_by_hand() {
                return self.seen.lock().steps.pop_front().unwrap_or_else(|| {
                    let info = self.runtime.operation(self.handle.id());
                    let waits = info.and_then(|info| info.waiting_for());
                    Step::Waits(waits.unwrap_or_default())
                });
            }
        }
    }

    /// Returns how the operation has ended, if it has.
    fn end(&mut self) -> Option<Step<O::Kind>> {
        if self.end.is_none() {
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(outcome) = Pin::new(&mut self.handle).poll(&mut cx) else {
                return None;
            };
            self.end = Some(match &outcome {
                Ok(_) => Step::Ended,
                Err(failure) => Step::Failed(typed::text::<O>(&failure.cause)),
            });
            self.outcome = Some(outcome);
        }
        self.end.clone()
    }

    /// Returns the phase that the operation is in.
    pub fn phase(&self) -> O::Kind {
        self.seen.lock().phase
    }

    /// Returns the clock, which the test moves.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Returns the address of the operation, to send events to it and to cancel it.
    pub fn fom(&self) -> &FomRef<O> {
        self.handle.fom()
    }

    /// Returns the runtime that the phase functions see.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the outcome, once, if the operation has ended.
    pub fn take_outcome(&mut self) -> Option<Result<Ended<O>, Failure<O>>> {
        self.end();
        self.outcome.take()
    }
}

/// The end of a locality needs a thread that runs it.
impl<O: Operation> Drop for Stepper<O> {
    fn drop(&mut self) {
        end_by_hand(&self.runtime);
        if std::thread::panicking() || !is_plain_thread() {
            return;
        }
        while self.home.run_one_by_hand() {}
    }
}

fn is_plain_thread() -> bool {
    !extension::runs_foms() && tokio::runtime::Handle::try_current().is_err()
}

fn assert_plain_thread() {
    assert!(
        is_plain_thread(),
        "a stepper runs in a plain thread; move it out of the async code, into a `#[test]` without a runtime"
    );
}
