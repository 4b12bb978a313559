//! Words, wakes and cancels that meet a fom in every state.

use super::*;

/// The same with async phases: the word, and an answer from another thread.
struct AsyncTask;

#[fom(operation(AsyncTask), event(Word), transient)]
enum AsyncTasking {
    #[phase(start, to(Wait))]
    Block,
    #[phase(on(Go), to(Ask))]
    Wait,
    #[phase(to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

impl AsyncTaskingTransitions for AsyncTask {
    async fn block(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        section(cx, thread::yield_now)?;
        visit(cx);
        Ok(())
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        assert_eq!(cx.event().await, Word::Go);
        visit(cx);
        Ok(())
    }

    async fn ask(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let answer = cx
            .call(|_: &Arc<Watch>, reply: Reply<u8>| {
                thread::spawn(move || reply.send(7));
            })
            .await?;
        assert_eq!(answer, 7);
        visit(cx);
        Ok(())
    }
}

/// A word that comes while the fom is queued, runs, blocks, comes back or waits is never lost.
#[test]
fn a_wake_against_leave_block() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let fom = bench
            .runtime
            .submit(task(thread::yield_now))
            .start()
            .unwrap();
        let other = bench.runtime.submit(Work { sections: 1 }).start().unwrap();
        let sender = thread::spawn({
            let fom = FomRef::clone(&fom);
            move || fom.send(Word::Go).unwrap()
        });
        fom.wait().unwrap();
        other.wait().unwrap();
        sender.join().unwrap();
        assert_eq!(bench.visits(), 3 + 3);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn an_async_fom_that_blocks_waits_and_asks() {
    check(3000, || {
        let bench = Bench::new(1, MOST);
        let foms = [(), ()].map(|()| bench.runtime.submit(AsyncTask).start().unwrap());
        for fom in &foms {
            fom.send(Word::Go).unwrap();
        }
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2 * 5);
        bench.end(Some(Shutdown::Drain));
    });
}

/// A cancel in any state of the fom: the fom ends as cancelled, or had ended before.
///
/// Seeded: the end of the last fom told without the lock under which the shutdown that follows looks (deadlock).
#[test]
fn cancel_against_everything() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let foms = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        let cancellers = foms.each_ref().map(|fom| {
            let fom = FomRef::clone(fom);
            thread::spawn(move || fom.cancel())
        });
        for fom in &foms {
            // The fom may have been cancelled already.
            let _ = fom.send(Word::Go);
        }
        for fom in foms {
            match fom.wait() {
                Ok(_)
                | Err(Failure {
                    cause: Cause::Cancelled,
                    ..
                }) => {}
                Err(failure) => panic!("{failure:?}"),
            }
        }
        for canceller in cancellers {
            canceller.join().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}

/// Two threads want the fom of one key: one starts it, the other gets the same fom.
#[test]
fn two_threads_start_one_key() {
    check(5000, || {
        let bench = Bench::new(2, MOST);
        let starters = [(), ()].map(|()| {
            let runtime = bench.runtime.clone();
            thread::spawn(
                move || match runtime.submit(task(|| {})).key("one").start() {
                    Ok(fom) => (fom.id(), Some(fom)),
                    Err(refused) => (refused.live().unwrap().id(), None),
                },
            )
        });
        let started = starters.map(|starter| starter.join().unwrap());
        assert_eq!(started[0].0, started[1].0);
        let mut foms = started.into_iter().filter_map(|started| started.1);
        let fom = foms.next().unwrap();
        assert!(foms.next().is_none());
        assert_eq!(bench.runtime.find::<Task>("one").unwrap().id(), fom.id());
        fom.send(Word::Go).unwrap();
        fom.wait().unwrap();
        assert!(bench.runtime.find::<Task>("one").is_none());
        bench.end(Some(Shutdown::Drain));
    });
}
