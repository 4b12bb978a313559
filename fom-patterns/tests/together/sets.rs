//! Messages to localities that are awaited together, and their results added up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use fom_patterns::prelude::*;
use fom_runtime::error::CallError;
use futures::executor::block_on;

use crate::kit::task::{self, Door, Drops, LIMIT, limit, task};

fn two() -> Runtime {
    let builder = Runtime::builder().localities(2).pin(false);
    let builder = builder.locality_data(|index| Ok::<_, BoxError>(vec![index]));
    builder.build().unwrap()
}

/// LO-09: all messages have run when the wait is over, those of one thread to one locality in order. A message that
/// panics is waited for like the others. LO-12: their results are added up without a lock.
#[test]
fn all_have_run_when_it_is_done() {
    let _limit = limit();
    let runtime = two();
    let posts = runtime.posts();
    for n in 0..1000 {
        let add = move |local: &mut fom_runtime::context::Local<'_>| {
            local.data::<Vec<usize>>().push(n);
            assert!(n != 500, "one of them");
        };
        posts.post(n % 2, add).unwrap();
    }
    let refused = posts.post(2, |_| {});
    assert_eq!(refused, Err(CallError::NoSuchLocality(2)));
    block_on(posts.done());
    let all = runtime.reduce(
        |local| vec![local.data::<Vec<usize>>().clone()],
        |a, b| [a, b].concat(),
    );
    let all = block_on(all).unwrap();
    for (index, seen) in all.iter().enumerate() {
        let wanted = [index].into_iter().chain((index..1000).step_by(2));
        assert!(seen.iter().copied().eq(wanted));
    }
}

/// LO-09: after a cancel no waiting message begins, the running one is waited for, and what they owned is dropped.
#[test]
fn what_is_called_off_does_not_run() {
    let _limit = limit();
    let runtime = two();
    let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let posts = runtime.posts();
    let (entered, has_entered) = std::sync::mpsc::channel();
    let hold = Door::default();
    let door = hold.clone();
    posts
        .post(0, move |_| {
            entered.send(()).unwrap();
            door.pass();
        })
        .unwrap();
    for _ in 0..10 {
        let (ran, drops) = (Arc::clone(&ran), Drops(Arc::clone(&dropped)));
        posts
            .post(0, move |_| {
                let _drops = drops;
                ran.fetch_add(1, SeqCst);
            })
            .unwrap();
    }
    has_entered.recv().unwrap();
    let mut cancel = std::pin::pin!(posts.cancel());
    assert!(task::poll_once(cancel.as_mut()).is_pending());
    hold.open();
    block_on(cancel);
    assert_eq!((ran.load(SeqCst), dropped.load(SeqCst)), (0, 10));
}

/// Trap 18: a fom that waits for messages to its own locality does not keep them from running. LO-09: messages that
/// come too late for the runtime are answered, too.
#[test]
fn a_fom_waits_for_messages_to_its_own_locality() {
    let _limit = limit();
    let runtime = two();
    let fom = task(|cx| {
        Box::pin(async move {
            let posts = cx.runtime().posts();
            posts
                .post(cx.locality(), |local| {
                    local.data::<Vec<usize>>().push(7);
                })
                .unwrap();
            posts.done().await;
            cx.local(|seen: &mut Vec<usize>| assert_eq!(seen.last(), Some(&7)));
        })
    });
    runtime.submit(fom).start().unwrap().wait().unwrap();
    let posts = runtime.posts();
    runtime.shutdown_blocking(Shutdown::Now, LIMIT);
    assert_eq!(posts.post(0, |_| {}), Err(CallError::Dropped));
    block_on(posts.done());
}
