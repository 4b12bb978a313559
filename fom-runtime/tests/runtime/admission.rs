//! What is let in, what is refused and given back, and in which order it runs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
    mpsc,
};

use fom_runtime::{
    Builder,
    error::{BoxError, RefusedReason, SendError},
    prelude::*,
};

use crate::kit::task::{self, Door, Drops, limit, quick, task};

fn builder() -> Builder {
    Runtime::builder().localities(1).pin(false)
}

/// Holds the locality of a runtime until the door is opened.
fn hold(runtime: &Runtime) -> (Handle<task::Task>, Door) {
    let (entered, has_entered) = mpsc::channel();
    let door = Door::default();
    let holder = {
        let door = door.clone();
        quick(move |_| {
            entered.send(()).unwrap();
            door.pass();
        })
    };
    let holder = runtime
        .submit(holder)
        .priority(Priority::High)
        .start()
        .unwrap();
    has_entered.recv().unwrap();
    (holder, door)
}

/// SV-02: a full runtime refuses a submission with the operation, and leaves nothing behind. A second refusal is like
/// the first. After an end there is room again.
#[test]
fn a_full_runtime_gives_the_operation_back() {
    let _limit = limit();
    let runtime = builder().capacity(2).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (holder, door) = hold(&runtime);
    let queued = runtime.submit(quick(|_| {})).start().unwrap();
    let drops = Drops(Arc::clone(&dropped));
    let mut operation = quick(move |_| drop(drops));
    for _ in 0..3 {
        let refused = runtime
            .submit(operation)
            .key("the same")
            .start()
            .unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::Full);
        assert!(refused.to_string().contains("full"), "{refused}");
        assert!(refused.live().is_none());
        operation = refused.into_operation();
        assert_eq!(dropped.load(SeqCst), 0);
        assert_eq!(runtime.in_flight(), 2);
        assert_eq!(runtime.operations().foms.len(), 2);
        assert_eq!(runtime.operations().types[0].started, 2);
        assert!(runtime.find::<task::Task>("the same").is_none());
    }
    door.open();
    holder.wait().unwrap();
    queued.wait().unwrap();
    runtime
        .submit(operation)
        .key("the same")
        .start()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(dropped.load(SeqCst), 1);
}

/// SV-02: each end makes room, from the very moment at which the end is told.
#[test]
fn room_comes_with_each_end() {
    let _limit = limit();
    let runtime = builder().capacity(1).build().unwrap();
    for _ in 0..500 {
        drop(runtime.submit(quick(|_| {})).start().unwrap());
        futures::executor::block_on(runtime.idle());
    }
    for _ in 0..500 {
        // A caller that hears of the end may submit the next operation.
        futures::executor::block_on(async { runtime.submit(quick(|_| {})).await }).unwrap();
    }
}

/// SV-02: however many threads submit at a time, no more foms get in than there is room for, and each thread gets an
/// answer.
#[test]
fn the_capacity_is_never_passed() {
    let _limit = limit();
    const MOST: usize = 5;
    let runtime = builder().capacity(MOST).build().unwrap();
    let (inside, taken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (runtime, inside, taken) =
                (runtime.clone(), Arc::clone(&inside), Arc::clone(&taken));
            std::thread::spawn(move || {
                for _ in 0..500 {
                    let counted = Arc::clone(&inside);
                    let fom = task(move |_| {
                        Box::pin(async move {
                            assert!(counted.fetch_add(1, SeqCst) < MOST);
                            task::pause().await;
                            counted.fetch_sub(1, SeqCst);
                        })
                    });
                    match runtime.submit(fom).start() {
                        Ok(handle) => {
                            taken.fetch_add(1, SeqCst);
                            handle.wait().unwrap();
                        }
                        Err(refused) => assert_eq!(refused.reason(), RefusedReason::Full),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    futures::executor::block_on(runtime.idle());
    assert_eq!(
        runtime.operations().types[0].ended,
        taken.load(SeqCst) as u64
    );
}

/// SV-02: a submission with the key of a live fom is refused, and the refusal names that fom.
#[test]
fn a_key_in_use_is_refused() {
    let _limit = limit();
    let runtime = builder().build().unwrap();
    let live = runtime
        .submit(task(|_| Box::pin(std::future::pending())))
        .key(7)
        .start()
        .unwrap();
    let refused = runtime.submit(quick(|_| {})).key(7).start().unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::KeyInUse);
    assert_eq!(refused.live().unwrap().id(), live.id());
    assert_eq!(runtime.in_flight(), 1);
    let operation = refused.into_operation();
    live.cancel();
    assert!(live.wait().is_err());
    // The key is free from the moment at which the end is told.
    runtime
        .submit(operation)
        .key(7)
        .start()
        .unwrap()
        .wait()
        .unwrap();
    assert!(runtime.find::<task::Task>(7).is_none());
}

/// An operation that collects its events.
#[derive(Default)]
struct Collect {
    seen: Vec<u32>,
}

#[derive(Debug, PartialEq)]
enum Told {
    Number(u32),
    End,
}

#[fom(operation(Collect), event(Told), transient)]
enum Collecting {
    #[phase(start, sync, on(Number, End), to(Collected))]
    Listen,
    #[phase(end)]
    Collected,
}

impl CollectingTransitions for Collect {
    fn listen(
        &mut self,
        _: &mut Cx<'_, Told>,
        event: Told,
    ) -> Result<CollectingAfterListen, BoxError> {
        Ok(match event {
            Told::Number(number) => {
                self.seen.push(number);
                CollectingAfterListen::Stay
            }
            Told::End => CollectingAfterListen::Collected,
        })
    }
}

/// SV-02: a full mailbox gives the event back. When the fom has taken an event, there is room again. After the end, the
/// event is given back as well.
#[test]
fn a_full_mailbox_gives_the_event_back() {
    let _limit = limit();
    let runtime = builder().mailbox(3).build().unwrap();
    let (holder, door) = hold(&runtime);
    let collects = runtime.submit(Collect::default()).start().unwrap();
    for number in 0..3 {
        collects.send(Told::Number(number)).unwrap();
    }
    assert_eq!(
        collects.send(Told::Number(3)),
        Err(SendError::Full(Told::Number(3)))
    );
    assert_eq!(
        collects.sender().send(Told::End),
        Err(SendError::Full(Told::End))
    );
    assert_eq!(runtime.operation(collects.id()).unwrap().events, 3);
    door.open();
    holder.wait().unwrap();
    futures::executor::block_on(runtime.quiet());
    assert_eq!(runtime.operation(collects.id()).unwrap().events, 0);
    collects.send(Told::Number(4)).unwrap();
    collects.send(Told::End).unwrap();
    let fom = collects.fom().clone();
    let ended = collects.wait().unwrap();
    assert_eq!(ended.operation.seen, [0, 1, 2, 4]);
    assert_eq!(
        fom.send(Told::Number(5)),
        Err(SendError::Ended(Told::Number(5)))
    );
}

/// SV-02: priorities run from high to low, first in first out inside one. The preference is bounded: the lowest
/// priority that has work gets one pick in sixteen.
#[test]
fn priorities_are_a_bounded_preference() {
    let _limit = limit();
    let runtime = builder().build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (holder, door) = hold(&runtime);
    let submit = |priority: Priority, n: usize| {
        let log = Arc::clone(&log);
        let notes = quick(move |_| log.lock().unwrap().push((priority, n)));
        drop(runtime.submit(notes).priority(priority).start().unwrap());
    };
    for n in 0..40 {
        submit(Priority::Low, n);
        submit(Priority::Normal, n);
        submit(Priority::High, n);
    }
    door.open();
    holder.wait().unwrap();
    runtime.shutdown_blocking(Shutdown::Drain, task::LIMIT);
    let log = log.lock().unwrap();
    for priority in [Priority::High, Priority::Normal, Priority::Low] {
        let inside: Vec<_> = log
            .iter()
            .filter(|entry| entry.0 == priority)
            .map(|entry| entry.1)
            .collect();
        assert_eq!(inside, (0..40).collect::<Vec<_>>(), "{priority:?}");
    }
    let last = |priority| log.iter().rposition(|entry| entry.0 == priority).unwrap();
    assert!(last(Priority::High) < last(Priority::Normal));
    assert!(last(Priority::Normal) < last(Priority::Low));
    // While both other priorities have work, fifteen of them run between two low ones.
    let low: Vec<_> = log
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.0 == Priority::Low)
        .map(|(at, _)| at)
        .collect();
    assert!(low[0] < 16, "{low:?}");
    assert!(
        low[..4].windows(2).all(|pair| pair[1] - pair[0] == 16),
        "{low:?}"
    );
}
