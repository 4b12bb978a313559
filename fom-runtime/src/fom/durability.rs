//! The seam for durability: what a runtime and its foms ask of the component that commits transitions.
//!
//! The only implementation is in the package `fom-durable`, which reaches these traits through `__durability`. Without
//! that package, nothing is kept and nothing comes back.
//!
//! | seam | one for each |
//! | --- | --- |
//! | [`Recorder`] | runtime |
//! | [`DurableFom`] | fom that is kept, or was submitted with an operation id |
//! | [`KeptFom`] | fom that is kept |
//! | [`FomRecord`] | one of the two, beside the fom |
//! | [`Effects`] | visit that has given something to its outbox |
//! | [`Content`] | step; made by the fom, so that only the fom knows the type of the operation |
//!
//! Whether a type is kept at all is a constant, so a transient type never asks.

use std::{
    any::{Any, TypeId},
    time::Instant,
};

use crate::{
    attempt::Tried,
    fom::{DurabilityError, Function, Header, KeptValues, Order, Priority, Then},
    id::{FomId, Key, KeyOf},
    snapshot::{Quarantined, Snapshot, SnapshotError},
    step_key::EventId,
};

/// The component of one runtime that keeps what must survive the process.
///
/// A fom that came back may *rest*: the component has its bytes, and the runtime has no fom. The component makes the
/// fom when there is room, when its deadline passes, or when a caller asks for it.
pub trait Recorder: Any + Send + Sync {
    /// Returns the number that identifies the journal in which this fom began, if there is one.
    fn journal_of(&self, fom: FomId) -> Option<u128>;

    /// Returns whether this process may run what the journal holds. Called before each entry into a phase function, in
    /// a runtime that was told of a lease.
    fn holds_lease(&self) -> bool;

    /// Returns whether foms may rest at all.
    fn lets_foms_rest(&self) -> bool;

    /// Returns the number of foms that rest.
    fn resting(&self) -> usize;

    /// Makes the fom with this id, if it rests.
    fn revive(&self, id: FomId);

    /// Makes all foms that have this key and rest.
    fn revive_key(&self, of: &KeyOf);

    /// Makes as many resting foms as there is room for, and those with a passed deadline.
    fn settle(&self);

    /// Called when the clock was moved, and when the runtime begins to refuse submissions.
    fn poke(&self);

    /// Called when a fom that came back has ended.
    fn one_ended(&self, id: FomId);

    /// Called when a fom that came back has asked for its gate, or will not ask.
    fn has_asked(&self, id: FomId);

    /// Makes what is kept beside a new fom.
    fn begin(&self, new: NewRecord) -> FomRecord;

    /// Returns what is kept and does not run, by id.
    fn quarantined(&self) -> Vec<Quarantined>;

    /// Called when all localities have ended. The component commits what is left, and closes.
    fn close(&self);

    /// Blocks until the component is closed, or until `by`.
    fn wait_closed(&self, by: Instant);
}

/// A new fom, as far as durability needs it.
#[derive(Debug)]
pub struct NewRecord {
    /// The operation type.
    pub of: TypeId,
    /// Whether the transitions are kept.
    pub is_kept: bool,
    /// The index of the home.
    pub home: usize,
    /// Whether the submission chose the home, other than by the key.
    pub placed: bool,
    /// The priority.
    pub priority: Priority,
    /// What the submission does if its key is not free.
    pub order: Order,
    /// The name of its series.
    pub series: Option<Key>,
    /// The operation id of the submission.
    pub operation_id: Option<Key>,
    /// What the fom carries.
    pub carried: KeptValues,
}

/// What durability keeps beside one fom.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub enum FomRecord {
    /// The state of transitions that are kept.
    Kept(Box<dyn KeptFom>),
    /// The operation id of a fom with transitions that are not kept.
    Identified(Box<dyn DurableFom>),
}

/// What durability does when a fom ends.
pub trait DurableFom: Any + Send + Sync {
    /// Called once, when the fom has ended. Returns a function that tells the end to other callers. The fom calls it
    /// after it has told its outcome.
    fn ended(&self, fom: &Header, end: End<'_>) -> Option<Box<dyn FnOnce()>>;

    /// Called when the runtime gives up the fom, which has not ended.
    fn given_up(&self, fom: &Header);
}

/// How a fom ended.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub enum End<'a> {
    /// In an end phase. The function saves the operation.
    Phase(&'a dyn Fn() -> Result<Snapshot, String>),
    /// The fom was never started, or the runtime ends.
    Shutdown,
    /// The last step could not be committed.
    NotCommitted(&'a DurabilityError),
    /// In the standard failed outcome.
    Failed(&'a FailedAs<'a>),
}

/// A failure, as it is remembered.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct FailedAs<'a> {
    /// The phase in which the fom failed.
    pub phase: &'a str,
    /// Returns the cause as text. Runs the user's code, and catches its panics.
    pub describe: &'a dyn Fn() -> String,
}

/// A failed operation that is kept, so that a caller can try it again.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct KeptFailed<'a> {
    /// The failed attempts before this failure, oldest first.
    pub tried: &'a [Tried],
    /// Writes the operation. With `None`, its data are gone.
    pub content: Option<&'a dyn Content>,
}

/// The state of a fom with transitions that are kept. Only the thread that runs the fom calls these functions, except
/// where they say otherwise.
pub trait KeptFom: DurableFom {
    /// Returns whether the journal has a record of the fom. Any thread may call this.
    fn is_recorded(&self) -> bool;

    /// Returns whether a step is on its way into the journal, and the fom waits for it. Any thread may call this.
    fn is_pending(&self) -> bool;

    /// Returns whether a step is on its way into the journal, or its answer was not taken yet.
    fn is_committing(&self) -> bool;

    /// Returns whether the last step could not be committed, and is tried again when the fom has gone.
    fn is_uncommitted(&self) -> bool;

    /// Returns whether the fom held the gate of its phase at the last step.
    fn held_gate(&self) -> bool;

    /// Returns the number of the visit, and the last event that the function has taken.
    fn visit(&self) -> (u64, Option<EventId>);

    /// Notes that the function has taken an event. The next request has number 1 again.
    fn took(&self, event: EventId);

    /// Ends the last event: later effects no longer belong to it.
    fn leave_event(&self);

    /// Returns the number of the next request.
    fn next_part(&self) -> u32;

    /// Notes that the fom takes a way out of a cancel.
    fn hear_cancel(&self);

    /// Notes that the fom takes the way out of a phase with `cancelled`.
    fn turn_back(&self);

    /// Enters a function of the phase that is not its own. Its requests have numbers of their own.
    fn enter(&self, function: Function);

    /// Takes the oldest event that came through an outbox and that `takes` accepts. `keeps_failed`: if the fom fails, it
    /// is kept, and the event with it.
    fn take_event(
        &self,
        fom: &Header,
        keeps_failed: bool,
        takes: &dyn Fn(&dyn Any) -> bool,
    ) -> Option<Box<dyn Any + Send>>;

    /// Returns the number of events that came through an outbox and were not taken. Any thread may call this.
    fn events(&self) -> usize;

    /// Returns when the next attempt of a fom that came back is due, on the runtime's clock.
    fn retry_at(&self, fom: &Header) -> Option<u64>;

    /// Returns whether the wait of a fom that has not begun must be written down.
    fn records_wait(&self, fom: &Header) -> bool;

    /// Begins the fom, which has its key. Returns whether the begin must be committed before the first phase.
    fn begin(&self, fom: &Header) -> bool;

    /// Writes a step down, to be committed. Takes the failed attempts out of `step`. `step.content` calls user code, and
    /// may panic.
    fn step(&self, fom: &Header, step: &mut KeptStep<'_>) -> Written;

    /// Returns the result of the last step, once. Returns `None` if no step is on its way.
    fn take_answer(&self) -> Option<Answer>;

    /// Keeps a step that could not be committed, until the journal works again. Drops the outbox. `ends`: the fom is in
    /// an end phase.
    fn keep_step(&self, fom: &Header, error: &DurabilityError, ends: bool, content: &dyn Content);

    /// Writes down that the fom fails, and what is kept of it. With `waits`, the fom ends only when this is committed.
    fn fail(&self, fom: &Header, failed: &FailedAs<'_>, kept: Option<&KeptFailed<'_>>, waits: bool);

    /// Keeps the end of a failed fom that could not be committed, as [`keep_step`](Self::keep_step) does.
    fn keep_failure(&self, fom: &Header, error: &DurabilityError);

    /// Stops taking events through outboxes, and settles the events that are left.
    fn leave_events(&self, fom: &Header, end: LastStep);

    /// Called when the fom has left all tables. From now on it may come back.
    fn leave(&self, fom: &Header);
}

/// The state of a fom after a step.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct KeptStep<'a> {
    /// What comes after the step.
    pub then: Then,
    /// Whether the fom continues only when the step is committed.
    pub waits: bool,
    /// Whether the fom holds the gate of its phase; `None` if no phase has a gate.
    pub holds_gate: Option<bool>,
    /// The attempts and deadlines, if the machine has any.
    pub timing: Option<&'a mut SavedTiming>,
    /// When the fom entered its phase, on the runtime's clock.
    pub since: u64,
    /// Whether the fom is in an end phase.
    pub ends: bool,
    /// Writes the operation and its phase.
    pub content: &'a dyn Content,
}

/// The attempts and deadlines of a visit, on the runtime's clock.
#[derive(Debug)]
pub struct SavedTiming {
    /// The number of failed attempts at the phase.
    pub attempt: u32,
    /// The failed attempts, of which some may be forgotten.
    pub tried: Vec<Tried>,
    /// The deadline of the phase.
    pub due: Option<u64>,
    /// A deadline that an earlier phase keeps over this one, and the name of that phase.
    pub kept: Option<(u64, &'static str)>,
}

/// The operation and phase of a fom, as bytes. The functions call user code, and may panic.
pub trait Content {
    /// Appends operation and phase. After an error the bytes are as before.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), SnapshotError>;

    /// Returns operation and phase as a self-contained snapshot. Catches the panics of user code.
    fn snapshot(&self) -> Result<Snapshot, String>;
}

/// Whether a step is written down.
#[derive(Debug)]
pub enum Written {
    /// The fom goes on at once.
    Now,
    /// The fom goes on when the step is committed.
    Later,
    /// The operation cannot be saved.
    Refused(SnapshotError),
}

/// Whether the last step is committed.
#[derive(Debug)]
pub enum Answer {
    /// The commit is not answered yet.
    Pending,
    /// The step is committed, and this comes next.
    Committed(Then),
    /// The step could not be committed.
    Failed(DurabilityError),
    /// A statement of the step failed. Nothing of the step is in the journal, and the fom is in the phase before it.
    StatementFailed(Then, DurabilityError),
}

/// Whether the last step of a fom that ends is in the journal.
#[derive(Debug)]
pub enum LastStep {
    /// The step is in the journal.
    Committed,
    /// The runtime ends, and the fom comes back.
    Shutdown,
    /// The step could not be committed.
    NotCommitted,
}

/// What a fom has given to its outbox in one visit.
pub trait Effects: Any + Send {
    /// Sends everything, because the transition is made, and committed if the fom is kept.
    fn send(self: Box<Self>, fom: &Header);

    /// Drops everything, because the phase function failed.
    fn discard(self: Box<Self>, fom: &Header);

    /// Whether the store may refuse the transition, because of what is in here. The fom then keeps its phase until the
    /// transition is committed.
    fn may_fail(&self) -> bool;

    /// Keeps the phase that the fom leaves.
    fn keep_phase(&mut self, phase: Box<dyn Any + Send>);

    /// Returns the phase that the fom has left, and was kept.
    fn take_phase(&mut self) -> Option<Box<dyn Any + Send>>;
}
