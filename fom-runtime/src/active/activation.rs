//! How an object becomes an active one.

use std::{fmt, sync::Arc};

use crate::{
    Key, Placement, Priority, Runtime,
    active::{Active, NotActivated, Proxy, servant::Object, shared::Shared},
};

/// How many requests wait at most, unless something else is asked for.
const CAPACITY: usize = 1024;

/// What an object is given when it is activated.
pub(super) struct Settings {
    pub(super) capacity: usize,
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
            .field("capacity", &self.settings.capacity)
            .finish_non_exhaustive()
    }
}

impl<A: Active> Activation<A> {
    pub(super) fn new(object: A) -> Self {
        Self {
            object,
            settings: Settings {
                capacity: CAPACITY,
                ends_on_panic: false,
            },
            placement: None,
            priority: Priority::Normal,
            key: None,
        }
    }

    /// How many requests wait at most; without this, 1024. The one that runs is none of them.
    pub fn capacity(mut self, requests: usize) -> Self {
        self.settings.capacity = requests;
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
                Ok(proxy.into())
            }
            Err(refused) => Err(NotActivated {
                reason: refused.reason(),
                object: refused.into_operation().into_object(),
            }),
        }
    }
}
