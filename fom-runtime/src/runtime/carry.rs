//! Values that each fom carries: how a program adds them, and how a new fom gets them.

use std::sync::Arc;

use crate::{
    fom::{Carried, KeptValues},
    incident::IncidentKind,
    operation::Operation,
    runtime::{Builder, Shared, Submission, extension::Extension},
    savable::Savable,
};

/// What a new fom carries.
pub(super) struct NewCarried {
    pub(super) values: Arc<Carried>,
    /// The values as the record of the fom keeps them.
    pub(super) saved: KeptValues,
}

impl Builder {
    /// Gives each fom a value of this type, such as the tenant, the context of a trace, or a budget. `make` makes the
    /// value of a new fom from the value of the fom that submits it. Outside a fom, it gets `None`. It runs on the thread
    /// that submits, and must not block. A panic of `make` reaches the caller, and nothing is submitted; in a keyed stream it is an
    /// [incident](crate::observe::IncidentKind::Panicked), and the operation carries nothing.
    ///
    /// Each operation that a fom starts inherits so: through [`Cx::submit`](crate::Cx::submit), in a team, as a call of a
    /// service, in an outbox, through an admission. The operations of keyed streams inherit nothing: `make` gets `None`.
    /// [`Submission::carrying`] gives a fom another value. [`Cx::carried`](crate::Cx::carried) and
    /// [`Transition::carried`](crate::observe::Transition::carried) read it. The value of a fom does not change.
    ///
    /// With a journal, the value is saved with the fom under this name, and the fom has it again after a restart. A fom of
    /// an earlier release, which has no such value, gets the one that is made without a submitter. A value that this release
    /// does not know stays with its fom in the journal.
    ///
    /// A second call for the same type replaces the first. Foms of a runtime without this call pay nothing for it.
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    /// struct Tenant(String);
    ///
    /// struct Bill;
    ///
    /// #[fom(operation(Bill), transient)]
    /// enum Billing {
    ///     #[phase(start, to(Billed))]
    ///     Charge,
    ///     #[phase(end)]
    ///     Billed { tenant: Option<Tenant> },
    /// }
    ///
    /// impl BillingTransitions for Bill {
    ///     async fn charge(&mut self, cx: &mut Cx<'_>) -> Result<BillingAfterCharge, BoxError> {
    ///         let tenant = cx.carried::<Tenant>().map(|tenant| (*tenant).clone());
    ///         Ok(BillingAfterCharge::Billed { tenant })
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), BoxError> {
    /// let runtime = Runtime::builder()
    ///     .carry("tenant", |submitter: Option<&Tenant>| submitter.cloned().unwrap_or_default())
    ///     .build()?;
    /// let bill = runtime.submit(Bill).carrying(Tenant("acme".into())).wait()?;
    /// let BillingEnd::Billed { tenant } = bill.end;
    /// assert_eq!(tenant, Some(Tenant("acme".into())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails with [`BuildError::SameName`](crate::error::BuildError::SameName) if two types have the same
    /// name.
    pub fn carry<T: Savable + Send + Sync + 'static>(
        mut self,
        name: &'static str,
        make: impl Fn(Option<&T>) -> T + Send + Sync + 'static,
    ) -> Self {
        self.carriers.add(name, make);
        self
    }
}

impl<O: Operation> Submission<'_, O> {
    /// Gives the fom this value to carry, in place of the one that [`Builder::carry`] makes.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without [`Builder::carry`] for this type: the value would be lost.
    pub fn carrying<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        check::<T>(self.shared.env.carriers().carry::<T>());
        let given = self.special().carried.get_or_insert_default();
        Arc::make_mut(given).set(value);
        self
    }

    /// Gives the fom what an earlier [`Extension::inherit`] returned.
    pub fn inherited(mut self, inherited: Inherited) -> Self {
        if inherited.0.is_some() {
            self.special().carried = inherited.0;
        }
        self
    }

    /// Makes what the fom carries now, on the thread of the fom that submits it, and not when it is started.
    pub(crate) fn inherit(&mut self) {
        if !self.shared.env.carriers().is_empty() {
            let given = self.special().carried.take();
            self.special().carried = self.shared.env.carried(given.as_ref());
        }
    }

    /// Returns what the submission says that the fom carries.
    pub(crate) fn carried(&self) -> Option<&Carried> {
        self.special.as_ref()?.carried.as_deref()
    }

    /// Returns what the fom carries, and saves it if `keeps`. Calls user code.
    pub(super) fn new_carried(&self, keeps: bool) -> Option<Box<NewCarried>> {
        let given = self.special.as_ref().and_then(|it| it.carried.as_ref());
        new_carried(self.shared, given, keeps, O::GRAPH.operation())
    }
}

/// What a new fom will carry. A package that starts an operation later than its caller submits it keeps this meanwhile.
#[derive(Clone, Default)]
pub struct Inherited(Option<Arc<Carried>>);

impl Inherited {
    /// Sets a value, as [`Submission::carrying`] does.
    ///
    /// # Panics
    ///
    /// Panics like [`Submission::carrying`].
    pub fn carry<T: Send + Sync + 'static>(&mut self, value: T) {
        let values = self.0.as_mut().filter(|values| values.get::<T>().is_some());
        check::<T>(values.is_some());
        if let Some(values) = values {
            Arc::make_mut(values).set(value);
        }
    }
}

/// Panics if a value of this type would be lost.
fn check<T>(is_carried: bool) {
    assert!(
        is_carried,
        "the foms carry no value of type `{0}`; add it with `Builder::carry`",
        std::any::type_name::<T>()
    );
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inherited").field(&self.0.is_some()).finish()
    }
}

impl Extension<'_> {
    /// Returns what a fom carries that is submitted now, for [`Submission::inherited`]. Calls what
    /// [`Builder::carry`] was given.
    pub fn inherit(self) -> Inherited {
        Inherited(self.runtime.shared.env.carried(None))
    }
}

/// Returns what a new fom carries, and saves it if `keeps`. Calls user code.
#[inline]
pub(super) fn new_carried(
    shared: &Shared,
    given: Option<&Arc<Carried>>,
    keeps: bool,
    operation: &'static str,
) -> Option<Box<NewCarried>> {
    let values = shared.env.carried(given)?;
    let saved = match keeps {
        true => save(shared, &values, operation),
        false => KeptValues::new(),
    };
    Some(Box::new(NewCarried { values, saved }))
}

/// Saves what a new fom carries. An error is an incident, because the fom can go on without a restart.
#[cold]
pub(crate) fn save(shared: &Shared, values: &Carried, operation: &'static str) -> KeptValues {
    shared.env.carriers().save(values, |name, error| {
        let text = format!(
            "what a {operation} carries as `{name}` cannot be saved, and is made anew after a restart: {error}"
        );
        shared.env.report(IncidentKind::Lost, operation, text);
    })
}
