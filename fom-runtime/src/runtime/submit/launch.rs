//! The start of a submission: its home, its room, and its fom.

use std::{
    any::TypeId,
    mem::{self, ManuallyDrop},
    ptr,
};

use super::{Now, Placement, Special, StartOnce, Submission};
use crate::{
    exclusive::Exclusive,
    fom::{NewFom, Order, OtherTurn, RefusedReason, RuntimeState, hand},
    id::{FomId, Key, KeyHash, KeyOf},
    locality::{Locality, run_in_place},
    operation::{Operation, kept_codec},
    runtime::{
        FomRef, Handle, Refused, RefusedInner, Shared,
        carry::NewCarried,
        keys::{self, Names},
        room::HeldRoom,
        spawn::{Place, Rare, SpawnRequest},
    },
    typed::{TypedRef, start_here},
};

impl<'a, O: Operation> Submission<'a, O> {
    #[inline(always)]
    pub(super) fn launch(self, wanted: bool) -> Result<New<O>, Refused<O>> {
        if is_plain(&self) && hand::here_in(&self.shared.env).is_some() {
            // SAFETY: the submission is plain, and forgotten.
            let new = unsafe { launch_here(&self, wanted) };
            mem::forget(self);
            Ok(new)
        } else {
            self.launch_anywhere(wanted)
                .map_err(|turned| turned.refuse())
        }
    }

    #[inline(never)]
    pub(in crate::runtime) fn launch_anywhere(self, wanted: bool) -> Result<New<O>, Turned<'a, O>> {
        let shared = self.shared;
        // This is user code if the operation is written by hand. So it runs before anything is counted, locked or
        // borrowed.
        let phase_index = O::index(O::kind(&self.phase));
        let carried = self.new_carried(is_to_be_kept(&self));
        let turned = |sent, reason, operation, live| Turned {
            shared,
            sent,
            reason,
            operation,
            live,
        };
        let hash = self.home_name().map(|name| shared.key_index.hash(name));
        let Target { index, here, sent } = self.target(hash);
        let (settled, chosen) = is_placed(&self);
        let refused = refused_by_state(&self, here);
        let brought = Brought::new(self.special, carried);
        let names = Names {
            key: self.key,
            series: brought.series,
        };
        let mut rare = brought.rare;
        let other = other_turn::<O>(shared, self.order, &names);
        let no_turn = self.order == Order::Chain && other.is_none();
        if other.is_some() {
            rare.get_or_insert_default().other = other;
        }
        let refused = refused
            .or(no_turn.then_some(RefusedReason::NoTurn))
            .or_else(|| brought.room.take(shared));
        let (refused, index) = match (refused, index) {
            (None, Some(index)) => (None, index),
            (None, None) => {
                shared.env.give_room();
                (Some(RefusedReason::NoSuchLocality), 0)
            }
            (refused, _) => (refused, 0),
        };
        if let Some(reason) = refused {
            return Err(turned(sent, reason, self.operation, None));
        }
        let request = SpawnRequest {
            shared,
            place: Place {
                index,
                here,
                settled,
                chosen,
            },
            phase: phase_index,
            wanted,
            priority: self.priority,
            order: self.order,
            hash,
            rare,
        };
        let refused = |(reason, operation, live)| turned(sent, reason, operation, live);
        let entered = keys::enter(request, self.operation, self.phase, names, brought.number);
        let (ready, made) = entered.map_err(refused)?;
        if let Some(fom) = ready {
            crate::locality::enqueue(shared, fom);
        }
        Ok(made)
    }

    /// Chooses the home of the fom, and counts the fom there.
    #[inline(always)]
    fn target(&self, hash: Option<KeyHash>) -> Target<'a> {
        let index = self.home(hash);
        let here = index.is_some_and(|index| hand::holds(&self.shared.env, index));
        let sent = index
            .filter(|_| !here)
            .map(|index| &self.shared.localities[index]);
        if let Some(home) = sent {
            // Counted before the mode is read: a shutdown that begins meanwhile waits for the fom or refuses it.
            home.counts.one_sent();
        }
        Target { index, here, sent }
    }
}

/// Returns whether neither the submission nor the runtime asks for more than a fom in this locality.
#[inline(always)]
fn is_plain<O: Operation>(submission: &Submission<'_, O>) -> bool {
    submission.key.is_none()
        && submission.placement.is_none()
        && submission.special.is_none()
        && submission.order != Order::Chain
        && submission.shared.env.takes_all()
}

/// Returns whether [`start_in_place`] is possible.
#[inline]
pub(super) fn may_run_in_place<O: Operation>(submission: &Submission<'_, O>) -> bool {
    is_plain(submission) && hand::context::may_nest(&submission.shared.env)
}

/// Returns the beginning of a fom in this locality. Calls user code if the operation is written by hand.
#[inline(always)]
fn birth<O: Operation>(submission: &Submission<'_, O>, wanted: bool) -> NewFom {
    NewFom {
        // The locality sets its own number, the id and the time.
        id: FomId(0),
        home: 0,
        priority: submission.priority,
        now: 0,
        phase: O::index(O::kind(&submission.phase)),
        settled: false,
        resumed: false,
        cold: None,
        wanted,
        ready: true,
    }
}

/// Ends the process if it is dropped: only by a panic that would leave a value with two owners.
struct OneOwner;

impl Drop for OneOwner {
    #[cold]
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The common way of a fom's submission: straight into the run queue of the locality that this thread holds. The
/// submitting fom is in flight, so a thread that waits for an idle runtime keeps waiting.
///
/// The submission is borrowed, since the compiler copies a large operation for each function that takes it by value.
///
/// # Safety
///
/// The submission [is plain](is_plain). The caller forgets it, and uses it no more.
#[inline(always)]
// SAFETY (caller): as the section above says.
unsafe fn launch_here<O: Operation>(submission: &Submission<'_, O>, wanted: bool) -> New<O> {
    let birth = birth(submission, wanted);
    let one_owner = OneOwner;
    // SAFETY: the caller forgets the submission, and a panic before that ends the process. The key and the special part
    // are `None`: there is nothing else to drop.
    let phase = unsafe { ptr::read(&raw const submission.phase) };
    // SAFETY: as above, and the closure is called at most once.
    let operation = || unsafe { ptr::read(&raw const submission.operation) };
    let new = start_here(&submission.shared.env, birth, operation, phase);
    mem::forget(one_owner);
    new
}

/// Runs the fom on the stack of the fom that submits it.
#[inline]
pub(super) fn start_in_place<O: Operation>(submission: Submission<'_, O>) -> Now<O> {
    let birth = birth(&submission, false);
    // The key and the special part are `None`: there is nothing else to drop. Code of the operation runs below, so no panic
    // may end the process here.
    let this = ManuallyDrop::new(submission);
    // SAFETY: the submission is not dropped, and the phase is not used after this.
    let phase = unsafe { ptr::read(&raw const this.phase) };
    // SAFETY: as above, and the closure is called at most once.
    let operation = || unsafe { ptr::read(&raw const this.operation) };
    let mut outcome = None;
    let handle = run_in_place(&this.shared.env, birth, operation, phase, &mut outcome);
    if let Some(outcome) = outcome {
        return Now::Ended(outcome);
    }
    let handle = Handle::of_new(handle);
    handle
        .outcome_now()
        .map_or_else(|| Now::GoesOn(handle), Now::Ended)
}

fn has_guard<O: Operation>(submission: &Submission<'_, O>) -> bool {
    let special = submission.special.as_ref();
    special.is_some_and(|special| special.guard.is_some())
}

/// Returns how a submission that runs once is started.
pub(super) fn starts_once<O: Operation>(submission: &Submission<'_, O>) -> Option<StartOnce<O>> {
    let once = submission.special.as_ref()?.once.as_ref();
    once.map(|once| once.start)
}

/// Returns whether the fom needs a record, and has none.
#[inline]
fn is_to_be_kept<O: Operation>(submission: &Submission<'_, O>) -> bool {
    let recorded = submission
        .special
        .as_ref()
        .and_then(|it| it.recorded.as_ref());
    let has_record = recorded.is_some_and(|it| it.state.is_some());
    submission.shared.env.journaled && const { kept_codec::<O>().is_some() } && !has_record
}

/// Returns whether the fom stays in its home, and whether the submission chose the home other than by the key.
#[inline(always)]
fn is_placed<O: Operation>(submission: &Submission<'_, O>) -> (bool, bool) {
    let chosen = matches!(
        submission.placement,
        Some(Placement::Here | Placement::Locality(_) | Placement::Key(_))
    );
    match submission.home_name() {
        Some(_) => (true, submission.placement.is_some()),
        None => (chosen, chosen),
    }
}

/// Returns why the state of the runtime refuses the submission, if it does.
#[inline(always)]
fn refused_by_state<O: Operation>(
    submission: &Submission<'_, O>,
    here: bool,
) -> Option<RefusedReason> {
    match submission.shared.env.state() {
        RuntimeState::Open => None,
        RuntimeState::Draining if here || hand::context::runs_fom_of(&submission.shared.env) => {
            None
        }
        RuntimeState::Draining if has_guard(submission) => None,
        _ => Some(submission.shared.env.late_reason()),
    }
}

/// Returns the turn that the fom has beside its key: the one of its submitter, or the one in its series.
#[inline(always)]
fn other_turn<O: Operation>(shared: &Shared, order: Order, names: &Names) -> Option<OtherTurn> {
    if order == Order::Chain {
        let turn = hand::context::running(&shared.env, |fom| fom.turn().key()).flatten();
        return turn.map(OtherTurn::Chained);
    }
    let series = names.series.clone()?;
    Some(OtherTurn::Serial(KeyOf::serial(TypeId::of::<O>(), series)))
}

/// What a submission brings, beside what each has.
struct Brought {
    room: RoomFor,
    /// The number of the fom in the order of what outboxes sent.
    number: Option<u64>,
    /// The name of its series.
    series: Option<Key>,
    rare: Option<Box<Rare>>,
}

/// The room for a fom.
enum RoomFor {
    /// It is in the journal, and has room there already.
    Recorded,
    /// It was kept.
    Held(HeldRoom),
    /// None yet.
    Nothing,
}

impl Brought {
    #[inline(always)]
    fn new<O: Operation>(
        special: Option<Box<Special<O>>>,
        carried: Option<Box<NewCarried>>,
    ) -> Self {
        if let Some(special) = special {
            return Self::of_special(*special, carried);
        }
        let rare = |carried| {
            Box::new(Rare {
                carried: Some(carried),
                ..Rare::default()
            })
        };
        Self {
            room: RoomFor::Nothing,
            number: None,
            series: None,
            rare: carried.map(rare),
        }
    }

    fn of_special<O: Operation>(special: Special<O>, carried: Option<Box<NewCarried>>) -> Self {
        let (id, number, state) = match special.recorded {
            Some(recorded) => (Some(recorded.id), recorded.number, recorded.state),
            None => (None, None, None),
        };
        let room = match special.room {
            _ if state.is_some() => RoomFor::Recorded,
            Some(held) => RoomFor::Held(held),
            None => RoomFor::Nothing,
        };
        let rare = Rare {
            meta: special.meta,
            id,
            state,
            operation_id: special.once.map(|once| once.id),
            guard: special.guard,
            carried,
            after: special.after,
            ..Rare::default()
        };
        Self {
            room,
            number,
            series: special.series,
            rare: Some(Box::new(rare)),
        }
    }
}

impl RoomFor {
    /// Takes the room that the fom needs. Returns why there is none.
    #[inline(always)]
    fn take(self, shared: &Shared) -> Option<RefusedReason> {
        match self {
            Self::Recorded => shared.env.room.take_again(),
            Self::Held(held) => held.use_up(),
            Self::Nothing if !shared.env.room.take() => return Some(RefusedReason::Full),
            Self::Nothing => {}
        }
        None
    }
}

/// The home of a submission.
struct Target<'a> {
    /// Its index, or `None` if there is no such locality.
    index: Option<usize>,
    /// Whether this thread holds the core of the home.
    here: bool,
    /// The home that counts the fom already.
    sent: Option<&'a Locality>,
}

/// The reference for the handle of a new fom, if one is wanted, and the id of the fom.
pub(in crate::runtime) type New<O> = (Option<TypedRef<O>>, FomId);

/// A submission that was turned away, before its caller learns of it.
pub(in crate::runtime) struct Turned<'a, O: Operation> {
    pub(in crate::runtime) shared: &'a Shared,
    pub(in crate::runtime) sent: Option<&'a Locality>,
    pub(in crate::runtime) reason: RefusedReason,
    pub(in crate::runtime) operation: O,
    pub(in crate::runtime) live: Option<FomRef<O>>,
}

impl<O: Operation> Turned<'_, O> {
    #[cold]
    pub(in crate::runtime) fn refuse(self) -> Refused<O> {
        if let Some(home) = self.sent {
            home.take_back();
            self.shared.tell_idle();
        }
        Refused(Box::new(RefusedInner {
            reason: self.reason,
            operation: Exclusive::new(self.operation),
            live: self.live,
        }))
    }
}
