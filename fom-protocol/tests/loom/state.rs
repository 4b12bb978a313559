use super::*;

fn waiting() -> StateCell {
    let token = StateCell::new();
    token.admit(false);
    token.start(false);
    assert_eq!(token.stop(false), Stopped::Waiting);
    token
}

/// Two wakers against a fom that runs and stops: it runs again until it has seen what both stored.
///
/// Seeded: a `stop` that forgets the mark of a wake: deadlock. A wake that only loads when the fom is ready: the run
/// did not see the waker's store.
#[test]
fn no_wake_is_lost() {
    model(|| {
        let token = Arc::new(StateCell::new());
        let queue = Arc::new(Notify::new());
        let stored = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        token.admit(false);
        let wakers = [0, 1].map(|n| {
            let (token, queue, stored) =
                (Arc::clone(&token), Arc::clone(&queue), Arc::clone(&stored));
            thread::spawn(move || {
                stored[n].store(1, Ordering::Relaxed);
                if token.wake() {
                    queue.notify();
                }
            })
        });
        loop {
            token.start(false);
            let seen = stored
                .iter()
                .map(|one| one.load(Ordering::Relaxed))
                .sum::<usize>();
            if seen == 2 {
                token.finish(false);
                break;
            }
            if token.stop(false) == Stopped::Waiting {
                // Loom's `wait` may return for no reason.
                while token.state() == FomState::Waiting {
                    queue.wait();
                }
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        assert!(!token.wake(), "a wake after the end is nothing");
        assert_eq!(token.state(), FomState::Finished);
    });
}

/// Of any number of wakers of a waiting fom, one enqueues it.
#[test]
fn one_waker_enqueues() {
    model(|| {
        let token = Arc::new(waiting());
        let others = [0, 1].map(|_| {
            let token = Arc::clone(&token);
            thread::spawn(move || token.wake())
        });
        let here = token.wake();
        let told = others.map(|other| other.join().unwrap());
        assert_eq!(
            [here, told[0], told[1]]
                .iter()
                .filter(|enqueue| **enqueue)
                .count(),
            1
        );
        assert_eq!(token.state(), FomState::Ready);
    });
}

/// A cancel and a wake of a waiting fom: one of them enqueues it, and the mark is there.
#[test]
fn cancel_against_wake() {
    model(|| {
        let token = Arc::new(waiting());
        let waker = thread::spawn({
            let token = Arc::clone(&token);
            move || token.wake()
        });
        let cancelled = token.cancel();
        let woken = waker.join().unwrap();
        assert_eq!(
            cancelled,
            if woken {
                Cancelled::Marked
            } else {
                Cancelled::Enqueue
            }
        );
        token.start(false);
        assert!(token.is_cancelled());
    });
}

/// A cancel against a fom that runs and stops. The fom is enqueued once, by itself or by the canceller, and the next
/// run sees the mark.
#[test]
fn cancel_against_stop() {
    model(|| {
        let token = Arc::new(StateCell::new());
        token.admit(false);
        token.start(false);
        let canceller = thread::spawn({
            let token = Arc::clone(&token);
            move || token.cancel()
        });
        let stopped = token.stop(false);
        let cancelled = canceller.join().unwrap();
        assert_eq!(
            stopped == Stopped::Waiting,
            cancelled == Cancelled::Enqueue,
            "{stopped:?} {cancelled:?}"
        );
        token.start(false);
        assert!(token.is_cancelled());
    });
}

/// A cancel against the end: the fom is marked before, or the canceller is told that it came too late. Neither
/// enqueues.
#[test]
fn cancel_against_finish() {
    model(|| {
        let token = Arc::new(StateCell::new());
        token.admit(false);
        token.start(false);
        let others = [
            thread::spawn({
                let token = Arc::clone(&token);
                move || {
                    assert_ne!(token.cancel(), Cancelled::Enqueue);
                }
            }),
            thread::spawn({
                let token = Arc::clone(&token);
                move || assert!(!token.wake())
            }),
        ];
        token.finish(false);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(token.state(), FomState::Finished);
        assert_eq!(token.cancel(), Cancelled::Ended);
    });
}

/// `admit` and `again` keep the mark of a concurrent cancel.
#[test]
fn cancel_against_admit_and_again() {
    model(|| {
        let token = Arc::new(StateCell::new());
        let canceller = thread::spawn({
            let token = Arc::clone(&token);
            move || assert_eq!(token.cancel(), Cancelled::Marked)
        });
        token.admit(false);
        token.start(false);
        token.again(false);
        canceller.join().unwrap();
        token.start(false);
        assert!(token.is_cancelled());
    });
}

/// A fom without an address outside does plain stores. A fom with an address does none. The fom's first address is made
/// while it runs. The holder of the address wakes the fom, and gives the address back. Whatever count the fom then
/// finds, it runs again.
///
/// Seeded: an address that is given back with a `Relaxed` count, a `Relaxed` read of the count, or no read. The fom
/// then overwrote the waker's store, and was in a state that no step leads to.
#[test]
fn alone_again() {
    model(|| {
        let token = Arc::new(StateCell::new());
        let refs = Arc::new(AtomicUsize::new(1));
        let queue = Arc::new(Notify::new());
        let stored = Arc::new(AtomicUsize::new(0));
        let alone = || refs.load(Ordering::Acquire) == 1;
        token.admit(alone());
        token.start(alone());
        refs.fetch_add(1, Ordering::Relaxed);
        let waker = thread::spawn({
            let (token, refs) = (Arc::clone(&token), Arc::clone(&refs));
            let (queue, stored) = (Arc::clone(&queue), Arc::clone(&stored));
            move || {
                stored.store(1, Ordering::Relaxed);
                let woken = token.wake();
                if woken {
                    queue.notify();
                }
                refs.fetch_sub(1, Ordering::Release);
                woken
            }
        });
        let mut runs = 1;
        while stored.load(Ordering::Relaxed) == 0 {
            if token.stop(alone()) == Stopped::Waiting {
                // Loom's `wait` may return for no reason.
                while token.state() == FomState::Waiting {
                    queue.wait();
                }
            }
            token.start(alone());
            runs += 1;
        }
        token.finish(alone());
        waker.join().unwrap();
        assert!(runs <= 2, "woken once");
        assert_eq!(token.state(), FomState::Finished);
        assert!(!token.wake(), "a wake after the end is nothing");
    });
}

/// The timer of a fom fires on the thread that has its locality. Meanwhile the fom runs on another thread in a blocking
/// section, and a waker that got its address since wakes it. The fom runs again, and sees what both stored.
///
/// Seeded: a `wake_alone` that stores its mark also while the fom runs: it stored over the waker's mark.
#[test]
fn a_timer_against_a_blocking_section() {
    model(|| {
        let token = Arc::new(StateCell::new());
        token.admit(true);
        token.start(true);
        let stored = Arc::new(AtomicUsize::new(0));
        let waker = thread::spawn({
            let (token, stored) = (Arc::clone(&token), Arc::clone(&stored));
            move || {
                stored.store(1, Ordering::Relaxed);
                token.wake()
            }
        });
        // The section ends with the core, which comes from the thread that fired the timer.
        let timer = thread::spawn({
            let token = Arc::clone(&token);
            move || token.wake_alone()
        });
        assert!(!timer.join().unwrap(), "it runs");
        let stopped = token.stop(false);
        if stopped == Stopped::Ready {
            token.start(false);
        }
        let seen = stored.load(Ordering::Relaxed);
        let again = token.stop(false);
        let woken = waker.join().unwrap();
        assert_eq!(stopped, Stopped::Ready);
        assert!(
            seen == 1 || again == Stopped::Ready || woken,
            "neither seen nor told again"
        );
    });
}

/// All steps of a fom: the waker that wins pushes it and has its link alone. Each run has its body alone.
#[test]
fn a_woken_fom_is_pushed() {
    #[repr(C)]
    struct Fom {
        link: Link,
        token: StateCell,
        /// The body: only a run touches it.
        runs: UnsafeCell<usize>,
    }
    // SAFETY: `runs` is touched only between `start` and `stop` or `finish`; the model checks that these are ordered.
    unsafe impl Sync for Fom {}
    // SAFETY: as above.
    unsafe impl Send for Fom {}
    /// The one reference that goes through the inbox.
    struct Resident(Arc<Fom>);
    // SAFETY: the content of an `Arc` does not move, and the reference is kept meanwhile.
    unsafe impl Linked for Resident {
        fn into_link(self) -> NonNull<Link> {
            NonNull::new(Arc::into_raw(self.0).cast_mut().cast()).unwrap()
        }
        // SAFETY (caller): as `Linked` says.
        unsafe fn from_link(link: NonNull<Link>) -> Self {
            // SAFETY: the link came from `into_link`.
            Self(unsafe { Arc::from_raw(link.as_ptr().cast()) })
        }
    }
    fn wake(fom: &Arc<Fom>, inbox: &Inbox<Resident>, bell: &Notify) {
        if fom.token.wake() && inbox.push(Resident(Arc::clone(fom))) == Reader::Asleep {
            bell.notify();
        }
    }
    model(|| {
        let (inbox, bell) = (Arc::new(Inbox::new()), Arc::new(Notify::new()));
        let fom = Arc::new(Fom {
            link: Link::new(),
            token: StateCell::new(),
            runs: UnsafeCell::new(0),
        });
        let stored = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let _ = inbox.push(Resident(Arc::clone(&fom)));
        let wakers = [0, 1].map(|n| {
            let (inbox, bell, fom) = (Arc::clone(&inbox), Arc::clone(&bell), Arc::clone(&fom));
            let stored = Arc::clone(&stored);
            thread::spawn(move || {
                stored[n].store(1, Ordering::Relaxed);
                wake(&fom, &inbox, &bell);
            })
        });
        'handler: loop {
            let mut ready: Vec<_> = inbox.drain().collect();
            while let Some(Resident(fom)) = ready.pop() {
                if fom.token.state() == FomState::Init {
                    fom.token.admit(false);
                }
                fom.token.start(false);
                // SAFETY: see the impl of `Sync`.
                fom.runs.with_mut(|runs| unsafe { *runs += 1 });
                if stored.iter().all(|one| one.load(Ordering::Relaxed) == 1) {
                    fom.token.finish(false);
                    break 'handler;
                }
                if fom.token.stop(false) == Stopped::Ready {
                    ready.push(Resident(fom));
                }
            }
            if inbox.sleep() {
                while inbox.is_asleep() {
                    bell.wait();
                }
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}
