//! The called object as its calls see it, independent of its type; and the object that runs on this thread.

use std::{cell::RefCell, sync::Arc};

use fom_protocol::sync::thread_local;
use fom_runtime::{FomId, Runtime};

use crate::active::Pressure;

/// The place of a request in the activation list: by priority, then by age.
pub(super) type Place = (u8, u64);

pub(super) trait ObjectHandle: Send + Sync {
    fn name(&self) -> &'static str;
    fn runtime(&self) -> &Runtime;
    fn id(&self) -> FomId;
    /// Returns the index of the object's locality.
    fn locality(&self) -> usize;
    /// Counts the requests that wait for their turn.
    fn queued(&self) -> usize;
    /// Counts the waiting requests and the running request.
    fn load(&self) -> usize;
    /// Returns whether a request or its guard runs.
    fn is_busy(&self) -> bool;
    fn pressure(&self) -> Pressure;
    fn has_ended(&self) -> bool;
    /// Takes a request back, or tells its method to stop.
    fn cancel(&self, place: Place);
    /// Takes back the request of a dropped call, if the request still waits for room.
    fn withdraw(&self, place: Place);
    /// Returns whether the running request was told to stop.
    fn is_cancelled(&self) -> bool;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn ObjectHandle>>> = RefCell::new(None);
}

/// Runs `f` as this object's code.
pub(super) fn as_current<R>(handle: &Arc<dyn ObjectHandle>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<dyn ObjectHandle>>);

    impl Drop for Back {
        fn drop(&mut self) {
            let before = self.0.take();
            let ours = CURRENT.with(|current| current.replace(before));
            // Dropped outside of the cell: it may be the last reference.
            drop(ours);
        }
    }

    let before = CURRENT.with(|current| current.replace(Some(Arc::clone(handle))));
    let _back = Back(before);
    f()
}

/// Returns whether this thread runs this object.
pub(super) fn is_current(handle: &Arc<dyn ObjectHandle>) -> bool {
    CURRENT.with(|current| {
        let current = current.borrow();
        current
            .as_ref()
            .is_some_and(|current| std::ptr::addr_eq(Arc::as_ptr(current), Arc::as_ptr(handle)))
    })
}

/// Returns whether the call that the running method answers was cancelled, or has no time left. A long method that does
/// not await should check this from time to time and return early. Outside a method of an active object, returns
/// `false`.
///
/// ```
/// use fom_patterns::prelude::*;
///
/// #[derive(Default)]
/// struct Searcher;
///
/// #[active]
/// impl Searcher {
///     pub fn count(&mut self, most: u64) -> u64 {
///         (0..most).take_while(|_| !fom_patterns::active::is_cancelled()).count() as u64
///     }
/// }
/// # let runtime = Runtime::builder().localities(1).build()?;
/// # assert_eq!(Searcher.activate(&runtime)?.count(7).wait()?, 7);
/// # Ok::<(), BoxError>(())
/// ```
pub fn is_cancelled() -> bool {
    CURRENT.with(|current| {
        let current = current.borrow();
        current
            .as_ref()
            .is_some_and(|current| current.is_cancelled())
    })
}
