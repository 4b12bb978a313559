//! Which fom submitted which, as foms carry it.

use fom_runtime::{Builder, FomId, extension::current_fom};
use serde::{Deserialize, Serialize};

/// The fom that submitted a fom. `None`: other code submitted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parent(pub(crate) Option<FomId>);

/// Lets each fom carry the id of the fom that submitted it, so that the inspector shows the parent and the children of a
/// fom.
///
/// ```
/// use fom_inspect::{Inspector, ParentsExt};
/// use fom_runtime::prelude::*;
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::builder().parents().build()?;
/// let inspector = Inspector::new(&runtime).bind("127.0.0.1:0").start()?;
/// # drop(inspector);
/// # Ok(())
/// # }
/// ```
pub trait ParentsExt {
    /// Adds the id of the parent to what each fom [carries](Builder::carry), under the name `parent`. With a journal, the
    /// id is saved with the fom. The operations of keyed streams have no parent. If a fom of another runtime submits a fom,
    /// the parent is an id of that runtime.
    ///
    /// # Errors
    ///
    /// [`build`](Builder::build) fails with [`SameName`](fom_runtime::error::BuildError::SameName) if the foms carry another
    /// type with this name.
    #[must_use]
    fn parents(self) -> Self;
}

impl ParentsExt for Builder {
    fn parents(self) -> Self {
        self.carry("parent", |_: Option<&Parent>| {
            Parent(current_fom().map(|fom| fom.id()))
        })
    }
}
