//! A fom moves to a locality that ends, as in `move_foms.rs` and `handler.rs` of `fom-runtime/src/locality`.

use loom::sync::atomic::{AtomicBool, fence};

use super::*;

/// The locality to which the fom moves.
struct Taker {
    counts: InFlight,
    inbox: Inbox<Item>,
    bell: Notify,
    /// The runtime takes no more foms.
    closed: AtomicBool,
    /// The locality ends when no fom is counted in it.
    stopping: AtomicBool,
}

/// Loom has one order of all fences, and none of all `SeqCst` accesses. So a fence stands for the access in the
/// library.
fn is_set(flag: &AtomicBool) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::SeqCst)
}

impl Taker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            counts: InFlight::default(),
            inbox: Inbox::new(),
            bell: Notify::new(),
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    fn rouse(&self, reader: Reader) {
        if reader == Reader::Asleep {
            self.bell.notify();
        }
    }

    /// The giver. `false`: the giver keeps the fom.
    fn give(&self) -> bool {
        if self.counts.sent(1, || is_set(&self.closed)) {
            self.counts.back(1);
            if is_set(&self.stopping) {
                self.rouse(self.inbox.poke());
            }
            return false;
        }
        self.rouse(self.inbox.push(item(0, 0)));
        true
    }

    fn shut_down(&self) {
        self.closed.swap(true, Ordering::SeqCst);
        self.stopping.store(true, Ordering::SeqCst);
        self.rouse(self.inbox.poke());
    }

    /// The handler, until the locality has ended. Returns how many foms ran.
    fn handle(&self) -> usize {
        let mut ran = 0;
        loop {
            for _ in self.inbox.drain() {
                self.counts.one_done();
                ran += 1;
            }
            if self.stopping.load(Ordering::Acquire) {
                if self.inbox.has_mail() {
                    continue;
                }
                fence(Ordering::SeqCst);
                if self.counts.is_idle() {
                    return ran;
                }
            }
            if self.inbox.sleep() {
                self.bell.wait();
            }
        }
    }
}

/// The giver keeps the fom, or the locality runs it before it ends.
///
/// Seeded: a giver that checks for the close before it counts (`moved-to-the-ended`): the fom was in an inbox that no
/// thread reads. A giver that takes a fom back and does not poke the handler: deadlock.
#[test]
fn moved_to_a_locality_that_ends() {
    model(|| {
        let taker = Taker::new();
        let giver = thread::spawn({
            let taker = Arc::clone(&taker);
            move || taker.give()
        });
        let handler = thread::spawn({
            let taker = Arc::clone(&taker);
            move || taker.handle()
        });
        taker.shut_down();
        let ran = handler.join().unwrap();
        let given = giver.join().unwrap();
        assert_eq!(ran, usize::from(given));
        assert!(taker.counts.is_idle());
    });
}
