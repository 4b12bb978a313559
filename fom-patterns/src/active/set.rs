//! Calls in the order in which they are answered.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use fom_protocol::sync::block_on;
use fom_runtime::error::TimedOut;
use futures::{StreamExt, future, stream::FuturesUnordered};

use crate::active::{ActiveCallError, Call, call::may_block};

/// A call and its number.
struct Numbered<T>(usize, Call<T>);

impl<T> Future for Numbered<T> {
    type Output = (usize, Result<T, ActiveCallError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let number = self.0;
        Pin::new(&mut self.1)
            .poll(cx)
            .map(|outcome| (number, outcome))
    }
}

/// A set of calls. Their outcomes are taken in the order in which they arrive. The calls can go to different objects.
///
/// ```
/// use fom_patterns::{active::CallSet, prelude::*};
///
/// struct Echo;
///
/// #[active]
/// impl Echo {
///     pub fn say(&self, word: &'static str) -> &'static str {
///         word
///     }
/// }
///
/// # let runtime = Runtime::builder().localities(1).build()?;
/// let echo = Echo.activate(&runtime)?;
/// let mut calls: CallSet<_> = ["one", "two"].map(|word| echo.say(word)).into_iter().collect();
/// while let Some((number, word)) = calls.wait_next() {
///     assert_eq!(word?, ["one", "two"][number]);
/// }
/// # Ok::<(), BoxError>(())
/// ```
pub struct CallSet<T> {
    calls: FuturesUnordered<Numbered<T>>,
    pushed: usize,
}

impl<T> Default for CallSet<T> {
    fn default() -> Self {
        Self {
            calls: FuturesUnordered::new(),
            pushed: 0,
        }
    }
}

impl<T> fmt::Debug for CallSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallSet({} left)", self.len())
    }
}

impl<T> CallSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call and returns its number: the number of calls added before it.
    pub fn push(&mut self, call: Call<T>) -> usize {
        let number = self.pushed;
        self.pushed += 1;
        self.calls.push(Numbered(number, call));
        number
    }

    /// Returns the number of outcomes not taken yet.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether all outcomes were taken.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the next outcome with the number of its call, or `None` if all outcomes were taken.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<(usize, Result<T, ActiveCallError>)> {
        self.calls.next().await
    }

    /// Like [`next`](Self::next), but waits at most `time`, on the clock of the calls' runtime.
    ///
    /// # Errors
    ///
    /// Fails with [`TimedOut`] if no call was answered by then. The calls continue.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn next_within(
        &mut self,
        time: Duration,
    ) -> Result<Option<(usize, Result<T, ActiveCallError>)>, TimedOut> {
        let Some(Numbered(_, first)) = self.calls.iter().next() else {
            return Ok(None);
        };
        let sleep = first.handle().runtime().sleep(time);
        match future::select(self.calls.next(), sleep).await {
            future::Either::Left((next, _)) => Ok(next),
            future::Either::Right(_) => Err(TimedOut(time)),
        }
    }

    /// Like [`next`](Self::next), but blocks the thread. A thread must not wait for some calls. If no other call is
    /// answered, such a call ends with [`ActiveCallError::OnHandler`] or [`ActiveCallError::OwnObject`].
    pub fn wait_next(&mut self) -> Option<(usize, Result<T, ActiveCallError>)> {
        let refused = self
            .calls
            .iter()
            .find_map(|Numbered(number, call)| Some((*number, may_block(call).err()?)));
        let Some((number, error)) = refused else {
            return block_on(self.next());
        };
        // Answered calls come first.
        if let Some(next) = futures::FutureExt::now_or_never(self.next()).flatten() {
            return Some(next);
        }
        for Numbered(of, call) in std::mem::take(&mut self.calls) {
            match of == number {
                true => call.cancel(),
                false => self.calls.push(Numbered(of, call)),
            }
        }
        Some((number, Err(error)))
    }
}

impl<T> Extend<Call<T>> for CallSet<T> {
    fn extend<I: IntoIterator<Item = Call<T>>>(&mut self, calls: I) {
        for call in calls {
            self.push(call);
        }
    }
}

impl<T> FromIterator<Call<T>> for CallSet<T> {
    fn from_iter<I: IntoIterator<Item = Call<T>>>(calls: I) -> Self {
        let mut set = Self::new();
        set.extend(calls);
        set
    }
}
