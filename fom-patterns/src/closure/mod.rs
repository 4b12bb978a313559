//! Operations from a closure: a fom without a declaration.
//!
//! A closure is one phase. If work has more than one phase, events or deadlines, or if it must survive a restart, declare
//! it with `#[fom]`.

use std::{
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fom_runtime::{
    Cx, FomId, Handle, Key, Refused, Runtime, error::BoxError, fom, submission::Placement,
    time::Sleep,
};

/// Adds foms from closures to a [`Runtime`].
pub trait ClosureExt {
    /// Runs a closure as a fom with this key, in the home of the key. The closure runs after the earlier closures of the
    /// key with the same result type. The fom ends when the closure returns. Its value is [`Closure::into_value`].
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which holds the operation with the closure.
    ///
    /// ```
    /// use fom_patterns::prelude::*;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), BoxError> {
    /// let runtime = Runtime::new()?;
    /// let text = String::from("hello");
    /// let handle = runtime.run("alice", async move |cx| {
    ///     cx.sleep(std::time::Duration::from_millis(1)).await;
    ///     Ok(text.len())
    /// })?;
    /// let ended = handle.await?;
    /// assert_eq!(ended.operation.into_value(), Some(5));
    /// # Ok(())
    /// # }
    /// ```
    fn run<T, F, R>(
        &self,
        key: impl Into<Key>,
        closure: F,
    ) -> Result<Handle<Closure<T>>, Refused<Closure<T>>>
    where
        T: Send + 'static,
        F: FnOnce(ClosureCx) -> R + Send + 'static,
        R: Future<Output = Result<T, BoxError>> + Send + 'static;

    /// Runs a closure as one fom in each locality. The first handle is of locality 0.
    ///
    /// # Errors
    ///
    /// Fails with the first [`Refused`]. Foms that were started before go on.
    fn run_in_each<T, F, R>(
        &self,
        closure: F,
    ) -> Result<Vec<Handle<Closure<T>>>, Refused<Closure<T>>>
    where
        T: Send + 'static,
        F: FnOnce(ClosureCx) -> R + Clone + Send + 'static,
        R: Future<Output = Result<T, BoxError>> + Send + 'static;
}

impl ClosureExt for Runtime {
    fn run<T, F, R>(
        &self,
        key: impl Into<Key>,
        closure: F,
    ) -> Result<Handle<Closure<T>>, Refused<Closure<T>>>
    where
        T: Send + 'static,
        F: FnOnce(ClosureCx) -> R + Send + 'static,
        R: Future<Output = Result<T, BoxError>> + Send + 'static,
    {
        self.submit(Closure::new(closure)).key(key).queue().start()
    }

    fn run_in_each<T, F, R>(
        &self,
        closure: F,
    ) -> Result<Vec<Handle<Closure<T>>>, Refused<Closure<T>>>
    where
        T: Send + 'static,
        F: FnOnce(ClosureCx) -> R + Clone + Send + 'static,
        R: Future<Output = Result<T, BoxError>> + Send + 'static,
    {
        let each = 0..self.localities();
        let start = |index| {
            let place = Placement::Locality(index);
            self.submit(Closure::new(closure.clone()))
                .place(place)
                .start()
        };
        each.map(start).collect()
    }
}

/// What a closure gets of its fom.
#[derive(Clone, Debug)]
pub struct ClosureCx {
    runtime: Runtime,
    id: FomId,
    locality: usize,
}

impl ClosureCx {
    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.id
    }

    /// Returns the index of the locality in which the fom runs.
    pub fn locality(&self) -> usize {
        self.locality
    }

    /// Returns the runtime of the fom. This handle does not keep the runtime alive.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Waits for this time on the runtime's clock.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.runtime.sleep(time)
    }
}

type Running<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// The operation of a closure. It is `Sync` whatever the closure has, so that `?` takes a refused one.
pub struct Closure<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    New(Box<dyn FnOnce(ClosureCx) -> Running<T> + Send>),
    Taken,
    Ended(T),
}

impl<T> fmt::Debug for Closure<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closure").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Closure<T> {
    fn new<F, R>(closure: F) -> Self
    where
        F: FnOnce(ClosureCx) -> R + Send + 'static,
        R: Future<Output = Result<T, BoxError>> + Send + 'static,
    {
        let closure = Box::new(|cx| Box::pin(closure(cx)) as Running<T>);
        Self {
            state: Mutex::new(State::New(closure)),
        }
    }

    /// Returns what the closure returned, or `None` if it has not ended well.
    pub fn into_value(self) -> Option<T> {
        match self.state.into_inner() {
            Ok(State::Ended(value)) => Some(value),
            _ => None,
        }
    }

    /// Takes the state out, and puts this one in its place.
    fn replace(&mut self, state: State<T>) -> State<T> {
        let now = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(now, state)
    }
}

/// The phases of a closure.
#[fom(operation("Closure<T>"), generics("T: Send + 'static"), transient)]
pub enum ClosurePhase {
    /// The closure runs.
    #[phase(start, to(Ended))]
    Run,
    /// The closure has returned a value.
    #[phase(end)]
    Ended,
}

impl<T: Send + 'static> ClosurePhaseTransitions for Closure<T> {
    async fn run(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let State::New(closure) = self.replace(State::Taken) else {
            return Err("the closure ran before".into());
        };
        let cx = ClosureCx {
            runtime: cx.runtime(),
            id: cx.id(),
            locality: cx.locality(),
        };
        let value = closure(cx).await?;
        self.replace(State::Ended(value));
        Ok(())
    }
}
