//! What a call knows of the object that it went to, whatever its type; and which object runs on this thread.

use std::{cell::RefCell, sync::Arc};

use crate::{FomId, active::Pressure, locality::Home, runtime::World, sync::thread_local};

/// The place of a request in the activation list: by priority, then by age.
pub(super) type Place = (u8, u64);

pub(super) trait Station: Send + Sync {
    fn name(&self) -> &'static str;
    fn world(&self) -> &Arc<World>;
    fn id(&self) -> FomId;
    /// Where the object lives.
    fn home(&self) -> Home;
    /// Requests that wait for their turn.
    fn queued(&self) -> usize;
    /// Those, and the one that runs.
    fn load(&self) -> usize;
    /// Whether a request runs.
    fn is_busy(&self) -> bool;
    fn pressure(&self) -> Pressure;
    fn has_ended(&self) -> bool;
    /// Takes a request back, or tells its method to stop.
    fn cancel(&self, place: Place);
    /// Takes a request back that waits for room: its call is dropped.
    fn withdraw(&self, place: Place);
    /// Whether the request that runs now was told to stop.
    fn is_cancelled(&self) -> bool;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Station>>> = RefCell::new(None);
}

/// Runs `f` as the object of this station.
pub(super) fn as_current<R>(station: &Arc<dyn Station>, f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<dyn Station>>);

    impl Drop for Back {
        fn drop(&mut self) {
            let before = self.0.take();
            let ours = CURRENT.with(|current| current.replace(before));
            // Not inside the cell: it may be the last one.
            drop(ours);
        }
    }

    let before = CURRENT.with(|current| current.replace(Some(Arc::clone(station))));
    let _back = Back(before);
    f()
}

/// Whether this thread runs this object.
pub(super) fn is_current(station: &Arc<dyn Station>) -> bool {
    CURRENT.with(|current| {
        let current = current.borrow();
        current
            .as_ref()
            .is_some_and(|current| std::ptr::addr_eq(Arc::as_ptr(current), Arc::as_ptr(station)))
    })
}

/// Whether the call that this method answers was cancelled, or has no time left: what takes long and does not await should look
/// now and then, and return early. Outside of a method of an active object: `false`.
///
/// ```
/// use fom_runtime::prelude::*;
///
/// #[derive(Default)]
/// struct Searcher;
///
/// #[active]
/// impl Searcher {
///     pub fn count(&mut self, most: u64) -> u64 {
///         (0..most).take_while(|_| !fom_runtime::active::is_cancelled()).count() as u64
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
