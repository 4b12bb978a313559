//! Conditions that are checked before the function of a phase runs.

use std::{
    any::Any,
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use crate::error::BoxError;

/// A condition that is checked before the function of a phase runs.
///
/// A phase with the key `gate` has a second function, `<phase>_gate`, which returns a gate. The runtime calls it once
/// in each visit, and then polls the gate with [`poll_open`](Self::poll_open). The function of the phase runs when the
/// gate is open. `within` includes this wait, and a cancel ends it.
///
/// The fom keeps the open gate as long as it stays in the phase: over errors and their retries, events, waits and
/// commits. So a gate can hold something, such as a lock. If the next phase has a gate, that gate gets this one with
/// [`follow`](Self::follow). Otherwise, and when the fom ends, the runtime drops this gate.
///
/// The functions for a late, exhausted or failed visit do not wait for the gate. One exception: after a restart, the
/// late function of a fom that [held](Self::is_held) its gate waits until the gate is open again.
///
/// A panic in [`stop`](Self::stop), [`is_held`](Self::is_held) or the drop of a gate is reported as an incident, and
/// the fom goes on. A gate that panics in `is_held` counts as held.
///
/// ```
/// use std::task::{Context, Poll};
///
/// use fom_runtime::{extension::{Gate, GateError}, prelude::*};
///
/// /// Lets a phase run at once, or not at all.
/// struct Licence(bool);
///
/// impl Gate for Licence {
///     fn poll_open(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GateError>> {
///         Poll::Ready(match self.0 {
///             true => Ok(()),
///             false => Err(GateError::new("licence", "there is no licence")),
///         })
///     }
/// }
///
/// struct Report {
///     licensed: bool,
/// }
///
/// #[fom(operation(Report), transient)]
/// enum Reporting {
///     #[phase(start, sync, gate, to(Done))]
///     Print,
///     #[phase(end)]
///     Done,
/// }
///
/// impl ReportingTransitions for Report {
///     fn print_gate(&self, _: &Cx<'_>) -> impl Gate {
///         Licence(self.licensed)
///     }
///
///     fn print(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// runtime.submit(Report { licensed: true }).start()?.wait()?;
/// let failure = runtime.submit(Report { licensed: false }).start()?.wait().unwrap_err();
/// assert_eq!(failure.cause.to_string(), "there is no licence");
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no gate",
    label = "this is no gate",
    note = "return a type that implements `fom_runtime::extension::Gate`; `()` is open"
)]
pub trait Gate: Any + Send {
    /// Returns whether the function of the phase may run. The waker of `cx` wakes the fom.
    ///
    /// Runs on a thread that runs foms, so it must not block. The runtime does not call it again after it has returned
    /// `Ok`. Before a gate returns `Pending`, it [records](crate::extension::WaitKind::record) what listings show.
    ///
    /// # Errors
    ///
    /// With an error the visit fails with [`Cause::Gate`](crate::Cause::Gate).
    ///
    /// # Panics
    ///
    /// A panic counts as a panic of the phase function.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GateError>>;

    /// Takes over from the gate of the previous phase. The runtime calls this before the first
    /// [`poll_open`](Self::poll_open). The previous gate may have another type. Default: drops it.
    fn follow(&mut self, before: Box<dyn Gate>) {
        drop(before);
    }

    /// Stops the wait, because the phase is late or the fom ends. If the runtime later makes another gate for this
    /// visit, that gate [follows](Self::follow) this one. Default: does nothing.
    fn stop(&mut self) {}

    /// Returns whether a restart must keep other foms out until this gate is open again. Default: `false`.
    ///
    /// A journal keeps the answer with each transition. After a restart, the foms that answered `true` poll their gates
    /// before any other fom runs. If a transition cannot be committed, the fom ends. Its gate then stays until
    /// the transition is committed.
    fn is_held(&self) -> bool {
        false
    }
}

/// A gate that is open.
impl Gate for () {
    fn poll_open(&mut self, _: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        Poll::Ready(Ok(()))
    }
}

/// The reason why a [`Gate`] never opens. `Display` writes the error of the gate.
#[derive(Clone)]
pub struct GateError {
    gate: &'static str,
    error: Arc<dyn Error + Send + Sync>,
}

impl GateError {
    /// Returns an error of a gate with this name, which is one word, such as `locks`.
    pub fn new(gate: &'static str, error: impl Into<BoxError>) -> Self {
        Self {
            gate,
            error: error.into().into(),
        }
    }

    /// Returns the name of the gate.
    pub fn gate(&self) -> &'static str {
        self.gate
    }

    /// Returns the error of the gate, if it has this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Debug for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for GateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
