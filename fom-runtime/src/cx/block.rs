//! Blocking sections: a thread that blocks leaves its locality to another thread.

use std::{any::type_name, fmt, marker::PhantomData, ops::Deref, sync::Arc};

use crate::{
    cx::Cx,
    fom::{BlockError, Carried, FomAddress, Header},
    id::{FomId, Key},
    instant::Instant,
    locality::Away,
    operation::Operation,
    runtime::{Runtime, Shared, Submission},
    step_key::StepKey,
};

impl<E> Cx<'_, E> {
    /// Begins a blocking section (enter-block): until the guard is dropped, this thread may block, and another thread
    /// runs the locality. The drop of the guard (leave-block) waits until this fom has its locality back. The fom comes
    /// before the queue of the locality.
    ///
    /// The section runs beside the locality, so the locality's data is out of reach there: the guard borrows this
    /// context. Code that holds the guard over an `.await` does not compile.
    ///
    /// ```compile_fail,E0499
    /// # fn count(cx: &mut fom_runtime::Cx<'_>) {
    /// let guard = cx.enter_block().unwrap();
    /// cx.local(|count: &mut u64| *count += 1); // another thread has the locality now
    /// drop(guard);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`BlockError`] if no thread can take over; the fom still has its locality. At
    /// [`Followers::most`](crate::config::Followers::most) threads, this method waits until another section ends.
    pub fn enter_block(&mut self) -> Result<BlockGuard<'_>, BlockError> {
        let away = crate::locality::enter_block()?;
        Ok(BlockGuard {
            _away: away,
            cx: BlockingCx {
                fom: self.fom,
                not_send: PhantomData,
            },
        })
    }

    /// For generated code: runs a whole phase function between enter-block and leave-block.
    #[doc(hidden)]
    pub fn blocking<T>(&mut self, f: impl FnOnce(&mut BlockingCx<'_>) -> T) -> T {
        match self.enter_block() {
            Ok(mut guard) => f(&mut guard.cx),
            // The phase function cannot return this error. The fence around each step recognizes the payload, and no
            // panic hook runs.
            Err(error) => std::panic::resume_unwind(Box::new(error)),
        }
    }
}

/// The context in a blocking section, without the locality's data, events and waits.
pub struct BlockingCx<'a> {
    fom: &'a Header,
    /// A section belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl fmt::Debug for BlockingCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.fom;
        write!(
            f,
            "BlockingCx({} {} in {})",
            header.type_name(),
            header.id(),
            header.phase_name()
        )
    }
}

impl BlockingCx<'_> {
    /// Returns the address of this fom without its operation type, for packages on top of the runtime.
    pub fn fom_address(&self) -> FomAddress {
        FomAddress::of(self.fom)
    }

    /// Returns the fom's id.
    pub fn id(&self) -> FomId {
        self.fom.id()
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&Key> {
        self.fom.key()
    }

    /// Returns the number of failed attempts at this phase before this one.
    pub fn attempt(&self) -> u32 {
        self.fom.visit().attempt()
    }

    /// Returns the idempotency key for calls from this section. It names this visit of this phase or, once the function
    /// has taken an event, the last event that it took. See [`StepKey`].
    pub fn step_key(&self) -> StepKey {
        self.fom.visit().step_key()
    }

    /// Returns whether the fom was told to end. This is true after a cancel that the phase hears, after the deadline of
    /// the phase, and when a shutdown no longer waits for the fom. The result of the function still counts.
    pub fn is_cancelled(&self) -> bool {
        self.fom.interrupt().is_some()
    }

    /// Returns the time on the runtime's clock.
    pub fn now(&self) -> Instant {
        self.fom.env().clock.now()
    }

    /// Returns a handle to the runtime, for example to find other foms.
    pub fn runtime(&self) -> Runtime {
        Runtime::of(Shared::of(self.fom))
    }

    /// Submits an operation to the runtime of this fom.
    #[inline(always)]
    pub fn submit<O: Operation>(&self, operation: O) -> Submission<'_, O> {
        Submission::new(Shared::of(self.fom), operation)
    }

    /// As [`Cx::carried`](crate::Cx::carried).
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Carried::of(self.fom)?.get()
    }

    /// Returns the resource of this type.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without the resource; the fom then fails with that message.
    pub fn resource<T: Send + Sync + 'static>(&self) -> &T {
        match Shared::of(self.fom).resources.get() {
            Some((resource, _)) => resource,
            None => panic!(
                "there is no resource of type `{0}`; give one to `Builder::resource`",
                type_name::<T>()
            ),
        }
    }
}

/// A blocking section; see [`Cx::enter_block`].
#[must_use = "the section ends when this is dropped"]
pub struct BlockGuard<'a> {
    _away: Away,
    cx: BlockingCx<'a>,
}

impl fmt::Debug for BlockGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cx, f)
    }
}

impl<'a> Deref for BlockGuard<'a> {
    type Target = BlockingCx<'a>;

    fn deref(&self) -> &BlockingCx<'a> {
        &self.cx
    }
}
