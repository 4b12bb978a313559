//! Helpers for the models: a runtime that joins its threads, and places to meet.

use super::*;

/// A time that never passes: shuttle has no clock.
pub(super) const NEVER: Duration = Duration::from_secs(3600);

/// A runtime that joins its threads in the end: a thread that does not end is a deadlock.
pub(super) struct Bench {
    pub(super) runtime: Runtime,
    pub(super) threads: Arc<std::sync::Mutex<Vec<thread::JoinHandle<()>>>>,
    pub(super) watch: Arc<Watch>,
}

/// What the foms of one runtime share.
pub(super) struct Watch {
    /// A fom runs in this locality.
    pub(super) inside: [AtomicBool; 2],
    /// The number of foms in a blocking section, and the most allowed.
    pub(super) sections: AtomicUsize,
    pub(super) most: usize,
}

/// Visits of phases in one locality. Not atomic: the models check just that.
#[derive(Default)]
pub(super) struct Visits(pub(super) usize);

pub(super) const MOST: Followers = Followers {
    least: 1,
    most: 8,
    idle: NEVER,
};

impl Bench {
    pub(super) fn new(localities: usize, followers: Followers) -> Self {
        Self::balanced(localities, followers, Balance::Off, &TestClock::new())
    }

    pub(super) fn balanced(
        localities: usize,
        followers: Followers,
        balance: Balance,
        clock: &TestClock,
    ) -> Self {
        Self::made(localities, followers, clock, |builder| {
            builder.balance(balance)
        })
    }

    pub(super) fn with(
        localities: usize,
        followers: Followers,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        Self::made(localities, followers, &TestClock::new(), change)
    }

    pub(super) fn made(
        localities: usize,
        followers: Followers,
        clock: &TestClock,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let threads = Arc::new(std::sync::Mutex::new(Vec::new()));
        let watch = Arc::new(Watch {
            inside: [AtomicBool::new(false), AtomicBool::new(false)],
            sections: AtomicUsize::new(0),
            most: followers.most,
        });
        let runtime = change(Runtime::builder().clock(clock))
            .localities(localities)
            .machine(Machine::synthetic(1, 1, localities, 1))
            .pin(false)
            .followers(followers)
            .resource(Arc::clone(&watch))
            .locality_data(|_| Ok::<_, std::io::Error>(Visits::default()))
            .spawn_with({
                let threads = Arc::clone(&threads);
                move |_, main| {
                    let thread = thread::spawn(main);
                    threads.lock().unwrap().push(thread);
                    Ok(())
                }
            })
            .build()
            .unwrap();
        Self {
            runtime,
            threads,
            watch,
        }
    }

    pub(super) fn visits(&self) -> usize {
        block_on(self.runtime.each(|local| local.data::<Visits>().0))
            .unwrap()
            .into_iter()
            .sum()
    }

    /// Joins every thread that was ever made.
    pub(super) fn end(self, how: Option<Shutdown>) {
        self.end_with(how, || {});
    }

    /// The same, with `before` run before the threads can end.
    pub(super) fn end_with(self, how: Option<Shutdown>, before: impl FnOnce()) {
        let runtime = self.runtime;
        if let Some(how) = how {
            let report = runtime.shutdown_blocking(how, NEVER);
            assert!(report.remained.is_empty());
            before();
            assert_eq!(runtime.in_flight(), 0);
        } else {
            drop(runtime);
            before();
        }
        loop {
            let Some(thread) = self.threads.lock().unwrap().pop() else {
                break;
            };
            thread.join().unwrap();
        }
        // A simulation has started the threads by itself: they end while time passes.
        fom_protocol::sync::sleep(Duration::from_nanos(1));
        assert_eq!(self.watch.sections.load(Ordering::Relaxed), 0);
    }
}

/// A place outside of the runtime where threads wait for a word.
#[derive(Default)]
pub(super) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(super) fn wait(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }
}

/// Checks that the fom is alone in its locality, and counts the visit.
pub(super) fn visit<E>(cx: &mut Cx<'_, E>) {
    let here = cx.locality();
    let watch = Arc::clone(cx.resource::<Arc<Watch>>());
    assert!(
        !watch.inside[here].swap(true, Ordering::AcqRel),
        "two foms in one locality"
    );
    cx.local(|visits: &mut Visits| {
        let before = visits.0;
        thread::yield_now();
        visits.0 = before + 1;
    });
    watch.inside[here].store(false, Ordering::Release);
}

/// Blocks while `f` runs.
pub(super) fn section<E>(cx: &mut Cx<'_, E>, f: impl FnOnce()) -> Result<(), BoxError> {
    let watch = Arc::clone(cx.resource::<Arc<Watch>>());
    let guard = cx.enter_block()?;
    let others = watch.sections.fetch_add(1, Ordering::AcqRel);
    assert!(others < watch.most, "more sections than may be");
    f();
    watch.sections.fetch_sub(1, Ordering::AcqRel);
    drop(guard);
    Ok(())
}
