//! Requests to other components, which wake the fom with their answers.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use crate::{
    cx::{Cx, resource},
    fom::{AnyRef, Unanswered, WaitingFor, reference},
    step_key::StepKey,
};
use fom_protocol::{ReplySender, reply, sync::Mutex};

/// The place for the answer to a request. The component that got the request sends the answer. A drop without an answer
/// answers with [`Unanswered`], so each request is answered exactly once.
pub struct Reply<T> {
    to: To<T>,
    /// A box, because most foms are not kept, and each byte here is moved for all of them.
    key: Option<Box<StepKey>>,
}

enum To<T> {
    One(ReplySender<T, AnyRef>),
    Many(Place<T>),
}

/// Where the answer to one of many requests goes.
struct Place<T> {
    /// `None` once the request is answered.
    collector: Option<Arc<Collector<T>>>,
    index: usize,
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.take() {
            // Ignored: if the collector is closed, no fom waits for the answer.
            let _ = collector.put(self.index, Err(Unanswered));
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

impl<T> Reply<T> {
    /// Sends the answer, from any thread.
    ///
    /// # Errors
    ///
    /// Returns the answer if no fom waits for it any more: the fom was cancelled or late, or other answers were enough.
    #[inline]
    pub fn send(self, answer: T) -> Result<(), T> {
        match self.to {
            To::One(to) => to.send(answer),
            To::Many(mut place) => match place.collector.take() {
                Some(collector) => {
                    collector
                        .put(place.index, Ok(answer))
                        .map_err(|answer| match answer {
                            Ok(answer) => answer,
                            Err(Unanswered) => unreachable!("an answer was put in"),
                        })
                }
                None => Err(answer),
            },
        }
    }

    /// Returns the idempotency key of this request, if the fom is kept in a journal. The phase function may run again
    /// after a crash or a failed attempt. The key is then the same if the function makes its requests in the same
    /// order. Each request has its own key, a [`part`](StepKey::part) of [`Cx::step_key`]. Parts count from 1, and from
    /// 1 again after each event that the function takes.
    pub fn step_key(&self) -> Option<StepKey> {
        self.key.as_deref().copied()
    }

    /// Returns whether no fom waits for the answer any more.
    pub fn is_unwanted(&self) -> bool {
        match &self.to {
            To::One(to) => to.is_unwanted(),
            To::Many(place) => place.collector.as_ref().is_none_or(|collector| {
                let all = collector.0.lock();
                all.closed || all.complete()
            }),
        }
    }
}

type Answer<T> = Result<T, Unanswered>;

/// The answers by place, and the place of the first.
type Answers<T> = (Vec<Option<Answer<T>>>, Option<usize>);

/// The answers to many requests. Only the collector wakes the fom: once, with the answer that completes the wait.
struct Collector<T>(Mutex<Collected<T>>);

struct Collected<T> {
    answers: Vec<Option<Answer<T>>>,
    left: usize,
    /// Whether the first real answer is enough.
    any: bool,
    first: Option<usize>,
    closed: bool,
    waker: Option<Waker>,
}

impl<T> Collected<T> {
    fn complete(&self) -> bool {
        self.left == 0 || (self.any && self.first.is_some())
    }
}

impl<T> Collector<T> {
    fn put(&self, place: usize, answer: Answer<T>) -> Result<(), Answer<T>> {
        let waker = {
            let mut all = self.0.lock();
            if all.closed || all.complete() {
                return Err(answer);
            }
            if answer.is_ok() && all.first.is_none() {
                all.first = Some(place);
            }
            all.answers[place] = Some(answer);
            all.left -= 1;
            if all.complete() {
                all.waker.take()
            } else {
                None
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

/// The fom's end of a collector. Dropping it rejects late answers.
struct Collecting<T>(Arc<Collector<T>>);

impl<T> Collecting<T> {
    fn new(requests: usize, any: bool) -> Self {
        Self(Arc::new(Collector(Mutex::new(Collected {
            answers: std::iter::repeat_with(|| None).take(requests).collect(),
            left: requests,
            any,
            first: None,
            closed: false,
            waker: None,
        }))))
    }

    fn poll(&self, waker: &Waker) -> Poll<Answers<T>> {
        let mut all = self.0.0.lock();
        if all.complete() {
            return Poll::Ready((std::mem::take(&mut all.answers), all.first));
        }
        // The old waker may be the user's, so it is dropped without the lock.
        let old = all.waker.replace(waker.clone());
        drop(all);
        drop(old);
        Poll::Pending
    }
}

impl<T> Drop for Collecting<T> {
    fn drop(&mut self) {
        let mut all = self.0.0.lock();
        all.closed = true;
        let left = (std::mem::take(&mut all.answers), all.waker.take());
        drop(all);
        drop(left);
    }
}

impl<E> Cx<'_, E> {
    /// Sends a request to the resource `R` and waits for its answer. `request` is called at once. The component keeps
    /// the [`Reply`] and answers from any thread. Listings show that the fom waits for `R`.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if the component drops the reply.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without the resource; the fom then fails with that message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the answer is rejected; the request itself is not taken back.
    pub async fn call<R, T>(&self, request: impl FnOnce(&R, Reply<T>)) -> Result<T, Unanswered>
    where
        R: Send + Sync + 'static,
    {
        let (to, mut answer) = reply(AnyRef::of(self.fom));
        let place = {
            let (resource, place) = resource::<R>(self.fom);
            let key = self.fom.visit().request_key().map(Box::new);
            let to = To::One(to);
            request(resource, Reply { to, key });
            place
        };
        poll_fn(|cx| {
            let polled = answer.poll(reference::foreign(self.fom, cx.waker()));
            if polled.is_pending() {
                self.fom.waiting.set(WaitingFor::Resource(place));
            }
            polled
        })
        .await
        .ok_or(Unanswered)
    }

    /// Sends a request for each item and waits for all answers. Returns them in the order of the items. Only the last
    /// answer wakes the fom.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without the resource `R`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, later answers are rejected.
    pub async fn all<R, I, T>(
        &self,
        items: I,
        request: impl FnMut(&R, I::Item, Reply<T>),
    ) -> Vec<Result<T, Unanswered>>
    where
        R: Send + Sync + 'static,
        I: IntoIterator,
    {
        let (collecting, place) = self.send_all(items, request, false);
        let (answers, _) = self.collected(&collecting, place).await;
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Err(Unanswered)))
            .collect()
    }

    /// Sends a request for each item and waits for the first answer. Returns the answer with the item's place. The
    /// other answers are rejected.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] if every reply is dropped, or there are no items.
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without the resource `R`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, later answers are rejected.
    pub async fn any<R, I, T>(
        &self,
        items: I,
        request: impl FnMut(&R, I::Item, Reply<T>),
    ) -> Result<(usize, T), Unanswered>
    where
        R: Send + Sync + 'static,
        I: IntoIterator,
    {
        let (collecting, place) = self.send_all(items, request, true);
        let (mut answers, first) = self.collected(&collecting, place).await;
        let first = first.ok_or(Unanswered)?;
        let answer = answers
            .get_mut(first)
            .and_then(Option::take)
            .ok_or(Unanswered)??;
        Ok((first, answer))
    }

    fn send_all<R, I, T>(
        &self,
        items: I,
        mut request: impl FnMut(&R, I::Item, Reply<T>),
        any: bool,
    ) -> (Collecting<T>, u32)
    where
        R: Send + Sync + 'static,
        I: IntoIterator,
    {
        let (resource, at) = resource::<R>(self.fom);
        // All places exist before the first request, which may be answered at once.
        let items: Vec<_> = items.into_iter().collect();
        let collecting = Collecting::new(items.len(), any);
        for (place, item) in items.into_iter().enumerate() {
            request(
                resource,
                item,
                Reply {
                    to: To::Many(Place {
                        collector: Some(Arc::clone(&collecting.0)),
                        index: place,
                    }),
                    key: self.fom.visit().request_key().map(Box::new),
                },
            );
        }
        (collecting, at)
    }

    async fn collected<T>(&self, collecting: &Collecting<T>, place: u32) -> Answers<T> {
        poll_fn(|cx| {
            let polled = collecting.poll(cx.waker());
            if polled.is_pending() {
                self.fom.waiting.set(WaitingFor::Resource(place));
            }
            polled
        })
        .await
    }
}
