//! Facts about a runtime.

use std::{
    io,
    sync::{Arc, Weak},
};

use crate::{
    Cause, FomId, FomRef, Key, Operation, Runtime,
    fom::{AnyRef, Header, Recorder, RefusedReason},
    id::KeyOf,
    incident::IncidentKind,
    runtime::{Announced, Builder, Recording, Shared},
    time::Clock,
};

/// Returns what the localities of this runtime share.
pub fn shared_by(runtime: &Runtime) -> &Shared {
    &runtime.shared
}

/// Returns the runtime of a fom.
#[inline]
pub fn shared_of(fom: &Header) -> &Shared {
    Shared::of(fom)
}

/// Returns an owned reference, which keeps the runtime alive.
pub fn owned(shared: &Shared) -> Arc<Shared> {
    shared.owned()
}

/// Returns a reference that does not keep the runtime alive.
pub fn weak(shared: &Shared) -> Weak<Shared> {
    shared.weak()
}

/// Returns the runtime, as a handle that does not keep it running.
pub fn runtime_of(shared: &Shared) -> Runtime {
    Runtime::of(shared)
}

/// Returns the settings of durability. The first call makes them. Returns `None` if they have another type.
pub fn recording<T: Recording + Default>(builder: &mut Builder) -> Option<&mut T> {
    builder.recording()
}

/// Returns the settings of durability, if there are any.
pub fn recorded_as<T: Recording>(builder: &Builder) -> Option<&T> {
    builder.recorded_as()
}

/// Returns the clock of the runtime.
pub fn clock(shared: &Shared) -> &Clock {
    &shared.env.clock
}

/// Returns the time on this clock, in nanoseconds.
#[inline]
pub fn nanos(clock: &Clock) -> u64 {
    clock.nanos()
}

/// Returns whether sleeping in real time brings deadlines nearer.
#[inline]
pub fn is_real(clock: &Clock) -> bool {
    clock.is_real()
}

/// Returns whether transitions are committed to a journal.
pub fn is_journaled(shared: &Shared) -> bool {
    shared.env.journaled
}

/// Returns the component that keeps what must survive the process.
#[inline]
pub fn recorder(shared: &Shared) -> Option<&dyn Recorder> {
    shared.env.recorder()
}

/// As [`recorder`], and makes it if the runtime has none.
#[inline]
pub fn recorder_or(shared: &Shared, make: impl FnOnce() -> Arc<dyn Recorder>) -> &dyn Recorder {
    &**shared.env.recorder.get_or_init(make)
}

/// Reports a problem that ends no operation.
pub fn report(shared: &Shared, kind: IncidentKind, subject: impl Into<String>, text: String) {
    shared.env.report(kind, subject, text);
}

/// Creates a thread as [`Builder::spawn_with`] says.
///
/// # Errors
///
/// Fails with the error of the system.
pub fn spawn_thread(shared: &Shared, name: &str, main: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    (shared.spawner.0)(name.to_owned(), main)
}

/// Notes that a thread has freed this number of bytes. If the allocator keeps much free memory, the system gets it
/// back.
pub fn freed(shared: &Shared, bytes: usize) {
    shared.heap.freed(bytes);
    shared.heap.trim(&*shared.spawner.0);
}

/// Notes that the journal has a lease. Each locality must [look at it](super::look_at_lease).
pub fn lease(shared: &Shared) {
    shared.env.hooks.lease();
}

/// Begins the end of a runtime with a journal that another process has taken over. Each fom ends with
/// [`Cause::Moved`](crate::Cause::Moved).
pub fn end_moved(shared: &Shared) {
    crate::runtime::end_moved(shared);
}

/// Returns why a fom ends in a runtime that is shutting down.
pub fn end_cause<E>(shared: &Shared) -> Cause<E> {
    shared.env.end_cause()
}

/// Returns why a runtime that is shutting down refuses a submission.
pub fn late_reason(shared: &Shared) -> RefusedReason {
    shared.env.late_reason()
}

/// Returns whether the runtime takes no submission from outside.
pub fn takes_nothing(shared: &Shared) -> bool {
    shared.env.takes_nothing()
}

/// Returns whether nothing more may begin.
pub fn is_closed(shared: &Shared) -> bool {
    shared.env.is_closed()
}

/// Returns whether the runtime takes nothing more from this thread.
pub fn is_late(shared: &Shared) -> bool {
    shared.is_late()
}

/// Wakes the callers that wait until no fom is in flight, if there is none.
pub fn tell_idle(shared: &Shared) {
    shared.tell_idle();
}

/// Returns the id with this number.
pub fn fom_id(number: u64) -> FomId {
    FomId(number)
}

/// Returns a new id. On a thread of a locality, this takes no lock and touches no shared counter.
pub fn new_id(shared: &Shared) -> FomId {
    // The thread may hold a locality of another runtime, whose ids are others.
    let here = crate::locality::with_core(|core| {
        let is_ours = core.home.env().is(&shared.env);
        is_ours.then(|| core.one_numbered())
    });
    here.flatten().unwrap_or_else(|| shared.next_id())
}

/// Returns the number of the next event that this thread sends. No other event of this run has it.
pub fn next_event(shared: &Shared) -> u64 {
    shared.next_event()
}

/// Numbers the foms that are submitted from outside the localities from `first` on.
pub fn number_from(shared: &Shared, first: u64) {
    shared.number_from(first);
}

/// Returns the fom that has this key, and brings it back if it rests.
pub fn find<O: Operation>(shared: &Shared, key: &Key) -> Option<FomRef<O>> {
    shared.find(key)
}

/// As [`find`], for an operation type that is known by its id.
pub fn find_any(shared: &Shared, of: &KeyOf) -> Option<AnyRef> {
    shared.find_any(of)
}

/// Returns the fom with this id, if it does not rest. No other address of the fom may exist, so only
/// [`at_home_of`](super::at_home_of) changes it.
pub fn find_id(shared: &Shared, id: FomId) -> Option<AnyRef> {
    shared.find_id(id)
}

/// Returns the fom that has this key, if it does not rest.
pub fn find_awake(shared: &Shared, of: &KeyOf) -> Option<AnyRef> {
    shared.key_index.find_any(of)
}

/// Returns the id of the fom that has this key and does not rest, also if it has just ended. A fom that ends gives its key
/// up after its outcome is recorded.
pub fn key_holder(shared: &Shared, of: &KeyOf) -> Option<FomId> {
    shared.key_index.holder(of)
}

/// Makes all foms that have this key and rest.
pub fn revive_key(shared: &Shared, of: KeyOf) {
    shared.env.revive_key(|| of);
}

/// Notes that a fom with this key is quarantined. `number` is its number in the order of what outboxes sent. With
/// `keeps`, the fom keeps its place: the foms behind it wait.
pub fn keep_place(shared: &Shared, of: KeyOf, id: FomId, number: Option<u64>, keeps: bool) {
    shared.key_index.miss(of, id, number, keeps);
}

/// Gives up the place of a quarantined fom.
pub fn give_place_up(shared: &Shared, of: KeyOf, id: FomId) {
    shared.key_index.give_place_up(shared, of, id);
}

/// Takes the key from a fom that has ended, and gives it to the next fom.
pub fn give_key(shared: &Shared, of: KeyOf, id: FomId) {
    shared.key_index.remove(shared, of, id);
}

/// Draws a number in the order of what outboxes send.
pub fn next_number(shared: &Shared) -> u64 {
    shared.key_index.number()
}

/// Draws all later numbers above this one.
pub fn number_above(shared: &Shared, number: u64) {
    shared.key_index.number_above(number);
}

/// Draws a number for a fom with this key. Until the number is dropped, no fom with the key and a later number begins
/// before the journal has it.
pub fn announce(shared: &Shared, of: KeyOf) -> Announced {
    shared.key_index.announce(shared, of)
}
