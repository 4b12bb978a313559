//! No operation, no memory of a fom and no runtime is left when a runtime has ended.

use super::*;

/// The operations that have been made, and those that have been dropped.
#[derive(Default)]
struct Census {
    made: AtomicUsize,
    gone: AtomicUsize,
}

/// An operation with three children in each generation. It drops the handle of the first child, detaches the second,
/// and passes the handle of the third outside.
struct Parental {
    census: Arc<Census>,
    generations: usize,
    handles: Arc<Mutex<Vec<Handle<Parental>>>>,
}

impl Parental {
    fn new(
        census: &Arc<Census>,
        generations: usize,
        handles: &Arc<Mutex<Vec<Handle<Self>>>>,
    ) -> Self {
        census.made.fetch_add(1, Ordering::Relaxed);
        Self {
            census: Arc::clone(census),
            generations,
            handles: Arc::clone(handles),
        }
    }

    fn child(&self) -> Self {
        Self::new(&self.census, self.generations - 1, &self.handles)
    }
}

impl Drop for Parental {
    fn drop(&mut self) {
        self.census.gone.fetch_add(1, Ordering::Relaxed);
    }
}

#[fom(operation(Parental), transient)]
enum Parenthood {
    #[phase(start, sync, to(Rest))]
    Bear,
    #[phase(sync, to(Done))]
    Rest,
    #[phase(end)]
    Done,
}

impl ParenthoodTransitions for Parental {
    fn bear(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        if self.generations > 0 {
            // While the runtime ends, each submission may be refused; the operation comes back then and is dropped.
            drop(cx.submit(self.child()).start());
            drop(cx.submit(self.child()).detach());
            let elsewhere = cx.submit(self.child()).place(Placement::RoundRobin);
            if let Ok(handle) = elsewhere.start() {
                self.handles.lock().unwrap().push(handle);
            }
        }
        Ok(())
    }

    fn rest(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        Ok(())
    }
}

/// Handles are dropped at once, awaited by other threads, or kept beyond the end of the runtime, while it ends in each
/// way. Each handle is answered, and in the end no operation, no fom's memory and no runtime is left.
///
/// Seeded: a refused submission that does not wake the locality that took it for a fom in flight (deadlock); a locality
/// that keeps its pools, or a pool that the thread with its last slot does not give up (a runtime was left).
fn nothing_is_left(how: Option<Shutdown>) {
    check(3000, move || {
        let bench = Bench::new(2, MOST);
        let watch = Arc::clone(&bench.watch);
        let census = Arc::new(Census::default());
        let handles = Arc::new(Mutex::new(Vec::new()));
        let new = |generations| Parental::new(&census, generations, &handles);
        let kept = bench.runtime.submit(new(1)).start().unwrap();
        let address = FomRef::clone(&kept);
        let awaited = bench.runtime.submit(new(0)).start().unwrap();
        let awaits = thread::spawn(move || drop(awaited.wait()));
        drop(bench.runtime.submit(new(0)).start().unwrap());
        let late = thread::spawn({
            let (runtime, operation) = (bench.runtime.clone(), new(0));
            move || {
                // Refused, or started and answered.
                if let Ok(handle) = runtime.submit(operation).start() {
                    drop(runtime);
                    drop(handle.wait());
                }
            }
        });
        bench.runtime.submit(new(0)).detach().unwrap();
        bench.end_with(how, || late.join().unwrap());
        awaits.join().unwrap();
        drop(kept.wait());
        let handles = std::mem::take(&mut *handles.lock().unwrap());
        for (n, handle) in handles.into_iter().enumerate() {
            if n % 2 == 0 {
                drop(handle.wait());
            }
        }
        assert_eq!(address.state(), FomState::Finished);
        drop(address);
        let (made, gone) = (&census.made, &census.gone);
        assert_eq!(made.load(Ordering::Relaxed), gone.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&watch), 1, "a runtime is left");
    });
}

#[test]
fn nothing_is_left_by_a_drain() {
    nothing_is_left(Some(Shutdown::Drain));
}

#[test]
fn nothing_is_left_by_an_end_at_once() {
    nothing_is_left(Some(Shutdown::Now));
}

#[test]
fn nothing_is_left_by_the_last_handle() {
    nothing_is_left(None);
}
