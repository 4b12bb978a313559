use super::*;

/// Nothing is lost or doubled, and the items of one thread come in the order of its pushes.
///
/// Seeded: `Relaxed` for the compare-exchange of `push`: loom saw a race for the item. No reversal in `drain`: the
/// order of one pusher was wrong.
#[test]
fn two_pushers_and_a_reader() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        let pushers = [0, 1].map(|pusher| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                for n in 0..2 {
                    assert_eq!(inbox.push(item(pusher, n)), Reader::Awake);
                }
            })
        });
        let mut next = [0, 0];
        let mut read = |inbox: &Inbox<Item>| {
            for item in inbox.drain() {
                assert_eq!(
                    item.content(),
                    next[item.0.pusher],
                    "out of order from {}",
                    item.0.pusher
                );
                next[item.0.pusher] += 1;
            }
        };
        read(&inbox);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        read(&inbox);
        assert_eq!(next, [2, 2]);
    });
}

/// A push against a reader that goes to sleep, or away: the reader sees the item, or the pusher is told to call it.
///
/// Seeded: `mark` that stores the mark instead of exchanging it: the item was neither seen nor called for.
fn push_against(mark: fn(&Inbox<Item>) -> bool, told: Reader) {
    model(move || {
        let inbox = Arc::new(Inbox::new());
        let pusher = thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || inbox.push(item(0, 7))
        });
        let marked = mark(&inbox);
        let seen_by_reader = !marked;
        let reader = pusher.join().unwrap();
        match (seen_by_reader, reader) {
            (true, Reader::Awake) => {}
            (false, reader) => assert_eq!(reader, told),
            (true, reader) => panic!("{reader:?} of a reader that never left"),
        }
        assert!(inbox.has_mail());
        let items: Vec<_> = inbox.drain().map(|item| item.content()).collect();
        assert_eq!(items, [7]);
        assert!(!inbox.has_mail() && !inbox.is_asleep());
    });
}

#[test]
fn push_against_sleep() {
    push_against(Inbox::sleep, Reader::Asleep);
}

#[test]
fn push_against_vacate() {
    push_against(Inbox::vacate, Reader::Missing);
}

/// Of two threads that meet a sleeping reader, exactly one is told to wake it.
#[test]
fn one_of_two_wakes_the_sleeper() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        assert!(inbox.sleep());
        let pusher = thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || inbox.push(item(0, 0))
        });
        let poked = inbox.poke();
        let pushed = pusher.join().unwrap();
        assert_eq!(
            [poked, pushed]
                .iter()
                .filter(|told| **told == Reader::Asleep)
                .count(),
            1
        );
        assert_eq!(inbox.drain().count(), 1);
    });
}

/// What the poker stored before is visible after the drain, whichever item is drained. This also holds when another
/// thread pushes after the poke, and when the poke finds an item.
///
/// Seeded: a poke that does nothing when there is an item: the reader slept without having seen the poker's store.
#[test]
fn poke_publishes() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        let stored = Arc::new(AtomicUsize::new(0));
        let pusher = thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || inbox.push(item(0, 0))
        });
        let poker = thread::spawn({
            let (inbox, stored) = (Arc::clone(&inbox), Arc::clone(&stored));
            move || {
                stored.store(1, Ordering::Relaxed);
                inbox.poke()
            }
        });
        // Like the handler: look, drain, look again, and sleep if there is nothing.
        let mut seen = 0;
        loop {
            seen += inbox.drain().count();
            let done = stored.load(Ordering::Relaxed) == 1;
            if done && seen == 1 {
                break;
            }
            if inbox.sleep() {
                // Asleep: one of the two comes after this mark, and is told.
                let told = [pusher.join().unwrap(), poker.join().unwrap()];
                assert!(told.contains(&Reader::Asleep), "no thread wakes the reader");
                seen += inbox.drain().count();
                assert_eq!((seen, stored.load(Ordering::Relaxed)), (1, 1));
                return;
            }
        }
        pusher.join().unwrap();
        poker.join().unwrap();
    });
}

/// A drained item can be put in again at once, also from another thread.
#[test]
fn a_link_is_used_again() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        let other = Arc::new(Inbox::<Item>::new());
        for n in 0..2 {
            assert_eq!(inbox.push(item(0, n)), Reader::Awake);
        }
        let pusher = thread::spawn({
            let (inbox, other) = (Arc::clone(&inbox), Arc::clone(&other));
            move || {
                for item in other.drain() {
                    item.set_content(item.content() + 10);
                    assert_eq!(inbox.push(item), Reader::Awake);
                }
            }
        });
        for item in inbox.drain() {
            let _ = other.push(item);
        }
        pusher.join().unwrap();
        let mut all: Vec<_> = inbox
            .drain()
            .chain(other.drain())
            .map(|item| item.content() % 10)
            .collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}

/// A dropped inbox, and a drain that is not read to its end, release their items.
#[test]
fn dropped_with_items() {
    model(|| {
        let inbox = Inbox::new();
        let alive = Arc::new(());
        let push = || {
            let _ = inbox.push(counted(0, 0, Some(Arc::clone(&alive))));
        };
        push();
        push();
        let mut drain = inbox.drain();
        assert!(drain.next().unwrap().0.alive.is_some());
        drop(drain);
        assert_eq!(Arc::strong_count(&alive), 1);
        push();
        drop(inbox);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}
