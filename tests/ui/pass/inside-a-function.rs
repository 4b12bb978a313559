//! A machine that only one function knows.
fn main() {
    use fom_runtime::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Call;

    #[derive(Serialize, Deserialize)]
    struct Endpoint(u32);

    #[fom(operation(Call))]
    enum Route {
        #[phase(start, to(Ring, Rejected))]
        Locate,
        #[phase(to(Rejected), blocking)]
        Ring { endpoint: Endpoint },
        #[phase(end, failure)]
        Rejected,
    }

    impl RouteTransitions for Call {
        async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
            Ok(RouteAfterLocate::Ring {
                endpoint: Endpoint(1),
            })
        }
        fn ring(
            &mut self,
            _: &mut BlockingCx<'_>,
            endpoint: &mut Endpoint,
        ) -> Result<(), BoxError> {
            endpoint.0 += 1;
            Ok(())
        }
    }

    assert_eq!(Call::GRAPH.phases().len(), 3);
}
