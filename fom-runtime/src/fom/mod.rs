//! One operation in flight: a slot with header, mailbox, deadlines and body.
//!
//! This folder does not know the type of the operation. `typed` does, and `run` runs the fom. The functions of the type
//! are in a [`Vtable`].
//!
//! # The life of a fom
//!
//! ```text
//!  slot taken   admitted       runs            waits              ends          last reference goes
//!  (pool) ───▶ Init ───▶ Ready ───▶ Running ───▶ Waiting      Finished ───▶ slot back in the pool
//!                          ▲           │  │          │            ▲
//!                          ├── again ──┘  └── end ───┼────────────┘
//!                          └────────── wake ─────────┘
//! ```
//!
//! 1. A submission takes a slot from the pool of its type in the home locality. [`Header::init`] fills the header.
//! 2. The fom goes into the inbox or the run queue of its home. It is in at most one list, because its header has one
//!    [`Link`].
//! 3. The handler of the home runs the fom: a phase function, the transition (`run/transition.rs`), the next phase
//!    function. A run is over when the fom waits, ends, or has used up its budget. `run/next.rs` decides what comes next,
//!    and `run/run_loop.rs` carries the decision out.
//! 4. A wake ([`StateCell::wake`]) makes a waiting fom ready. Exactly one waker queues it.
//! 5. The end (`Fom::end` in `run/fom.rs`) reports the outcome, and gives up the reference of the runtime.
//! 6. With the last reference, the slot returns to its pool.
//!
//! # The state
//!
//! | word | bits | written by |
//! | --- | --- | --- |
//! | `Header::token`, a [`StateCell`] | init, ready, running, waiting or finished; woken; cancelled | wakes and cancels of any thread; the other steps by the thread that runs the fom |
//! | `Header::marks`, an [`OutcomeBits`] | wanted, watched, answered, abandoned, taken, in a phase, observed | the thread that runs the fom, the handle, and waiters |
//! | `Header::flags` | priority; begun, blocked, listed, resumed, settled, noted | the thread that runs the fom |
//!
//! # The fields of the header
//!
//! | field | contents | written by |
//! | --- | --- | --- |
//! | `link` | the next fom in a list | the owner of the list |
//! | `pool` | the pool, and through it the runtime, the graph and the functions of the type | never, once the slot is made |
//! | `refs` | one reference of the runtime until the end; one for each address, handle and waker | any thread |
//! | `phase`, `since` | the phase, and the time of its entry | the thread that runs the fom |
//! | `identity` | the id, and the time of the submission | the submission |
//! | `home` | the locality; it changes only when foms are moved for balance | the handler that moves the fom |
//! | `waiting` | what the fom waits for, as a small number | the thread that runs the fom |
//! | `cold` | the state that few foms have, made on demand | set once, by any thread |
//!
//! # The functions of the header
//!
//! [`Header`] has the functions that every fom needs: to find its pool, to count, to wake, to end. The functions of one
//! subject are in a type of their own:
//!
//! | function or field | subject |
//! | --- | --- |
//! | `flags` | the flags and the priority |
//! | `waiting` | what the fom waits for |
//! | `visit()` | the current visit: its phase, its event, its failed attempts |
//! | `outbox()` | what durability sends when the transition is made |
//! | `failure()` | the failure of the visit, for the functions that choose a phase after it |
//! | `gate()` | the gate of the phase |
//! | `turn()` | the keys of the fom, and when it may begin |
//! | `waiters()` | the handle, and waits for phases |
//! | `ticket()` | what is given back when the fom has ended |
//! | `cold()` | the rest of the state that few foms have |
//!
//! # Access to the parts
//!
//! | part | access |
//! | --- | --- |
//! | [`Header`] | any thread; all fields are atomic or never change |
//! | [`Mail`](mail::Mail), [`Cold`] | any holder of a reference, under the lock of the field |
//! | [`Timing`] | read by any thread; written by the thread that runs the fom or fires its timer, which holds the core |
//! | body (operation and phase, or future; then the outcome) | the thread that runs the fom. After a blocking section, this thread first gets the core of the home back. After the end, the owner of the outcome |
//!
//! # Neighbours
//!
//! A fom knows no locality and no runtime. It reaches four things beside itself:
//!
//! | value | contents | reached through |
//! | --- | --- | --- |
//! | [`Env`] | what all foms of a runtime share | the pool |
//! | [`LocalFoms`] | the counts, pools and inbox of one locality; any thread may touch it | [`Env`] |
//! | [`Hand`](hand::Hand) | the time, run queue, timers and memory of one locality, on the thread that holds its core | a thread-local |
//! | [`Host`] | the rare calls into the runtime | [`EnvRef`] |
//!
//! A header takes 64 bytes. A mailbox takes 16 bytes and the size of one event. A machine that takes events adds 8
//! bytes, and a machine with deadlines adds 64. The operation and its phase follow, or the future.
//!
//! [`Link`]: fom_protocol::Link
//! [`StateCell`]: fom_protocol::StateCell
//! [`StateCell::wake`]: fom_protocol::StateCell::wake
//! [`OutcomeBits`]: fom_protocol::OutcomeBits

mod address;
mod attached;
mod cancel;
mod carried;
mod cold;
pub(crate) mod counters;
pub(crate) mod durability;
mod env;
mod error;
mod failure;
mod failures;
pub(crate) mod flight;
mod gate;
pub(crate) mod hand;
mod header;
mod history;
mod host;
mod initial;
mod key_order;
mod key_wait;
mod listeners;
mod local_foms;
pub(crate) mod mail;
mod outcome;
pub(crate) mod pool;
mod priority;
pub(crate) mod reference;
mod room;
mod step;
mod ticket;
mod timing;
mod totals;
mod trim;

use std::{
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
};

pub use address::{FomAddress, FomIdentity};
pub(crate) use attached::Attachments;
pub use attached::{Attached, Blocker, Hold, Holder, Wait, WaitKind};
use cancel::{CancelEffect, CancelledFom};
pub use carried::KeptValues;
pub(crate) use carried::{Carried, CarriedBy, Carriers};
pub(crate) use cold::{Back, Cold, ColdRare, Told, Watcher};
pub(crate) use counters::{Counters, LocalCounters, TypeCounters};
use durability::KeptFom;
pub use durability::Recorder;
pub use env::RuntimeState;
pub(crate) use env::{Env, EnvSettings};
pub use error::{
    BlockError, Cause, DurabilityError, RefusedReason, SendError, TimedOut, Unanswered,
};
pub use failures::FailedFom;
pub(crate) use failures::Failures;
pub(crate) use flight::Flight;
pub use flight::{FlightEntry, FlightEvent};
pub use header::Header;
pub(crate) use header::{Interrupt, NewFom, WaitingFor};
pub(crate) use host::{EnvRef, Host};
pub(crate) use initial::{Guard, Initial, WasSaved};
pub(crate) use key_order::Full;
pub use key_order::Order;
pub use key_wait::TurnWait;
pub(crate) use key_wait::{Delay, KeyWait, MayBegin, OtherTurn, Rejected, Sleeping};
pub(crate) use listeners::{Extras, Hooks, Kind, List};
pub use listeners::{FailedAttempt, Run, RunListener, Transition, TransitionCause};
pub(crate) use local_foms::LocalFoms;
pub use mail::RunningFom;
pub(crate) use mail::{MailLimit, MailRef, Mailed};
pub(crate) use pool::{Page, Pool, Pools, Stocks};
pub use priority::Priority;
pub(crate) use reference::Vtable;
pub use reference::{AnyRef, Resident};
pub use step::{Entry, Function, Then};
pub(crate) use ticket::{PartPlace, PartTicket};
pub(crate) use timing::Timing;
pub(crate) use totals::{Ends, Totals};

use crate::{clock::passed, id::Key, incident::IncidentKind, step_key::EventId};
use fom_protocol::{InFlight, panic_message};

/// The result of a run of a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The fom waits.
    Waiting,
    /// The budget is used up, or the fom yields.
    Again,
    /// The fom ended.
    Finished,
}

impl<E> Mailed<E> {
    /// Takes the oldest event that the current phase takes. Only the thread that runs the fom calls this.
    pub(crate) fn take_event(&self) -> Option<E> {
        let mut event = MaybeUninit::<Option<E>>::uninit();
        // SAFETY: the events of this fom are `E`, so its table writes an `Option<E>`.
        unsafe {
            (self.pool().vtable.take_event)(self.whole(), event.as_mut_ptr().cast());
            event.assume_init()
        }
    }

    /// Drops the oldest event that was sent directly, as a crash would. Returns whether there was one.
    pub(crate) fn lose_event(&self) -> bool {
        self.mail.take(|_| true, |_| {}).0.is_some()
    }

    /// Puts the event into the mailbox and wakes the fom.
    pub(crate) fn send(&self, event: E) -> Result<(), crate::fom::SendError<E>> {
        let env = self.env();
        let id = || Some(EventId::Sent(env.host().next_event()));
        let sent = || flight::record_send(self);
        self.mail.push(event, id, env.mailbox, sent)?;
        self.wake();
        Ok(())
    }

    /// Like [`send`](Self::send), for an event with an id from its sender.
    pub(crate) fn send_with_id(&self, id: &Key, event: E) -> Result<(), crate::fom::SendError<E>> {
        let limit = self.env().mailbox;
        self.mail.push_named(event, EventId::given(id), limit)?;
        if limit.is_recorded() {
            flight::record_send(self);
        }
        self.wake();
        Ok(())
    }
}

impl Header {
    /// Calls user code that can no longer change the outcome. A panic in that code is reported, and ends nothing.
    pub(crate) fn fenced(&self, when: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            self.env().report(
                IncidentKind::Panicked,
                format!("{} {}", self.type_name(), self.id()),
                format!(
                    "{} {} panicked {when}: {}",
                    self.type_name(),
                    self.id(),
                    panic_message(panic)
                ),
            );
        }
    }

    /// Removes the fom from the tables, before its outcome is reported.
    #[inline(always)]
    pub(crate) fn leave(&self, counts: &InFlight, failed: bool, untaken: usize, by_handler: bool) {
        let env = self.env();
        if let Some(cold) = self.cold() {
            leave_key(self, cold);
        }
        self.flags.unlist();
        if by_handler {
            counts.one_left();
        }
        env.give_room();
        if self.flags.is_resumed() {
            leave_room(self);
        }
        let age = passed(hand::now(env), self.identity.submitted());
        let pool = self.pool();
        if by_handler && self.home_index() == pool.home {
            pool.totals.ended(failed, age, untaken);
        } else {
            pool.totals.ended_elsewhere(failed, age, untaken);
        }
    }
}

/// If the fom came back from the journal, makes room for another passive fom.
#[cold]
fn leave_room(fom: &Header) {
    let came_back = fom.cold().is_some_and(|cold| cold.back.came_back);
    if came_back && let Some(recorder) = fom.env().recorder() {
        recorder.one_ended(fom.id());
    }
}

/// Releases the keys of the fom, if it has any.
fn leave_key(fom: &Header, cold: &Cold) {
    if let Some(delay) = cold.delay() {
        delay.end();
    }
    cold.go_on(fom.env());
    // A stalled fom keeps its key, so that no other fom overtakes it. A chained fom releases its key, because it
    // comes back by itself.
    let uncommitted = |kept: &dyn KeptFom| kept.is_uncommitted();
    let is_chained = fom.turn().chained().is_some();
    let has_own = cold.keys.own.is_some() || cold.keys.is_serial();
    if is_chained || has_own && !cold.kept().is_some_and(uncommitted) {
        fom.env().host().leave_key(fom);
    }
}
