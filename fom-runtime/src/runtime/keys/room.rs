//! Waiting for room: in the queue of a key, and in the runtime.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    fom::{Full, Order},
    id::KeyOf,
    operation::Operation,
    runtime::{Handle, Refused, Shared, Submission},
};

/// A wait for room. If it is dropped after it was given room, the room goes to the next.
struct Told<F: FnMut()> {
    told: oneshot::Receiver<()>,
    give_back: F,
}

impl<F: FnMut()> Drop for Told<F> {
    fn drop(&mut self) {
        self.told.close();
        if self.told.try_recv().is_ok() {
            (self.give_back)();
        }
    }
}

/// A place that is kept in the queue of a key.
struct KeyPlace<'a> {
    shared: &'a Shared,
    of: KeyOf,
}

impl Drop for KeyPlace<'_> {
    fn drop(&mut self) {
        self.shared.key_index.release(self.shared, &self.of);
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
        let shared: &'a Shared = self.shared;
        let mut place = None;
        if let (Some(key), Order::Queue { is_chained, full }) = (&self.key, &mut self.order)
            && *full == Full::Refuse
            && self
                .special
                .as_ref()
                .is_none_or(|special| special.after.is_none())
        {
            let of = (std::any::TypeId::of::<O>(), key.clone());
            loop {
                let Some(told) = shared.key_index.reserve(&of, *is_chained) else {
                    place = Some(KeyPlace { shared, of });
                    *full = Full::Ignore;
                    break;
                };
                let mut told = Told {
                    told,
                    give_back: || shared.key_index.release(shared, &of),
                };
                let own = crate::fom::hand::context::running(&shared.env, |fom| fom.has_key(&of));
                if own == Some(true) || shared.is_late() {
                    break;
                }
                if (&mut told.told).await.is_ok() {
                    place = Some(KeyPlace {
                        shared,
                        of: of.clone(),
                    });
                    *full = Full::Ignore;
                    break;
                }
            }
        }
        while !shared.is_late() {
            if shared.env.room.take() {
                self.special().room = Some(HeldRoom::new(shared));
                break;
            }
            let mut told = Told {
                told: shared.env.room.join(),
                give_back: || shared.env.give_room(),
            };
            // Room may have become free since.
            shared.env.hand_out_room();
            if (&mut told.told).await.is_ok() {
                self.special().room = Some(HeldRoom::new(shared));
                break;
            }
        }
        let started = self.start();
        drop(place);
        started
    }
}
