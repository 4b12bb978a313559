//! The answer to one request, as `fom-runtime/src/cx/call.rs` sends and takes it.

use std::{
    sync::atomic::{AtomicUsize as Count, Ordering::SeqCst},
    task::{Poll, Wake, Waker},
};

use super::*;

/// Stands for a fom, and for the waker of another future.
struct Bell {
    notify: Notify,
    /// Written by the thread that makes the bell, read by the one that rings it.
    made: UnsafeCell<bool>,
}

// SAFETY: the thread that rings the bell only reads `made`; the models check that the write came before.
unsafe impl Sync for Bell {}
// SAFETY: as above.
unsafe impl Send for Bell {}

impl Bell {
    fn new() -> Arc<Self> {
        let bell = Self {
            notify: Notify::new(),
            made: UnsafeCell::new(false),
        };
        // SAFETY: no other thread has the bell.
        bell.made.with_mut(|made| unsafe { *made = true });
        Arc::new(bell)
    }

    fn ring(&self) {
        // SAFETY: see the impl of `Sync`.
        assert!(self.made.with(|made| unsafe { *made }));
        self.notify.notify();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

struct Asker(Arc<Bell>);

impl Owner for Asker {
    fn wake(&self) {
        self.0.ring();
    }
}

/// An answer of the user's. Loom reports it when the accesses of the two sides are not ordered.
struct Answer {
    content: UnsafeCell<usize>,
    dropped: Arc<Count>,
}

// SAFETY: the holder of the answer is alone with its content; the models check this.
unsafe impl Send for Answer {}

impl Answer {
    fn new(dropped: &Arc<Count>) -> Self {
        let answer = Self {
            content: UnsafeCell::new(0),
            dropped: Arc::clone(dropped),
        };
        // SAFETY: the holder is alone with the content.
        answer.content.with_mut(|content| unsafe { *content = 7 });
        answer
    }

    fn content(&self) -> usize {
        // SAFETY: as above.
        self.content.with(|content| unsafe { *content })
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.content.with_mut(|content| unsafe { *content += 1 });
        self.dropped.fetch_add(1, SeqCst);
    }
}

fn request() -> (
    ReplySender<Answer, Asker>,
    ReplyReceiver<Answer>,
    Arc<Bell>,
    Arc<Count>,
) {
    let bell = Bell::new();
    let (sender, receiver) = reply(Asker(Arc::clone(&bell)));
    (sender, receiver, bell, Arc::new(Count::new(0)))
}

/// The owner waits for the answer and takes it.
///
/// Seeded: `Relaxed` for the swap of `finish`: loom saw the receiver race for the answer. A `wait` that stores its
/// waker without a compare: deadlock. A `finish` that wakes no owner: deadlock.
#[test]
fn an_answer_wakes_the_owner() {
    model(|| {
        let (sender, mut receiver, bell, dropped) = request();
        let answerer = thread::spawn({
            let dropped = Arc::clone(&dropped);
            move || assert!(sender.send(Answer::new(&dropped)).is_ok())
        });
        let answer = loop {
            match receiver.poll(None) {
                Poll::Ready(answer) => break answer,
                Poll::Pending => bell.notify.wait(),
            }
        };
        drop(receiver);
        assert_eq!(answer.as_ref().map(Answer::content), Some(7));
        drop(answer);
        answerer.join().unwrap();
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

/// A sender that is dropped answers with nothing.
///
/// Seeded: no drop of the sender: deadlock.
#[test]
fn a_drop_of_the_sender_wakes_the_owner() {
    model(|| {
        let (sender, mut receiver, bell, _) = request();
        let answerer = thread::spawn(move || drop(sender));
        while let Poll::Pending = receiver.poll(None) {
            bell.notify.wait();
        }
        assert!(matches!(receiver.poll(None), Poll::Ready(None)));
        answerer.join().unwrap();
    });
}

/// The receiver waits with another waker, and later with a second one. The answer wakes the last of them.
///
/// Seeded: `Release` for the swap of `finish`, or `Relaxed` for the compare-exchange of `wait`: loom saw the race for
/// the bell. A `wait` that keeps the first waker, and a `finish` that wakes no waker: deadlock.
#[test]
fn an_answer_wakes_the_last_waker() {
    model(|| {
        let (sender, mut receiver, bell, dropped) = request();
        let answerer = thread::spawn({
            let dropped = Arc::clone(&dropped);
            move || assert!(sender.send(Answer::new(&dropped)).is_ok())
        });
        let (first, second) = (Bell::new(), Bell::new());
        let mut polled = receiver.poll(Some(&Waker::from(Arc::clone(&first))));
        let answer = loop {
            if let Poll::Ready(answer) = polled {
                break answer.expect("the sender sent one");
            }
            polled = receiver.poll(Some(&Waker::from(Arc::clone(&second))));
            if polled.is_pending() {
                second.notify.wait();
            }
        };
        assert_eq!(answer.content(), 7);
        answerer.join().unwrap();
        drop((receiver, answer));
        assert_eq!(dropped.load(SeqCst), 1);
        assert_eq!(Arc::strong_count(&bell), 1, "the sender has gone");
        for bell in [first, second] {
            assert_eq!(Arc::strong_count(&bell), 1, "no waker is left");
        }
    });
}

/// The receiver goes while the answer comes: the sender has the answer back, or the receiver drops it.
///
/// Seeded: `Release` for the swap of the receiver's drop, or `Relaxed` for the load before it: loom saw the race for the
/// answer. A drop that only stores CLOSED: the answer was never dropped. A drop that leaves the waker: a waker was left.
#[test]
fn an_answer_against_a_drop_of_the_receiver() {
    for waits in [false, true] {
        model(move || {
            let (sender, mut receiver, bell, dropped) = request();
            let answerer = thread::spawn({
                let dropped = Arc::clone(&dropped);
                move || match sender.send(Answer::new(&dropped)) {
                    Ok(()) => false,
                    Err(answer) => {
                        assert_eq!(answer.content(), 7);
                        true
                    }
                }
            });
            let other = Bell::new();
            if waits {
                let _ = receiver.poll(Some(&Waker::from(Arc::clone(&other))));
            }
            drop(receiver);
            let refused = answerer.join().unwrap();
            assert_eq!(dropped.load(SeqCst), 1, "refused: {refused}");
            assert_eq!(Arc::strong_count(&bell), 1);
            assert_eq!(Arc::strong_count(&other), 1);
        });
    }
}

/// A sender that sees that the answer is unwanted gets it back.
///
/// Seeded: a `finish` that drops the answer for a receiver that has gone: the answer did not come back.
#[test]
fn an_unwanted_answer_comes_back() {
    model(|| {
        let (sender, receiver, _, dropped) = request();
        let answerer = thread::spawn({
            let dropped = Arc::clone(&dropped);
            move || {
                let unwanted = sender.is_unwanted();
                let refused = sender.send(Answer::new(&dropped)).is_err();
                assert!(refused || !unwanted);
            }
        });
        drop(receiver);
        answerer.join().unwrap();
        assert_eq!(dropped.load(SeqCst), 1);
    });
}
