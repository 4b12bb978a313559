//! Submits from inside a locality, as a server's own operations do. That is the cheapest place for every peer.

use fom_runtime::{prelude::*, submission::Now};

use crate::machines::{AsyncChain, Chain, Go, Parked, Timed, to_the_tail};

/// Operations in flight at a time.
const WINDOW: u64 = 512;

/// What the generator submits, and what it does with the operations.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    /// Sync operations of so many phases, until they have ended.
    Chains(u64),
    /// The same, one after the other: each is awaited.
    ChainsAwaited(u64),
    /// The same, one after the other in place.
    ChainsNow(u64),
    /// The same with async operations.
    AsyncChains(u64),
    /// Operations that wait for an event.
    Parked,
    /// The same, and they get the event.
    ParkedGo,
    /// Operations that wait for an event or a deadline.
    Timed,
    /// The same, and they get the event.
    TimedGo,
}

pub(crate) struct Generator {
    pub(crate) load: Load,
    pub(crate) left: u64,
}

#[fom(operation(Generator), transient)]
pub(crate) enum Generate {
    #[phase(start, to(Generated))]
    Submit,
    #[phase(end)]
    Generated,
}

impl GenerateTransitions for Generator {
    async fn submit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let runtime = cx.runtime();
        match self.load {
            Load::Chains(left) => self.run(&runtime, || Chain { word: 1, left }).await,
            Load::ChainsAwaited(left) => {
                for _ in 0..self.left {
                    assert!(cx.submit(Chain { word: 1, left }).await.is_ok());
                }
            }
            Load::ChainsNow(left) => {
                for _ in 0..self.left {
                    let ran = cx.submit(Chain { word: 1, left }).now();
                    assert!(matches!(ran, Ok(Now::Ended(Ok(_)))));
                }
            }
            Load::AsyncChains(left) => {
                let one = || AsyncChain(Chain { word: 1, left });
                self.run(&runtime, one).await
            }
            Load::Parked => self.park(&runtime, || Parked, false).await,
            Load::ParkedGo => self.park(&runtime, || Parked, true).await,
            Load::Timed => self.park(&runtime, || Timed, false).await,
            Load::TimedGo => self.park(&runtime, || Timed, true).await,
        }
        Ok(())
    }
}

impl Generator {
    fn windows(&self) -> impl Iterator<Item = u64> + use<> {
        let left = self.left;
        (0..left.div_ceil(WINDOW)).map(move |n| WINDOW.min(left - n * WINDOW))
    }

    /// Waits only for the last operation of a window. Those before it have ended by then, since they run first in,
    /// first out.
    async fn run<O: Operation>(&self, runtime: &Runtime, one: impl Fn() -> O) {
        for window in self.windows() {
            for _ in 1..window {
                assert!(runtime.submit(one()).detach().is_ok());
            }
            assert!(start(runtime, one()).await.is_ok());
        }
    }

    async fn park<O: Operation<Event = Go>>(
        &self,
        runtime: &Runtime,
        one: impl Fn() -> O,
        go: bool,
    ) {
        let mut all = Vec::with_capacity(self.left as usize);
        for window in self.windows() {
            for _ in 0..window {
                all.push(start(runtime, one()));
            }
            to_the_tail().await;
        }
        if go {
            for window in all.chunks(WINDOW as usize) {
                for parked in window {
                    assert!(parked.send(Go::Go).is_ok());
                }
                to_the_tail().await;
            }
        }
        // The end of the process frees the handles: `Parked` must not pay for that, either.
        std::mem::forget(all);
    }
}

fn start<O: Operation>(runtime: &Runtime, operation: O) -> Handle<O> {
    match runtime.submit(operation).start() {
        Ok(handle) => handle,
        Err(refused) => panic!("refused: {:?}", refused.reason()),
    }
}
