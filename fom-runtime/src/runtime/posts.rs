//! Messages to localities that are waited for, or called off, together.

use std::{fmt, sync::Arc};

use tokio::sync::mpsc;

use crate::{
    runtime::{CallError, Local, Runtime},
    sync::atomic::{AtomicBool, Ordering},
};

/// A set of messages to localities. See [`Runtime::posts`].
///
/// Dropping it leaves its messages on their way.
pub struct Posts {
    runtime: Runtime,
    off: Arc<AtomicBool>,
    /// Each message has one until it is gone.
    pass: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_the_way = self.pass.strong_count() - 1;
        write!(f, "Posts({on_the_way} on the way)")
    }
}

impl Runtime {
    /// A set of messages to localities, with none in it: for whoever must know when the last of them has run, or that none will
    /// run any more.
    ///
    /// ```
    /// # use fom_runtime::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let runtime = Runtime::builder()
    ///     .localities(2)
    ///     .locality_data(|_| Ok::<_, BoxError>(0_u64))
    ///     .build()?;
    /// let posts = runtime.posts();
    /// for n in 0..10 {
    ///     posts.post(n % 2, move |local| *local.data::<u64>() += n as u64)?;
    /// }
    /// posts.done().await;
    /// assert_eq!(runtime.reduce(|local| *local.data::<u64>(), |a, b| a + b).await?, 45);
    /// # Ok(()) }
    /// ```
    pub fn posts(&self) -> Posts {
        let (pass, gone) = mpsc::channel(1);
        Posts {
            runtime: Self::of(&self.world),
            off: Arc::default(),
            pass,
            gone,
        }
    }
}

impl Posts {
    /// As [`Runtime::post`].
    ///
    /// # Errors
    ///
    /// As there; then it is not in the set.
    pub fn post(
        &self,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>) + Send + 'static,
    ) -> Result<(), CallError> {
        let (off, pass) = (Arc::clone(&self.off), self.pass.clone());
        self.runtime.post(locality, move |local| {
            // Until `f` is gone, with what it owns.
            let _pass = pass;
            let f = f;
            if !off.load(Ordering::Acquire) {
                f(local);
            }
        })
    }

    /// No more are posted: waits until each has run, or was dropped because the runtime ended before. In a phase this waits
    /// without the locality, so messages to it run meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the messages run all the same.
    pub async fn done(self) {
        let Self { pass, mut gone, .. } = self;
        drop(pass);
        // Nothing is ever sent: it ends with the last pass.
        gone.recv().await;
    }

    /// Calls off those that have not begun, and waits for those that have: when this returns none runs, and none will.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, they are called off all the same.
    pub async fn cancel(self) {
        self.off.store(true, Ordering::Release);
        self.done().await;
    }
}
