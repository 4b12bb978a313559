//! All generated items have docs.
#![deny(missing_docs)]

/// A call.
pub mod call {
    use fom_runtime::prelude::*;

    /// A call on its way.
    #[derive(Debug)]
    pub struct Call;

    /// The way of a call.
    #[fom(operation(Call), transient)]
    pub enum Route {
        /// Ask the locator.
        ///
        /// It answers in a second.
        #[phase(start, to(Ring, Rejected), within = "2s", late)]
        Locate,
        /// Ring it.
        #[phase(to(Rejected))]
        Ring {
            /// Where it is.
            endpoint: u32,
        },
        /// Nothing was found.
        #[phase(end, failure)]
        Rejected,
    }

    impl RouteTransitions for Call {
        async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
            Ok(RouteAfterLocate::Ring { endpoint: 1 })
        }
        async fn locate_late(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
            Ok(RouteAfterLocate::Rejected)
        }
        async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u32) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

fn main() {
    use fom_runtime::Operation;
    assert_eq!(call::Call::GRAPH.docs(), "The way of a call.");
    assert_eq!(
        call::Call::GRAPH.phases()[0].docs(),
        "Ask the locator.\n\nIt answers in a second."
    );
}
