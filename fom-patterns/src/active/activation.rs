//! Settings for an active object, and its start.

use std::{fmt, sync::Arc};

use fom_runtime::{
    Key, Runtime,
    submission::{Placement, Priority},
};

use crate::active::{
    Active, NotActivated, Pressure, Proxy, WhenFull,
    servant::Object,
    shared::Shared,
    water_marks::{Limits, Tell},
};

/// The default number of requests that can wait.
const CAPACITY: usize = 1024;

/// The settings that an active object keeps.
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) tell: Option<Tell>,
    pub(super) ends_on_panic: bool,
    /// The name of an object that is not in this process.
    pub(super) elsewhere: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits {
                capacity: CAPACITY,
                waits: false,
                marks: None,
            },
            tell: None,
            ends_on_panic: false,
            elsewhere: None,
        }
    }
}

/// A builder that makes an object active; see [`Active::activation`].
#[must_use = "an activation does nothing until it is started"]
pub struct Activation<A: Active> {
    object: A,
    settings: Settings,
    placement: Option<Placement>,
    priority: Priority,
    key: Option<Key>,
}

impl<A: Active> fmt::Debug for Activation<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activation")
            .field("object", &A::NAME)
            .field("limits", &self.settings.limits)
            .finish_non_exhaustive()
    }
}

impl<A: Active> Activation<A> {
    pub(super) fn new(object: A) -> Self {
        Self {
            object,
            settings: Settings::default(),
            placement: None,
            priority: Priority::Normal,
            key: None,
        }
    }

    /// Sets how many requests can wait, at least 1. Default: 1,024. The running request does not count.
    pub fn capacity(mut self, requests: usize) -> Self {
        self.settings.limits.capacity = requests.max(1);
        self
    }

    /// Sets what happens to a call when the list is full. Default: [`WhenFull::Refuse`].
    pub fn when_full(mut self, what: WhenFull) -> Self {
        self.settings.limits.waits = what == WhenFull::Wait;
        self
    }

    /// Calls `tell` with [`Pressure::High`] when `high` requests wait, and after that with [`Pressure::Low`] when at
    /// most `low` requests wait. A list that swings around one length is therefore reported once. The threads that grow
    /// or shrink the list call `tell`, one call at a time and in order, with no lock held. `high` is raised to at least
    /// 1, and `low` is lowered below `high`.
    ///
    /// The marks measure only this object's list. [`ObjectRef::pressure`](crate::active::ObjectRef::pressure) returns
    /// the current pressure.
    pub fn marks(
        mut self,
        high: usize,
        low: usize,
        tell: impl Fn(Pressure) + Send + Sync + 'static,
    ) -> Self {
        let high = high.max(1);
        self.settings.limits.marks = Some((high, low.min(high - 1)));
        self.settings.tell = Some(Tell(Box::new(tell)));
        self
    }

    /// Ends the object when one of its methods panics. All waiting calls then fail with
    /// [`ActiveCallError::Ended`](crate::active::ActiveCallError::Ended). By default, the object lives on, in the state
    /// in which the method left it.
    pub fn end_on_panic(mut self) -> Self {
        self.settings.ends_on_panic = true;
        self
    }

    /// Sets the object's locality. Default: the locality of the key. Without a key, an object that a fom starts gets the
    /// locality of this fom. Any other object gets one locality after the other.
    pub fn place(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Sets the object's priority among the foms of its locality. The priority of a method is different: it ranks the
    /// requests of one object.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Names the object in listings. Two live objects of one type cannot have the same key.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Makes the object an active object of `runtime`.
    ///
    /// # Errors
    ///
    /// Fails with [`NotActivated`], which holds the object. The causes: the runtime is full or shuts down, the key is
    /// in use, or the locality does not exist.
    pub fn start(self, runtime: &Runtime) -> Result<A::Proxy, NotActivated<A>> {
        let shared = Arc::new(Shared::new(runtime.detached(), self.settings));
        let proxy = Proxy::new(Arc::clone(&shared));
        let object = Object::new(self.object, Arc::clone(&shared));
        let mut submission = runtime.submit(object).priority(self.priority);
        if let Some(placement) = self.placement {
            submission = submission.place(placement);
        }
        if let Some(key) = self.key {
            submission = submission.key(key);
        }
        match submission.start() {
            Ok(handle) => {
                shared.set_fom(handle.fom().clone());
                runtime.extension().add_daemon(Arc::downgrade(&shared) as _);
                Ok(proxy.into())
            }
            Err(refused) => Err(NotActivated {
                reason: refused.reason(),
                object: match refused.into_operation().into_object() {
                    Some(object) => object,
                    None => unreachable!("an activation has its object"),
                },
            }),
        }
    }
}
