//! Requests to a node, over a network that delays and loses messages.

use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_protocol::{
    panic_message,
    sync::{block_on, sleep},
};
use fom_runtime::Runtime;
use tokio::sync::oneshot;

use super::{Here, Made, Node, lock};
use crate::baton::Group;

/// The time after which a caller learns that its connection is broken.
const BROKEN: Duration = Duration::from_millis(1);

/// The answer to a [request](Node::call) is lost: the node was killed or down, or the network lost a message. It is not known
/// whether the node has executed the request. The caller can ask again, and submit the operation with the same
/// `once` key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The name of the node.
    pub node: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the answer of the node {} is lost, and the request may be executed; ask again with the same `once` key",
            self.node
        )
    }
}

impl Error for Lost {}

/// A request under way.
pub(crate) trait Call: Send + Sync {
    /// Lets the caller know that the answer is lost.
    fn breaks(&self);
}

/// The way back to the caller. Empty if the request has broken.
struct Answer<T>(Mutex<Option<oneshot::Sender<T>>>);

impl<T> Answer<T> {
    /// Takes the way back. Its use wakes the caller, and another thread may run then: never with the lock.
    fn take(&self) -> Option<oneshot::Sender<T>> {
        lock(&self.0).take()
    }
}

impl<T: Send> Call for Answer<T> {
    fn breaks(&self) {
        drop(self.take());
    }
}

impl Node {
    /// Asks the node as over a network, from a task of the test or from a phase of another node. `request` gets the runtime of
    /// the node; it submits operations and waits for them, as a connection of a server does. It runs on a thread of its own.
    ///
    /// ```
    /// # use fom_runtime::prelude::*;
    /// # use fom_sim as sim;
    /// # struct Ping;
    /// # #[fom(operation(Ping), transient)]
    /// # enum Pinging { #[phase(start, sync, to(Done))] Begin, #[phase(end)] Done }
    /// # impl PingingTransitions for Ping {
    /// #     fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// sim::explore(0..10, |sim| {
    ///     let node = sim.node("node", || Runtime::builder().localities(1));
    ///     sim.during(|chaos| chaos.kill("node", 1));
    ///     sim.spawn(async move {
    ///         while node.call(async |runtime| runtime.submit(Ping).start()?.await).await.is_err() {
    ///             // Killed: ask again.
    ///         }
    ///     });
    ///     sim.settle(std::time::Duration::from_secs(60));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`Lost`] if the node is down, as soon as it has started again; if the node is killed meanwhile; and if the
    /// network loses the request or the answer.
    ///
    /// # Panics
    ///
    /// Panics if the system has no thread for the request. If `request` panics, the run has failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request goes on.
    pub fn call<T, F, A>(
        &self,
        request: F,
    ) -> impl Future<Output = Result<T, Lost>> + Send + use<T, F, A>
    where
        T: Send + 'static,
        F: FnOnce(Runtime) -> A + Send + 'static,
        A: Future<Output = T>,
    {
        self.ask(move |made| request(made.runtime()))
    }

    /// Asks what runs on the node.
    pub(super) fn ask<T, F, A>(
        &self,
        request: F,
    ) -> impl Future<Output = Result<T, Lost>> + Send + use<T, F, A>
    where
        T: Send + 'static,
        F: FnOnce(Made) -> A + Send + 'static,
        A: Future<Output = T>,
    {
        let (send, answer) = oneshot::channel();
        let from = Here::get().map_or_else(String::new, |here| here.name());
        let (node, send) = (self.clone(), Arc::new(Answer(Mutex::new(Some(send)))));
        let name = format!("{from}: a request to {}", self.name());
        let main = move || node.answers(&from, &send, request);
        self.world().spawn_task(name, main);
        let lost = Lost {
            node: self.name().to_owned(),
        };
        async move { answer.await.map_err(|_| lost) }
    }

    fn answers<T, F, A>(&self, from: &str, answer: &Arc<Answer<T>>, request: F)
    where
        T: Send + 'static,
        F: FnOnce(Made) -> A,
        A: Future<Output = T>,
    {
        let world = self.world();
        let weak = Arc::downgrade(answer);
        if !world.arrives(from, self.name()) {
            sleep(BROKEN);
            return answer.breaks();
        }
        let Some((made, life)) = self.serve(weak) else {
            // The caller learns that the node was down, and that it is there again.
            drop(self.made());
            return answer.breaks();
        };
        // From now on, a kill ends this thread, too.
        world.baton.join(life.group());
        let here = Here {
            world: Arc::clone(world),
            life: Some(life),
        };
        let value = here.with(|| {
            let served = std::panic::AssertUnwindSafe(|| block_on(request(made)));
            std::panic::catch_unwind(served)
        });
        match value {
            Ok(value) => {
                if world.arrives(self.name(), from) {
                    if let Some(answer) = answer.take() {
                        // The caller may have gone.
                        let _ = answer.send(value);
                    }
                } else {
                    sleep(BROKEN);
                    answer.breaks();
                }
            }
            Err(panic) => world
                .baton
                .fail(format!("a request panicked: {}", panic_message(panic))),
        }
        world.baton.join(Group::Test);
    }
}
