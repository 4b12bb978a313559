//! The hooks for packages on top of the runtime. A package adds parts to a runtime, to a locality or to a fom.
//!
//! `fom-patterns` is made with these hooks. An application hardly needs them.
//!
//! | to | see |
//! | --- | --- |
//! | keep one value for each runtime | [`Extension::attachment`] |
//! | hear of the end of a runtime | [`Attachment`], [`Extension::attach`] |
//! | let a phase wait for a condition, and hold something while the fom is in the phase | [`Gate`] |
//! | keep a value beside a fom, and tell what the fom waits for | [`Attached`], [`FomAddress`], [`WaitKind`], [`Wait`] |
//! | tell which foms a fom waits for, against deadlocks | [`Blocker`], [`FomRef::expect_end`](crate::FomRef::expect_end) |
//! | refuse a wait that would never end | [`waits_for`], [`current_fom`] |
//! | count work that is not a fom yet | [`PendingWork`], [`LocalWork`] |
//! | keep state in a locality, and run operations there at once | [`Part`], [`Turn`] |
//! | let a drain end a fom that only waits for calls | [`Daemon`] |
//! | wake a [`Waker`](std::task::Waker), or a part, at a time | [`Extension::alarm`], [`Local::wake_part_at`](crate::context::Local::wake_part_at) |
//! | block a thread on a future | [`block_on`], [`holds_locality`], [`runs_foms`] |
//! | run user code that is no fom in a turn | [`hold_locality`] |
//! | ask a runtime what it takes, and where this thread is | [`Extension::state`], [`Extension::is_accepting`], [`Extension::current_locality`], [`Extension::current_fom`] |
//! | report a problem that ends no operation | [`Runtime::report`] |
//! | start an operation later, with what its submitter gives it to carry | [`Extension::inherit`], [`Inherited`] |
//! | hear of each run of each fom | [`RunListener`], [`Builder::listen_to_runs`](crate::Builder::listen_to_runs) |
//! | list a named part with its counters | [`Listed`], [`Extension::list`], [`Inspect::parts`](crate::observe::Inspect::parts) |
//! | give a named part a command | [`Listed::command`], [`Extension::command`] |
//! | run code beside the localities, on the runtime's clock | [`Extension::spawn_thread`], [`Extension::watch_clock`] |

mod alarm;
mod attachment;
mod command;
mod daemons;
mod listed;
mod part;
mod pending;

use std::{sync::Arc, time::Duration};

use crate::fom::RefusedReason;

pub use alarm::Alarm;
pub use attachment::{Attachment, UnfinishedStop};
pub(super) use attachment::{Attachments, fenced};
pub use command::CommandError;
pub use daemons::Daemon;
pub(super) use daemons::Daemons;
pub(super) use listed::AllListed;
pub use listed::{ClockMoved, ClockWatch, Listed, Listing, Question, current_number};
pub use part::{Part, Turn};
pub use pending::{LocalWork, PendingWork, Pieces};

pub use crate::{
    fom::{
        Attached, Blocker, FomAddress, FomIdentity, Hold, Holder, Run, RunListener, RuntimeState,
        Wait, WaitKind,
    },
    gate::{Gate, GateError},
    locality::{PartId, Pause, Ran},
    runtime::{carry::Inherited, handle::block_on, observe::waits_for},
};
use crate::{
    fom::{
        Header,
        hand::{
            self,
            context::{self, running, running_any},
            here_in,
        },
    },
    id::{FomId, Key},
    incident::IncidentKind,
    locality::{Home, Sleep},
    runtime::Runtime,
};

/// How listings are serialized, for `serialize_with` of serde: times in seconds, names and keys as texts.
pub mod serialized {
    pub use crate::serial::{clock_time, seconds, since_1970, some_seconds, some_text, text};
}

/// Returns whether this thread holds a locality, which stands still while the thread blocks.
///
/// ```
/// assert!(!fom_runtime::extension::holds_locality());
/// ```
pub fn holds_locality() -> bool {
    context::is_taken() || context::has_core()
}

/// Returns whether this thread runs a locality or a fom, also in a blocking section.
///
/// ```
/// assert!(!fom_runtime::extension::runs_foms());
/// ```
pub fn runs_foms() -> bool {
    context::runs_foms()
}

/// Returns the fom that runs on this thread, also in a blocking section. It may be a fom of any runtime.
///
/// ```
/// assert!(fom_runtime::extension::current_fom().is_none());
/// ```
pub fn current_fom() -> Option<FomAddress> {
    running_any(FomAddress::of)
}

/// Runs code that is no fom while this thread holds a locality, such as the drop of a user's value in a [`Turn`].
/// There, a call that would block the locality forever panics or fails; see [`holds_locality`].
pub fn hold_locality<R>(f: impl FnOnce() -> R) -> R {
    context::holding(f)
}

/// What a package on top of a runtime can do with the runtime; see [`extension`](crate::extension).
/// [`Runtime::extension`] returns this view.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    pub(super) runtime: &'a Runtime,
}

impl Extension<'_> {
    /// Returns which submissions the runtime takes.
    pub fn state(self) -> RuntimeState {
        self.runtime.shared.env.state()
    }

    /// Returns whether the runtime takes a submission from this thread. While the runtime drains, it takes only
    /// submissions of its own foms.
    pub fn is_accepting(self) -> bool {
        !self.runtime.shared.is_late()
    }

    /// Returns why a runtime that is not [accepting](Self::is_accepting) refuses a submission.
    pub fn late_reason(self) -> RefusedReason {
        self.runtime.shared.env.late_reason()
    }

    /// Returns the index of the locality that is the home of foms with this key.
    pub fn home_of(self, key: &Key) -> usize {
        self.runtime.shared.home_of(key)
    }

    /// Returns the index of the next locality in turn, as for
    /// [`Placement::RoundRobin`](crate::submission::Placement::RoundRobin).
    pub fn next_locality(self) -> usize {
        self.runtime.shared.next_home()
    }

    /// Returns the index of the locality that this thread holds, if the locality belongs to this runtime.
    pub fn current_locality(self) -> Option<usize> {
        here_in(&self.runtime.shared.env)
    }

    /// Returns the fom of this runtime that runs on this thread, also in a blocking section.
    pub fn current_fom(self) -> Option<FomId> {
        running(&self.runtime.shared.env, Header::id)
    }

    /// Counts one request as one phase of the [`Budget`](crate::config::Budget) of the locality that this thread holds.
    /// Returns whether the budget is used up. The fom must then let other foms run before it takes the next request.
    /// Returns `true` if this thread holds no locality.
    pub fn spend_phase(self) -> bool {
        hand::step(&self.runtime.shared.env).1
    }
}

impl Runtime {
    /// Returns the calls for packages on top of this runtime. An application hardly needs them.
    #[inline]
    pub fn extension(&self) -> Extension<'_> {
        Extension { runtime: self }
    }

    /// Returns a handle that does not keep the runtime alive. After the last other handle is dropped, the runtime is
    /// [closed](RuntimeState::Closed).
    pub fn detached(&self) -> Self {
        Self::of(&self.shared)
    }

    /// Reports a problem that ends no operation, in [`Operations::incidents`](crate::observe::Operations::incidents).
    /// The text is a sentence that also names the subject.
    pub fn report(&self, kind: IncidentKind, subject: impl Into<String>, text: impl Into<String>) {
        self.shared.env.report(kind, subject, text.into());
    }

    /// Returns the resource of this type, if the runtime was built [with](crate::Builder::resource) one.
    pub fn resource<T: Send + Sync + 'static>(&self) -> Option<&T> {
        Some(self.shared.resources.get()?.0)
    }

    /// Sleeps on the runtime's clock. The timer is in the locality that this thread holds, or else in the first one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn sleep(&self, time: Duration) -> Sleep {
        let here = self.extension().current_locality().unwrap_or(0);
        Sleep::new(Home::new(self.shared.env.owned(), here), time)
    }
}

impl PartialEq for Runtime {
    /// Returns whether both are handles to the same runtime.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Runtime {}
