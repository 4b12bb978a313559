//! Sets of messages to localities, to wait for or cancel together.

use std::{fmt, sync::Arc};

use fom_protocol::sync::atomic::{AtomicBool, Ordering};
use fom_runtime::{Runtime, context::Local, error::CallError};
use tokio::sync::mpsc;

/// A set of messages to localities. See [`MessagesExt::posts`].
///
/// Dropping it leaves its messages on their way.
pub struct Posts {
    runtime: Runtime,
    off: Arc<AtomicBool>,
    /// Each message has a clone of this until it is gone.
    pass: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_the_way = self.pass.strong_count() - 1;
        write!(f, "Posts({on_the_way} on the way)")
    }
}

/// Adds sets of messages to a [`Runtime`].
pub trait MessagesExt {
    /// Creates an empty set of messages to localities. Use it to learn when the last message has run, or to make sure
    /// that none runs any more.
    ///
    /// ```
    /// # use fom_patterns::prelude::*;
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
    fn posts(&self) -> Posts;
}

impl MessagesExt for Runtime {
    fn posts(&self) -> Posts {
        let (pass, gone) = mpsc::channel(1);
        Posts {
            runtime: self.detached(),
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
    /// As [`Runtime::post`]; then the message is not in the set.
    pub fn post(
        &self,
        locality: usize,
        f: impl FnOnce(&mut Local<'_>) + Send + 'static,
    ) -> Result<(), CallError> {
        let (off, pass) = (Arc::clone(&self.off), self.pass.clone());
        self.runtime.post(locality, move |local| {
            // Lives until `f` is gone, with what it owns.
            let _pass = pass;
            let f = f;
            if !off.load(Ordering::Acquire) {
                f(local);
            }
        })
    }

    /// Ends the set, and waits until each message has run, or was dropped because the runtime ended before. In a phase
    /// the fom waits without its locality, so messages to that locality run meanwhile.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the messages run all the same.
    pub async fn done(self) {
        let Self { pass, mut gone, .. } = self;
        drop(pass);
        // Nothing is ever sent: this returns when the last pass is gone.
        gone.recv().await;
    }

    /// Cancels the messages that have not begun, and waits for the messages that have. When this method returns, no
    /// message of the set runs, and none will.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the messages are cancelled all the same.
    pub async fn cancel(self) {
        self.off.store(true, Ordering::Release);
        self.done().await;
    }
}
