//! Parts of a runtime that other packages bring.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Instant,
};

use fom_protocol::{panic_message, sync::Mutex};
use serde::{Deserialize, Serialize};

use crate::{
    incident::IncidentKind,
    runtime::{Runtime, extension::Extension},
};

/// A part of a runtime. The runtime tells it of its end. A panic of the part is an
/// [incident](crate::observe::Operations::incidents), and affects nothing else.
pub trait Attachment: Any + Send + Sync {
    /// Called when a drain begins, before the runtime refuses submissions from outside. May block until `by`.
    fn drain(self: Arc<Self>, _runtime: &Runtime, _by: Instant) {}

    /// Called when the runtime takes less than before; see [`Extension::state`].
    fn state_changed(self: Arc<Self>, _runtime: &Runtime) {}

    /// Called when a function of a phase panicked, on the thread of its fom. `what` names the fom, the phase and the message.
    /// Must not block: it holds up the locality.
    fn panicked(self: Arc<Self>, _runtime: &Runtime, _what: &str) {}

    /// Called when no fom runs any more, or no longer waits for one. Returns what did not finish.
    fn close(self: Arc<Self>, _runtime: &Runtime) -> Vec<UnfinishedStop> {
        Vec::new()
    }
}

/// A stop that was not run, or did not finish, because a drain ran out of time or there was no drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfinishedStop {
    /// The kind of part, such as `service`.
    pub kind: String,
    /// The name of the part.
    pub name: String,
    /// The owner that registered the part.
    pub owner: String,
    /// Whether the stop had begun. If so, its effects until then remain. If not, the stop was never run.
    pub begun: bool,
}

impl fmt::Display for UnfinishedStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind, name, owner, ..
        } = self;
        let what = if self.begun {
            "did not come to its end"
        } else {
            "was not run"
        };
        write!(f, "the stop of {kind} `{name}` of {owner} {what}")
    }
}

/// Calls a part, which is the code of another package.
pub(in crate::runtime) fn fenced<R: Default>(runtime: &Runtime, call: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic_message(panic);
        runtime.report(
            IncidentKind::Panicked,
            "a part of the runtime",
            format!("a part of the runtime panicked: {message}"),
        );
        R::default()
    })
}

/// The attachments of one runtime.
#[derive(Default)]
pub(in crate::runtime) struct Attachments(Mutex<Parts>);

#[derive(Default)]
struct Parts {
    slots: Vec<Slot>,
    /// Whether the parts were closed. A part that is made later is closed at once.
    closed: bool,
}

/// One attachment, which the runtime owns or not.
enum Slot {
    Owned(Arc<dyn Attachment>),
    Shared(Weak<dyn Attachment>),
}

impl Slot {
    fn get(&self) -> Option<Arc<dyn Attachment>> {
        match self {
            Self::Owned(part) => Some(Arc::clone(part)),
            Self::Shared(part) => part.upgrade(),
        }
    }
}

impl Attachments {
    /// Returns the attachments, in the order in which they came.
    pub(in crate::runtime) fn all(&self) -> Vec<Arc<dyn Attachment>> {
        self.0.lock().slots.iter().filter_map(Slot::get).collect()
    }

    /// Returns the attachments, which the caller must close.
    pub(in crate::runtime) fn take_all(&self) -> Vec<Arc<dyn Attachment>> {
        let mut parts = self.0.lock();
        parts.closed = true;
        parts.slots.iter().filter_map(Slot::get).collect()
    }
}

impl Extension<'_> {
    /// Attaches a part that the caller owns. The runtime tells it of its end, as long as the part exists.
    pub fn attach(self, part: Weak<dyn Attachment>) {
        let mut parts = self.runtime.shared.attachments.0.lock();
        parts.slots.retain(|slot| match slot {
            Slot::Owned(_) => true,
            Slot::Shared(part) => part.strong_count() > 0,
        });
        parts.slots.push(Slot::Shared(part));
    }

    /// Returns the part of this type that belongs to the runtime. The first call makes it, under a lock: `T::default`
    /// must not attach anything itself.
    pub fn attachment<T: Attachment + Default>(self) -> Arc<T> {
        let mut parts = self.runtime.shared.attachments.0.lock();
        for slot in &parts.slots {
            if let Slot::Owned(part) = slot {
                let part: Arc<dyn Any + Send + Sync> = Arc::clone(part) as _;
                if let Ok(part) = part.downcast() {
                    return part;
                }
            }
        }
        let part = Arc::<T>::default();
        parts.slots.push(Slot::Owned(Arc::clone(&part) as _));
        let closed = parts.closed;
        drop(parts);
        if closed {
            fenced(self.runtime, || Arc::clone(&part).close(self.runtime));
        }
        part
    }
}
