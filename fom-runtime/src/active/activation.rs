//! How an object becomes an active one.

use std::{fmt, sync::Arc};

use crate::{
    Key, Placement, Priority, Runtime,
    active::{
        Active, NotActivated, Pressure, Proxy, WhenFull,
        marks::{Limits, Tell},
        servant::Object,
        shared::Shared,
    },
};

/// How many requests wait at most, unless something else is asked for.
const CAPACITY: usize = 1024;

/// What an object is given when it is activated.
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) tell: Option<Tell>,
    pub(super) ends_on_panic: bool,
}

/// An object on its way to become an active one; see [`Active::activation`].
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
            settings: Settings {
                limits: Limits {
                    capacity: CAPACITY,
                    waits: false,
                    marks: None,
                },
                tell: None,
                ends_on_panic: false,
            },
            placement: None,
            priority: Priority::Normal,
            key: None,
        }
    }

    /// How many requests wait at most, at least 1; without this, 1024. The one that runs is none of them.
    pub fn capacity(mut self, requests: usize) -> Self {
        self.settings.limits.capacity = requests.max(1);
        self
    }

    /// What is done with a call when the list is full; without this it is refused.
    pub fn when_full(mut self, what: WhenFull) -> Self {
        self.settings.limits.waits = what == WhenFull::Wait;
        self
    }

    /// Calls `tell` with [`Pressure::High`] when so many requests wait as `high` says, and after that with [`Pressure::Low`] when
    /// there are no more than `low`: so a list that swings about one length is told of once. It is called by whoever makes the list
    /// longer or shorter, one call at a time and in order, with no lock held. The high mark is at least 1, and the low one below it.
    ///
    /// What is measured is this object's list alone. [`ObjectRef::pressure`](crate::active::ObjectRef::pressure) says how it is now.
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

    /// The object ends when one of its methods panics, and all calls that wait are answered
    /// [`CallError::Ended`](crate::active::CallError::Ended). Without this it lives on, as the method left it.
    pub fn end_on_panic(mut self) -> Self {
        self.settings.ends_on_panic = true;
        self
    }

    /// The locality that it lives in; without this, one after the other.
    pub fn place(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Its priority among the foms of its locality. The priority of a method is another thing: it is among the requests of one
    /// object.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Names it in listings; no two live objects of one type have the same key.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Makes it an active object of this runtime.
    ///
    /// # Errors
    ///
    /// [`NotActivated`] with the object, when the runtime is full or shuts down, the key is in use, or there is no such locality.
    pub fn start(self, runtime: &Runtime) -> Result<A::Proxy, NotActivated<A>> {
        let shared = Arc::new(Shared::new(Arc::clone(runtime.world()), self.settings));
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
                runtime.world().objects.add(Arc::downgrade(&shared) as _);
                Ok(proxy.into())
            }
            Err(refused) => Err(NotActivated {
                reason: refused.reason(),
                object: refused.into_operation().into_object(),
            }),
        }
    }
}
