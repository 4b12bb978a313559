//! The runtime, as its foms know it: what they share, and the few calls that go up.

use std::{
    any::{Any, TypeId},
    fmt,
    ops::Deref,
    ptr::{self, NonNull},
    sync::Arc,
};

use crate::fom::{Env, Header, Order, PartTicket};
use fom_protocol::Reader;

/// What a runtime does for its foms. All calls are rare: what each transition needs is in [`Env`].
pub(crate) trait Host: Any + Send + Sync {
    /// Returns what the foms share. It lies at the beginning of this value.
    fn env(&self) -> &Env;

    /// Returns the number of the next event that this thread sends. No other event of this run has it.
    fn next_event(&self) -> u64;

    /// Gives the key of a fom that has ended to the next fom.
    fn leave_key(&self, fom: &Header);

    /// Grants a fom that came back its key, if that is free. By now the foms that had the key before it have it again.
    fn settle_key(&self, fom: &Header);

    /// Asks for the key of this fom. Its delay has ended.
    fn enter_key(&self, fom: &Header, order: Order);

    /// Makes the handler of this locality check everything once more.
    fn poke(&self, home: usize);

    /// Called after a push into the inbox of this locality, unless its reader is awake and the locality is there.
    fn posted(&self, home: usize, reader: Reader);

    /// Takes back the core of the fom's home, for the thread that runs the fom and has lost it.
    fn regain(&self, fom: &Header);

    /// Tells the packages on top that a function of this fom panicked.
    fn panicked(&self, fom: &Header, message: &str);

    /// Tells a part of the locality that its fom has ended, on the thread that has the core.
    fn part_ended(&self, ticket: PartTicket);
}

/// An owned reference to a runtime. It derefs to what the foms share.
pub(crate) struct EnvRef {
    /// The beginning of the [`Host`], which begins with its [`Env`]. The value owns one count of the host's `Arc`. The
    /// pointer may be used for the whole host.
    start: NonNull<Env>,
}

// SAFETY: equivalent to an `Arc<dyn Host>`, and a host is `Send` and `Sync`.
unsafe impl Send for EnvRef {}
// SAFETY: as above.
unsafe impl Sync for EnvRef {}

impl EnvRef {
    /// # Panics
    ///
    /// Panics if the host does not begin with its [`Env`], or if this is not the host of that [`Env`].
    fn new(host: Arc<dyn Host>) -> Self {
        let env = ptr::from_ref(host.env());
        let (is_whole, type_id) = (host.env().is_of(&host), host.env().host_type());
        assert!(is_whole && type_id == (*host).type_id(), "another host");
        let start = Arc::into_raw(host).cast_mut().cast::<Env>();
        assert!(ptr::eq(start, env), "a host begins with its environment");
        Self {
            // SAFETY: the pointer of an `Arc` is not null.
            start: unsafe { NonNull::new_unchecked(start) },
        }
    }

    /// Returns the runtime for its rare calls.
    pub(crate) fn host(&self) -> &dyn Host {
        // SAFETY: `new` has checked that this is the host of the environment. The count of `self` keeps it alive.
        unsafe { &*self.host_ptr() }
    }

    /// Returns the runtime, if it is of this type.
    #[inline]
    pub(crate) fn host_of<H: Host>(&self) -> Option<&H> {
        let is = self.host_type() == TypeId::of::<H>();
        // SAFETY: `new` has checked the type of the host. The pointer leads to its beginning, and the count of `self`
        // keeps it alive.
        is.then(|| unsafe { self.start.cast::<H>().as_ref() })
    }

    /// Returns whether this is the runtime of that environment.
    #[inline]
    pub(crate) fn is(&self, env: &Env) -> bool {
        ptr::eq(self.start.as_ptr(), env)
    }

    /// Returns the beginning of the host. The pointer may be used for the whole host while `self` is there.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<Env> {
        self.start
    }
}

impl Env {
    /// Returns an owned reference to the runtime.
    ///
    /// # Panics
    ///
    /// Panics if the runtime is not made yet, or is being dropped.
    pub(crate) fn owned(&self) -> EnvRef {
        EnvRef::new(self.upgrade().expect("the runtime is borrowed"))
    }
}

impl Deref for EnvRef {
    type Target = Env;

    #[inline]
    fn deref(&self) -> &Env {
        // SAFETY: the count of `self` keeps the host alive, and the environment is a part of it that never moves.
        unsafe { self.start.as_ref() }
    }
}

impl Clone for EnvRef {
    fn clone(&self) -> Self {
        // SAFETY: the count of `self` keeps the host alive, and the pointer is that of its `Arc`.
        unsafe { Arc::increment_strong_count(self.host_ptr()) };
        Self { start: self.start }
    }
}

impl Drop for EnvRef {
    fn drop(&mut self) {
        // SAFETY: this is the count of `self`, which is given up only here.
        drop(unsafe { Arc::from_raw(self.host_ptr()) });
    }
}

impl fmt::Debug for EnvRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvRef")
    }
}
