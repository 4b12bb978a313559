//! Submissions that wait for room in the runtime.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    operation::Operation,
    runtime::{Handle, Refused, Shared, Submission},
};

/// A wait for room. If it is dropped after it was given room, the room goes to the next.
pub(in crate::runtime) struct Told<F: FnMut()> {
    told: oneshot::Receiver<()>,
    give_back: F,
}

impl<F: FnMut()> Told<F> {
    pub(in crate::runtime) fn new(told: oneshot::Receiver<()>, give_back: F) -> Self {
        Self { told, give_back }
    }

    /// Returns whether the wait was given room. If not, no room is given any more.
    pub(in crate::runtime) async fn is_given(&mut self) -> bool {
        (&mut self.told).await.is_ok()
    }
}

impl<F: FnMut()> Drop for Told<F> {
    fn drop(&mut self) {
        self.told.close();
        if self.told.try_recv().is_ok() {
            (self.give_back)();
        }
    }
}

/// Room in the runtime for a fom that is not made yet.
pub(in crate::runtime) struct HeldRoom(Option<Arc<Shared>>);

impl HeldRoom {
    /// Takes over room that was taken.
    pub(in crate::runtime) fn new(shared: &Shared) -> Self {
        Self(Some(shared.owned()))
    }

    /// Leaves the room to the fom, which is made by now.
    pub(in crate::runtime) fn use_up(mut self) {
        self.0 = None;
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.env.give_room();
        }
    }
}

/// A submission that waits for room; see [`Submission::start_when_room`].
#[must_use = "it does nothing unless it is awaited"]
pub struct WhenRoom<'a, O: Operation>(Starting<'a, O>);

type Starting<'a, O> = Pin<Box<dyn Future<Output = Result<Handle<O>, Refused<O>>> + Send + 'a>>;

impl<O: Operation> fmt::Debug for WhenRoom<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenRoom")
    }
}

impl<O: Operation> Future for WhenRoom<'_, O> {
    type Output = Result<Handle<O>, Refused<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<O: Operation> WhenRoom<'_, O> {
    /// Blocks the thread until the fom has started. Inside a phase function, this is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// As [`Submission::start_when_room`].
    ///
    /// # Panics
    ///
    /// As [`Handle::wait`].
    pub fn wait(self) -> Result<Handle<O>, Refused<O>> {
        crate::runtime::handle::block_on(self.0)
    }
}

impl<'a, O: Operation> Submission<'a, O> {
    /// Starts the fom when there is room: in the [runtime](crate::Builder::capacity), and in the
    /// [queue](crate::Builder::key_queue) of its key if it [waits](Self::queue) there. It holds no thread while it
    /// waits.
    ///
    /// Submissions get room in a queue in the order in which they began to wait. No other submission gets in before
    /// them. The fom takes its place in the order of its key when it starts.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], as [`start`](Self::start) does, but not for want of room. A runtime that begins to shut
    /// down refuses waiting submissions. A submission is refused at once if the fom that has the key would wait for
    /// room behind itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the operation. Room that it was given goes to the next submission.
    pub fn start_when_room(self) -> WhenRoom<'a, O> {
        WhenRoom(Box::pin(self.start_with_room()))
    }

    async fn start_with_room(mut self) -> Result<Handle<O>, Refused<O>> {
        let place = self.wait_for_place().await;
        let shared: &'a Shared = self.shared;
        while !shared.is_late() {
            if shared.env.room.take() {
                self.special().room = Some(HeldRoom::new(shared));
                break;
            }
            let mut told = Told::new(shared.env.room.join(), || shared.env.give_room());
            // Room may have become free since.
            shared.env.hand_out_room();
            // A shutdown that began before `join` has dismissed the waits without this one.
            if shared.is_late() {
                break;
            }
            if told.is_given().await {
                self.special().room = Some(HeldRoom::new(shared));
                break;
            }
        }
        let started = self.start();
        drop(place);
        started
    }
}
