//! Two releases of an operation. The second cannot read what the first saved.

use fom_runtime::{error::BoxError, prelude::*};
use serde::{Deserialize, Serialize};

use crate::kit::Log;

/// What a parcel is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The parcel may go on.
    Go,
    /// A number to remember.
    Note(u32),
}

pub(crate) mod before {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(crate) struct Parcel {
        pub(crate) name: String,
    }

    #[fom(operation(Parcel), event(Word))]
    pub(crate) enum Depot {
        #[phase(start, to(Check), on(Go))]
        Pack,
        #[phase(to(Done), on(Note))]
        Check,
        #[phase(end)]
        Done,
    }

    impl DepotTransitions for Parcel {
        async fn pack(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            cx.resource::<Log>()
                .put(format_args!("{} is packed", self.name));
            cx.event().await;
            Ok(())
        }
        async fn check(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            let event = cx.event().await;
            cx.resource::<Log>()
                .put(format_args!("{} has {event:?}", self.name));
            Ok(())
        }
    }
}

/// A release that forgot that a parcel has a name.
pub(crate) mod careless {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(crate) struct Delivery {
        number: u32,
    }

    #[fom(operation(Delivery, was = "Parcel"), was = "Depot", event(Word))]
    pub(crate) enum Desk {
        #[phase(start, to(Check), on(Go))]
        Pack,
        #[phase(to(Done), on(Note))]
        Check,
        #[phase(end)]
        Done,
    }

    impl DeskTransitions for Delivery {
        async fn pack(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            Ok(())
        }
        async fn check(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            Ok(())
        }
    }
}
