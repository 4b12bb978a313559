//! A library keeps its phases to itself: its operation is public, and its enum is private, or visible in the crate only.
#![deny(
    warnings,
    private_bounds,
    private_interfaces,
    unnameable_types,
    unreachable_pub
)]

use std::future::IntoFuture;
use std::marker::PhantomData;

mod call {
    use fom_runtime::prelude::*;

    pub struct Call {
        pub rings: u32,
    }

    #[fom(operation(Call), transient)]
    enum Route {
        #[phase(start, to(Ring))]
        Locate,
        #[phase(to(Ring, Connected, Lost), within = "1h", late, retry = "3, 1ms..10ms")]
        Ring { callee: Callee },
        #[phase(end)]
        Connected { callee: Callee },
        #[phase(end, failure)]
        Lost,
    }

    /// As private as the enum.
    struct Callee(u32);

    impl RouteTransitions for Call {
        async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
            let callee = Callee(self.rings);
            Ok(RouteAfterLocate::Ring { callee })
        }

        async fn ring(
            &mut self,
            _: &mut Cx<'_>,
            callee: &mut Callee,
        ) -> Result<RouteAfterRing, BoxError> {
            let callee = Callee(callee.0);
            Ok(match self.rings {
                0 => RouteAfterRing::Connected { callee },
                _ => {
                    self.rings -= 1;
                    RouteAfterRing::Ring { callee }
                }
            })
        }

        async fn ring_late(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut Callee,
        ) -> Result<RouteAfterRing, BoxError> {
            Ok(RouteAfterRing::Lost)
        }
    }

    /// The caller sees a number, and no phase.
    pub fn callee(ended: fom_runtime::submission::Ended<Call>) -> Option<u32> {
        assert_eq!(ended.kind(), RouteKind::Connected);
        assert_eq!(Call::index(RouteKind::Lost), 3);
        match ended.end {
            RouteEnd::Connected { callee } => Some(callee.0),
            RouteEnd::Lost => None,
        }
    }

    /// The phase is the enum itself.
    pub fn starts_with_locate() -> bool {
        let start: <Call as Operation>::Phase = Call::start();
        matches!(start, Route::Locate)
    }
}

pub mod public {
    pub mod saved {
        use fom_runtime::prelude::*;
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize)]
        pub struct Count<T>(pub T);

        #[fom(operation(Count<T>))]
        pub(in crate::public) enum Counting<T: Clone + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static> {
            #[phase(start, to(Done))]
            Add,
            #[phase(end)]
            Done { value: T },
        }

        impl<T> CountingTransitions<T> for Count<T>
        where
            T: Clone + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
        {
            async fn add(&mut self, _: &mut Cx<'_>) -> Result<CountingAfterAdd<T>, BoxError> {
                Ok(CountingAfterAdd::Done {
                    value: self.0.clone(),
                })
            }
        }
    }

    pub fn value(ended: fom_runtime::submission::Ended<saved::Count<u8>>) -> u8 {
        let saved::CountingEnd::Done { value } = ended.end;
        value
    }
}

pub use call::{Call, callee, starts_with_locate};

pub struct Guarded<R> {
    pub request: R,
    pub of: PhantomData<u8>,
}

#[fom_runtime::fom(operation(Guarded<R>), around(R), transient)]
enum Guard<R: fom_runtime::Operation<Event = fom_runtime::machine::NoEvent> + Sync> {
    #[phase(start, to(Serve))]
    Authorise,
    #[phase(inner(request))]
    Serve { phase: R::Phase },
}

impl<R: fom_runtime::Operation<Event = fom_runtime::machine::NoEvent> + Sync> GuardTransitions<R>
    for Guarded<R>
{
    async fn authorise(
        &mut self,
        _: &mut fom_runtime::Cx<'_>,
    ) -> Result<(), fom_runtime::error::BoxError> {
        Ok(())
    }
}

fn now<F: IntoFuture>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future.into_future())
}

fn main() {
    assert!(starts_with_locate());
    let runtime = fom_runtime::Runtime::new().expect("a runtime");
    let call = now(runtime.submit(Call { rings: 2 })).expect("it ends");
    assert_eq!(callee(call), Some(2));
    let count = now(runtime.submit(public::saved::Count(7))).expect("it ends");
    assert_eq!(public::value(count), 7);
    let request = Call { rings: 0 };
    let guarded = Guarded {
        request,
        of: PhantomData,
    };
    let guarded = now(runtime.submit(guarded)).expect("it ends");
    let GuardEnd::Serve { .. } = guarded.end;
}
