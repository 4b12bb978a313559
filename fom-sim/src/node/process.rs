//! A node that runs a program of its own.

use std::{fmt, future::Future, marker::PhantomData};

use super::{Lost, Made, Node};

/// A node that runs a program of its own, which [`Sim::process`](crate::Sim::process) starts. `T` stands for the program. Clones
/// are the same node.
pub struct Process<T> {
    node: Node,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Process<T> {
    fn clone(&self) -> Self {
        Self::of(self.node.clone())
    }
}

impl<T> fmt::Debug for Process<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.node.name()).finish()
    }
}

impl<T> Process<T> {
    pub(crate) fn of(node: Node) -> Self {
        Self {
            node,
            of: PhantomData,
        }
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Ends the node, as [`Node::kill`] says.
    pub fn kill(&self) {
        self.node.kill();
    }
}

impl<T: Clone + Send + Sync + 'static> Process<T> {
    /// Returns what stands for the program. While the node is down, the call waits until it has started again.
    pub fn get(&self) -> T {
        value(self.node.made())
    }

    /// Asks the program as over a network, as [`Node::call`] does.
    ///
    /// # Errors
    ///
    /// Fails with [`Lost`], as [`Node::call`] says.
    ///
    /// # Panics
    ///
    /// Panics as [`Node::call`] does.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request goes on.
    pub fn call<R, F, A>(
        &self,
        request: F,
    ) -> impl Future<Output = Result<R, Lost>> + Send + use<R, F, A, T>
    where
        R: Send + 'static,
        F: FnOnce(T) -> A + Send + 'static,
        A: Future<Output = R>,
    {
        self.node.ask(|made| request(value(made)))
    }
}

fn value<T: Clone + 'static>(made: Made) -> T {
    match made {
        Made::Value(value) => value.downcast_ref::<T>().cloned(),
        Made::Runtime(_) => None,
    }
    .expect("the node was made with this type")
}
