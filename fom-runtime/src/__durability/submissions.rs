//! Submissions that durability makes, or that it answers.

use crate::{
    FomId, FomRef, Handle, Key, Operation, Persistent, Refused, Submission,
    error::RefusedReason,
    fom::{AnyRef, Header, KeptValues, Order},
    id::KeyOf,
    operation::kept_codec,
    runtime::{JoinedOutcome, Once, Recorded, Shared, StartOnce, save_carried},
    snapshot::SnapshotError,
    submission::{Placement, Priority},
    typed::{AtEnd, Ended, Failure, Outcome},
};

/// Prepares an operation that this fom submits through its outbox.
pub fn submission<O: Operation>(fom: &Header, operation: O) -> Submission<'_, O> {
    Submission::new(Shared::of(fom), operation)
}

/// As [`Submission::queue`], without a limit on how many wait.
pub fn queue_regardless<O: Operation>(submission: Submission<'_, O>) -> Submission<'_, O> {
    submission.queue_regardless()
}

/// Returns what the localities of the runtime share.
pub fn shared_for<'a, O: Operation>(submission: &Submission<'a, O>) -> &'a Shared {
    submission.shared
}

/// Returns the name of the series of the fom.
pub fn series_of<'a, O: Operation>(submission: &'a Submission<'_, O>) -> Option<&'a Key> {
    submission.series()
}

/// Returns the turn that the fom will need: that of its series, or of its key.
pub fn turn_of<O: Operation>(submission: &Submission<'_, O>) -> Option<KeyOf> {
    submission.turn()
}

/// Returns the key that the fom will have.
pub fn key_of<'a, O: Operation>(submission: &'a Submission<'_, O>) -> Option<&'a Key> {
    submission.key.as_ref()
}

/// Returns the index of the home, or `None` if the placement names a locality that does not exist.
pub fn home_index<O: Operation>(submission: &Submission<'_, O>) -> Option<usize> {
    let index = &submission.shared.key_index;
    submission.home(submission.home_name().map(|name| index.hash(name)))
}

/// The choices of a submission that its record keeps.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// Whether the submission chose the home, other than by the key.
    pub placed: bool,
    /// The priority.
    pub priority: Priority,
    /// What happens if the key is not free.
    pub order: Order,
    /// The deadline of the first phase, in nanoseconds after the submission.
    pub within: Option<u64>,
}

/// Returns what the submission chose.
pub fn choices<O: Operation>(submission: &Submission<'_, O>) -> Choices {
    let phase = &O::GRAPH.phases()[O::index(O::kind(&submission.phase))];
    Choices {
        placed: submission.placement.is_some(),
        priority: submission.priority,
        order: submission.order,
        within: phase.deadline().within().map(fom_protocol::nanos),
    }
}

/// Returns whether foms of this type are kept.
pub const fn is_kept<O: Operation>() -> bool {
    kept_codec::<O>().is_some()
}

/// Makes what the fom carries, on the thread of the fom that submits it. Calls user code.
pub fn inherit<O: Operation>(submission: &mut Submission<'_, O>) {
    submission.inherit();
}

/// Returns what the fom carries as a record keeps it. Calls user code.
pub fn save_carried_by<O: Operation>(submission: &Submission<'_, O>) -> KeptValues {
    let shared = submission.shared;
    match submission.carried() {
        Some(values) => save_carried(shared, values, O::GRAPH.operation()),
        None => KeptValues::new(),
    }
}

/// Appends operation and first phase. Does nothing if the type is not kept. Calls user code.
///
/// # Errors
///
/// Fails if the operation or the phase cannot be saved. Then the bytes are as before.
pub fn save_submission<O: Operation>(
    submission: &Submission<'_, O>,
    out: &mut Vec<u8>,
) -> Result<(), SnapshotError> {
    match kept_codec::<O>() {
        Some(codec) => (codec.save_body)(&submission.operation, &submission.phase, out),
        None => Ok(()),
    }
}

/// A submission apart from its runtime, until an outbox sends it.
pub struct Unsent<O: Operation> {
    operation: O,
    phase: O::Phase,
    key: Option<Key>,
    placement: Option<Placement>,
    priority: Priority,
    order: Order,
    special: Option<Box<crate::runtime::Special<O>>>,
}

impl<O: Operation> Unsent<O> {
    /// Takes a submission off its runtime.
    pub fn new(submission: Submission<'_, O>) -> Self {
        Self {
            operation: submission.operation,
            phase: submission.phase,
            key: submission.key,
            placement: submission.placement,
            priority: submission.priority,
            order: submission.order,
            special: submission.special,
        }
    }

    /// Starts the operation without a handle.
    ///
    /// # Errors
    ///
    /// Returns the operation if the runtime refuses it.
    pub fn send(self, shared: &Shared, recorded: Option<Recorded>) -> Result<(), Refused<O>> {
        let mut submission = Submission {
            shared,
            operation: self.operation,
            phase: self.phase,
            key: self.key,
            placement: self.placement,
            priority: self.priority,
            order: self.order,
            special: self.special,
        };
        submission.special().recorded = recorded;
        submission.launch_sent()
    }
}

impl<O: Operation> std::fmt::Debug for Unsent<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unsent")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Gives the submission an operation id. `start` starts it, unless an operation with the id was started before.
pub fn set_once<O: Persistent>(submission: &mut Submission<'_, O>, id: Key, start: StartOnce<O>) {
    submission.special().once = Some(Once { id, start });
}

/// Returns the operation id.
pub fn once_of<'a, O: Operation>(submission: &'a Submission<'_, O>) -> Option<&'a Key> {
    let once = submission.special.as_ref()?.once.as_ref();
    once.map(|once| &once.id)
}

/// Starts the operation, whether or not it has an id. Calls `began` with the fom before the handle is made.
///
/// # Errors
///
/// Returns the operation if the runtime refuses it.
pub fn start_now<O: Operation>(
    submission: Submission<'_, O>,
    began: impl FnOnce(AnyRef),
) -> Result<Handle<O>, Refused<O>> {
    submission.start_now(began)
}

/// Makes a fom with this id that has ended with this outcome.
///
/// # Errors
///
/// Returns the operation if the runtime takes nothing more from this thread.
pub fn settled<O: Operation>(
    submission: Submission<'_, O>,
    id: FomId,
    outcome: impl FnOnce() -> Outcome<O>,
) -> Result<Handle<O>, Refused<O>> {
    submission.settled(id, outcome)
}

/// Gives the operation back.
pub fn refused<O: Operation>(submission: Submission<'_, O>, reason: RefusedReason) -> Refused<O> {
    submission.refused(reason)
}

/// Returns the fom with its type, if `O` is the type.
pub fn typed<O: Operation>(fom: &AnyRef) -> Option<FomRef<O>> {
    FomRef::of_any(fom)
}

/// Returns a handle to a fom of another submission, with this outcome.
pub fn joined<O: Operation>(fom: FomRef<O>, outcome: JoinedOutcome<O>) -> Handle<O> {
    Handle::joined(fom, outcome)
}

/// Returns the end of an operation that ended in an earlier run, with no events left.
///
/// # Errors
///
/// Fails with the name of the phase if it is no end in this release.
pub fn ended<O: Operation>(operation: O, phase: O::Phase) -> Result<AtEnd<O>, &'static str> {
    let info = &O::GRAPH.phases()[O::index(O::kind(&phase))];
    match info.is_end() {
        true => Ok(AtEnd::new(operation, phase)),
        false => Err(info.name()),
    }
}

/// Returns the outcome as a handle returns it.
///
/// # Errors
///
/// Fails with the failure of the operation.
pub fn told<O: Operation>(outcome: Outcome<O>) -> Result<Ended<O>, Failure<O>> {
    outcome.map(AtEnd::ended)
}
