//! The traits that `#[fom]` implements for a declaration.
//!
//! Hidden items in this folder are for generated code.

mod describe;
mod events;
mod form;
mod persistent;
mod phase_future;
mod types;

use std::{fmt, time::Duration};

pub use describe::{ByBox, ByDebug, ByDisplay, ByError, ByType, Describe, Described, Told};
pub use events::{EventReader, Events, Readable, Unreadable};
pub use form::{AsyncOperation, Asynchronous, At, SyncOperation, Synchronous, Unfinished};
pub(crate) use form::{Build, Form};
pub use persistent::{Codec, Loaded, MaybeCodec, Persistent, codec};
pub(crate) use persistent::{kept_codec, load};
pub use phase_future::PhaseFuture;
pub use types::{OwnTypes, Types};

use crate::{
    fom::RunningFom,
    gate::Gate,
    graph::{Graph, Retry},
};

/// An operation with its machine. `#[fom]` implements this trait; do not implement it by hand.
///
/// The required items of this trait are for generated code only, and may change in any release. No `unsafe` code relies
/// on what an implementation returns. The runtime borrows none of its own state while it calls these functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operation: no machine is declared for it",
    label = "no `#[fom(operation({Self}))]` enum",
    note = "declare its phases: `#[fom(operation({Self}))] enum ... {{ ... }}`"
)]
pub trait Operation: Sized + Send + 'static {
    /// The enum of phases, with their data.
    type Phase: Send + 'static;
    /// The enum of the ends, with their data.
    type End: Send + 'static;
    /// The names of the phases, without data.
    type Kind: Copy + Eq + fmt::Debug + Send + Sync + 'static;
    /// The error of the phase functions.
    type Error: Send + 'static;
    /// The events that can be sent to a fom.
    type Event: Send + 'static;
    /// What a fom of this operation is made of.
    #[doc(hidden)]
    type Form: Form<Self>;

    /// The phases, edges, flags and docs.
    const GRAPH: &'static Graph;
    /// The codec of a persistent operation; `None` for a transient one.
    #[doc(hidden)]
    const CODEC: Option<Codec<Self>> = None;
    /// When a transition counts as done, if there is a journal: `#[fom(durability = "..")]`.
    const DURABILITY: Durability = match Self::CODEC {
        Some(_) => Durability::Sync,
        None => Durability::None,
    };

    /// Whether the journal keeps an operation that fails, so that a later release can try it again. With
    /// `#[fom(failed = "forget")]` it does not.
    const KEEPS_FAILED: bool = true;

    /// Whether a fom that comes back carries along the fields that this release does not know: `#[fom(unknown = "keep")]`.
    /// Otherwise such a fom waits in quarantine for a release that knows them.
    const KEEPS_UNKNOWN: bool = false;

    /// Tells what is known of an error, as far as its type tells it.
    #[doc(hidden)]
    const DESCRIBE: Describe<Self> = describe::by_default::<Self::Error>;
    #[doc(hidden)]
    const START: Self::Phase;
    #[doc(hidden)]
    const INDEX: fn(Self::Kind) -> usize;

    /// Returns the phase of a new fom.
    fn start() -> Self::Phase {
        Self::START
    }
    /// Returns the name of a phase.
    fn kind(phase: &Self::Phase) -> Self::Kind;
    /// Returns the name of the phase with this index.
    #[doc(hidden)]
    fn kind_at(index: usize) -> Self::Kind;
    /// Returns the end with the data of its phase, or `None` if the phase is no end.
    fn end(phase: Self::Phase) -> Option<Self::End>;
    /// Returns the index of a phase in [`Graph::phases`](crate::machine::Graph).
    fn index(kind: Self::Kind) -> usize {
        Self::INDEX(kind)
    }
    /// Whether a phase takes this event. An event that the phase does not take is kept for a later phase.
    fn takes(kind: Self::Kind, event: &Self::Event) -> bool {
        let _ = (kind, event);
        false
    }
    /// Returns how long a fom may stay in this phase, if a function of the phase sets this time.
    #[doc(hidden)]
    fn asked_within(
        &self,
        phase: &Self::Phase,
        fom: RunningFom<'_, Self::Event>,
    ) -> Option<Duration> {
        let _ = (phase, fom);
        None
    }
    /// Returns how often this phase is tried again, if a function of the phase sets this number.
    #[doc(hidden)]
    fn asked_retry(&self, phase: &Self::Phase, fom: RunningFom<'_, Self::Event>) -> Option<Retry> {
        let _ = (phase, fom);
        None
    }
    /// Returns the gate of this phase, if it has one.
    #[doc(hidden)]
    fn gate(&self, phase: &Self::Phase, fom: RunningFom<'_, Self::Event>) -> Option<Box<dyn Gate>> {
        let _ = (phase, fom);
        None
    }
    /// Calls `resume` of the transitions. The runtime calls it once after it restored a fom from a record, before the
    /// function of the phase runs again.
    #[doc(hidden)]
    fn resumed(&mut self, at: At<'_, '_, Self::Phase, Self::Event>) -> Resumed<Self> {
        let _ = at;
        Ok(())
    }
}

/// When a transition counts as done, if there is a journal.
///
/// Declared for the operation: `#[fom(durability = "lazy")]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// A transition is done when it is on disk, before the next phase begins. A crash loses nothing that was reported.
    Sync,
    /// A transition is done at once, and on disk soon after. A crash can lose the transitions of the last 50 ms, and of
    /// the time that the write in progress has taken. The fom then continues from an earlier phase, or is gone if it
    /// began in that time. When the fom repeats the lost transitions, it also sends their messages again.
    Lazy,
    /// A transition is done at once, and never written. A crash loses the fom.
    None,
}

/// The result of a step: the next phase, or `None` if the fom stays in this visit and waits for the next event.
#[doc(hidden)]
pub type Stepped<O> = Result<Option<<O as Operation>::Phase>, <O as Operation>::Error>;

/// The result of `resume` for a restored fom.
#[doc(hidden)]
pub type Resumed<O> = Result<(), <O as Operation>::Error>;

/// Returns the gate of a phase, as [`Operation::gate`] does.
#[doc(hidden)]
pub fn gate(gate: impl Gate) -> Option<Box<dyn Gate>> {
    Some(Box::new(gate))
}

/// Panics if the invariant of a phase does not hold.
#[doc(hidden)]
pub fn holds(holds: bool, phase: &str) {
    assert!(holds, "the invariant of phase `{phase}` does not hold");
}

/// Goes to this phase.
#[doc(hidden)]
#[inline]
pub fn go<P, E>(phase: P) -> Result<Option<P>, E> {
    Ok(Some(phase))
}

/// Goes to this phase, if the step succeeded.
#[doc(hidden)]
#[inline]
pub fn to<P, E>(done: Result<(), E>, phase: P) -> Result<Option<P>, E> {
    match done {
        Ok(()) => Ok(Some(phase)),
        Err(error) => {
            // The phase was never entered, so a user's `Drop` must not see it. The phase has no data that could leak.
            std::mem::forget(phase);
            Err(error)
        }
    }
}

/// Takes the phase with its data. The start stands in for it until the function of the phase has returned, because the
/// start has no data of its own.
#[doc(hidden)]
#[inline]
pub fn take_data<O: Operation>(phase: &mut O::Phase) -> O::Phase {
    std::mem::replace(phase, O::START)
}

/// Stays in the phase.
#[doc(hidden)]
#[inline]
pub fn stay<P, E>() -> Result<Option<P>, E> {
    Ok(None)
}
