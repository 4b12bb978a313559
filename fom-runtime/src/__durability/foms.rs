//! One fom, on the thread that runs it.

use crate::{
    Cx, FomRef, Operation,
    extension::Gate,
    fom::{
        AnyRef, Header, KeyWait, Resident, Told, TurnWait,
        durability::{Effects, Recorder},
    },
    id::KeyOf,
    locality,
    runtime::watch,
};

/// Returns the fom that has this context.
pub fn header_of<'a, E>(cx: &'a Cx<'_, E>) -> &'a Header {
    cx.header()
}

/// Returns when the fom was submitted, on the runtime's clock. The time is negative, in two's complement, if it is before
/// the start of the clock.
#[inline]
pub fn submitted(fom: &Header) -> u64 {
    fom.identity.submitted()
}

/// Returns the component that keeps what must survive the process of the fom's runtime.
#[inline]
pub fn recorder_of(fom: &Header) -> Option<&dyn Recorder> {
    fom.env().recorder()
}

/// Returns whether the fom has its key before a fom that may be in the journal.
pub fn overtakes(fom: &Header) -> bool {
    fom.turn().key_wait() == KeyWait::Overtakes
}

/// Returns what a fom waits for that has not begun. Only the thread that runs the fom calls this.
pub fn turn_wait(fom: &Header) -> Option<TurnWait> {
    fom.turn().wait()
}

/// Returns the names of a fom: the name of the turn that it waits for or has, and its key if the key is only a name.
pub fn names_of(fom: &Header) -> impl Iterator<Item = KeyOf> {
    let turn = fom.turn();
    turn.own().into_iter().chain(turn.name_only())
}

/// Returns the key that a fom waits for that came back, if it waits for one.
pub fn waits_again(fom: &Resident) -> Option<KeyOf> {
    fom.turn().waits_again()
}

/// Calls `f` with the outbox of the visit, if there is one.
#[inline]
pub fn with_outbox<R>(fom: &Header, f: impl FnOnce(&mut dyn Effects) -> R) -> Option<R> {
    fom.outbox().with(f)
}

/// As [`with_outbox`], and makes the outbox if there is none.
pub fn with_outbox_made(
    fom: &Header,
    make: impl FnOnce() -> Box<dyn Effects>,
    f: impl FnOnce(&mut dyn Effects),
) {
    fom.outbox().with_made(make, f);
}

/// Drops the outbox of the visit, with what is in it.
pub fn drop_outbox(fom: &Header) {
    fom.outbox().discard();
}

/// Takes the gate that the fom holds.
pub fn leave_held_gate(fom: &Header) -> Option<Box<dyn Gate>> {
    fom.gate().leave_held()
}

/// Gives a fom the gate that it held before.
pub fn take_over(fom: &Resident, gate: Box<dyn Gate>) {
    fom.gate().take_over(gate);
}

/// Calls user code. A panic is reported as an incident that happened to this fom, `when` it says.
pub fn fenced(fom: &Header, when: &str, f: impl FnOnce()) {
    fom.fenced(when, f);
}

/// Returns the index of the fom's phase.
pub fn phase_index(fom: &Header) -> usize {
    fom.visit().index()
}

/// Returns whether the fom carries along what this release does not know of its phase. Its body is then written by the
/// schema that it was read by.
pub fn has_unread_phase(fom: &Header) -> bool {
    let rare = fom.cold().and_then(|cold| cold.rare());
    rare.is_some_and(|rare| rare.unread.lock().as_ref().is_some_and(|it| it.has_phase()))
}

/// Returns the phase of the fom at this moment.
pub fn phase_kind<O: Operation>(fom: &FomRef<O>) -> O::Kind {
    O::kind_at(fom.any().visit().index())
}

/// Returns the fom without its type.
pub fn any_of<O: Operation>(fom: &FomRef<O>) -> &AnyRef {
    fom.any()
}

/// Waits until the fom is in a phase that it has begun. Returns `false` if it ends before.
pub async fn has_begun(fom: &AnyRef) -> bool {
    let phases = (0..fom.graph().phases().len()).collect();
    matches!(watch(fom, phases).await, Ok(Told::Phase(_)))
}

/// Calls `f` in the home of the fom.
pub fn at_home_of(fom: AnyRef, f: impl FnOnce(&AnyRef) + Send + 'static) {
    locality::at_home_of(fom, f);
}
