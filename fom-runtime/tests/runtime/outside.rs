//! What outside code hands in: wakers that do what they like, and numbers without a limit.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    time::Duration,
};

use fom_runtime::{config::Shutdown, context::Reply, error::BoxError, prelude::*, time::TestClock};
use futures::executor::block_on;

use crate::kit::task::{limit, one, poll_once, quick, task, until};

/// Calls a function when it is woken.
struct Call<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Call(call)))
}

fn panics() -> Waker {
    waker(|| panic!("an executor on fire"))
}

/// What an `Ear` hears.
#[derive(Debug)]
enum Word {
    Word,
}

struct Ear;

#[fom(operation(Ear), event(Word), transient)]
enum Hears {
    #[phase(start, to(Second), on(Word), sync)]
    First,
    #[phase(to(Heard), on(Word), sync)]
    Second,
    #[phase(end)]
    Heard,
}

impl HearsTransitions for Ear {
    fn first(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearsAfterFirst, BoxError> {
        Ok(HearsAfterFirst::Second)
    }

    fn second(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearsAfterSecond, BoxError> {
        Ok(HearsAfterSecond::Heard)
    }
}

/// A waker that is told of a phase may do anything with the fom at once.
#[test]
fn a_waker_may_use_the_fom_that_it_hears_of() {
    let _limit = limit();
    let runtime = one();
    let fom = runtime.submit(Ear).start().unwrap();
    let address = fom.fom().clone();
    let reached = fom.reached([HearsKind::Second]).into_future();
    let mut reached = pin!(reached);
    let answers = waker(move || address.send(Word::Word).unwrap());
    assert!(
        reached
            .as_mut()
            .poll(&mut Context::from_waker(&answers))
            .is_pending()
    );
    block_on(runtime.quiet());
    fom.send(Word::Word).unwrap();
    fom.wait().unwrap();
}

/// The same in the drop of a waker that a handle has.
#[test]
fn a_waker_may_use_the_fom_when_it_is_dropped() {
    let _limit = limit();
    struct Sends(FomRef<Ear>);
    impl Wake for Sends {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.send(Word::Word).unwrap();
        }
    }
    let runtime = one();
    let mut fom = runtime.submit(Ear).start().unwrap();
    let address = fom.fom().clone();
    for _ in 0..2 {
        let waker = Waker::from(Arc::new(Sends(address.clone())));
        assert!(
            pin!(&mut fom)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    drop(fom);
    block_on(runtime.idle());
}

/// A waker that panics concerns its executor alone: the locality goes on.
#[test]
fn a_waker_that_panics_takes_no_locality_with_it() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let sleeps = quick(move |cx| tell.send(cx.sleep(Duration::from_secs(1))).unwrap());
    runtime.submit(sleeps).start().unwrap().wait().unwrap();
    let mut sleep = told.recv().unwrap();
    assert!(
        pin!(&mut sleep)
            .poll(&mut Context::from_waker(&panics()))
            .is_pending()
    );
    block_on(runtime.quiet());
    clock.advance(Duration::from_secs(1));
    until("the panic is reported", || {
        !runtime.operations().incidents.is_empty()
    });
    block_on(runtime.quiet());

    let fom = runtime
        .submit(task(|_| Box::pin(std::future::pending())))
        .start()
        .unwrap();
    let mut idle = pin!(runtime.idle());
    assert!(
        idle.as_mut()
            .poll(&mut Context::from_waker(&panics()))
            .is_pending()
    );
    fom.cancel();
    fom.wait().unwrap_err();
    until("the second panic is reported", || {
        runtime.operations().incidents.len() == 2
    });
    runtime
        .submit(quick(|_| {}))
        .start()
        .unwrap()
        .wait()
        .unwrap();
}

/// A sleep that was first polled where its locality was away wakes the waker that polled it last.
#[test]
fn a_sleep_wakes_the_waker_that_polled_it_last() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    let fom = task(|cx| {
        Box::pin(async move {
            let mut sleep = pin!(cx.sleep(Duration::from_secs(1)));
            let guard = cx.enter_block().unwrap();
            assert!(poll_once(sleep.as_mut()).is_pending());
            drop(guard);
            sleep.await;
        })
    });
    let fom = runtime.submit(fom).start().unwrap();
    block_on(runtime.quiet());
    clock.advance(Duration::from_secs(1));
    fom.wait().unwrap();
}

/// A sleep whose time has come is over at the next poll, although its timer has not fired: in the phase that armed it, and
/// where its locality is away.
#[test]
fn a_sleep_is_over_before_its_timer_fires() {
    let _limit = limit();
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    let fom = task(move |cx| {
        Box::pin(async move {
            let second = Duration::from_secs(1);
            let mut here = pin!(cx.sleep(second));
            let mut away = pin!(cx.sleep(second));
            assert!(poll_once(here.as_mut()).is_pending());
            assert!(poll_once(away.as_mut()).is_pending());
            clock.advance(second);
            assert!(poll_once(here.as_mut()).is_ready());
            let guard = cx.enter_block().unwrap();
            assert!(poll_once(away.as_mut()).is_ready());
            drop(guard);
            assert!(poll_once(pin!(cx.sleep(Duration::ZERO))).is_ready());
        })
    });
    runtime.submit(fom).start().unwrap().wait().unwrap();
}

/// A sleep that was moved out of its fom ends with the runtime, whether it is armed or not polled yet.
#[test]
fn a_sleep_ends_with_its_runtime() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(TestClock::new())
        .build()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let fom = quick(move |cx| {
        for _ in 0..3 {
            tell.send(cx.sleep(Duration::from_secs(1))).unwrap();
        }
    });
    runtime.submit(fom).start().unwrap().wait().unwrap();
    let [mut armed, mut armed_outside, late] = [(); 3].map(|()| Box::pin(told.recv().unwrap()));
    let (armed_there, inside) = mpsc::channel();
    let fom = quick(move |_| {
        assert!(poll_once(armed.as_mut()).is_pending());
        armed_there.send(armed).unwrap();
    });
    runtime.submit(fom).start().unwrap().wait().unwrap();
    let armed = inside.recv().unwrap();
    assert!(poll_once(armed_outside.as_mut()).is_pending());
    let sleepers = [armed, armed_outside].map(|sleep| std::thread::spawn(|| block_on(sleep)));
    drop(runtime);
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
    block_on(late);
}

/// `Duration::MAX` means "without a limit".
#[test]
fn a_shutdown_without_a_limit_drains() {
    let _limit = limit();
    let runtime = one();
    let (go, gone) = mpsc::channel::<()>();
    let fom = runtime
        .submit(quick(move |_| gone.recv().unwrap()))
        .start()
        .unwrap();
    let report = std::thread::scope(|scope| {
        let drained = scope.spawn(|| block_on(runtime.shutdown(Shutdown::Drain, Duration::MAX)));
        go.send(()).unwrap();
        drained.join().unwrap()
    });
    assert!(report.remained.is_empty());
    fom.wait().unwrap();
    assert!(runtime.submit(quick(|_| {})).start().is_err());
}

/// So does a history of `usize::MAX` phases.
#[test]
fn a_history_without_a_limit() {
    let _limit = limit();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .history(usize::MAX)
        .build()
        .unwrap();
    let fom = runtime.submit(Ear).start().unwrap();
    fom.send(Word::Word).unwrap();
    block_on(fom.reached([HearsKind::Second]).into_future());
    let phases: Vec<_> = runtime
        .operation(fom.id())
        .unwrap()
        .past
        .history
        .iter()
        .map(|seen| seen.phase)
        .collect();
    assert_eq!(phases, ["First", "Second"]);
    fom.cancel();
}

/// A listener may hold another: both go.
#[test]
fn a_listener_that_holds_another_can_be_taken_off() {
    let _limit = limit();
    let runtime = one();
    let inner = runtime.listen(|_| {});
    let outer = runtime.listen(move |_| {
        let _ = &inner;
    });
    drop(outer);
    runtime
        .submit(quick(|_| {}))
        .start()
        .unwrap()
        .wait()
        .unwrap();
}

/// A plain thread in the executor of futures can make a runtime and wait for a fom.
#[test]
fn inside_another_executor() {
    let _limit = limit();
    block_on(async {
        let runtime = Runtime::builder()
            .localities(1)
            .pin(false)
            .locality_data(Ok::<usize, BoxError>)
            .build()
            .unwrap();
        runtime
            .submit(quick(|_| {}))
            .start()
            .unwrap()
            .wait()
            .unwrap();
    });
}

/// Keeps the requests.
#[derive(Clone, Default)]
struct Desk(Arc<std::sync::Mutex<Vec<Reply<u32>>>>);

/// Once there is a first answer, no fom waits for another, also while the fom has not looked at the first yet.
#[test]
fn no_fom_waits_for_a_second_answer() {
    let _limit = limit();
    let desk = Desk::default();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(desk.clone())
        .build()
        .unwrap();
    let fom = task(|cx| {
        Box::pin(async move {
            let any = cx.any(0..2, |desk: &Desk, _, reply| {
                desk.0.lock().unwrap().push(reply)
            });
            assert_eq!(any.await, Ok((1, 7)));
        })
    });
    let fom = runtime.submit(fom).start().unwrap();
    block_on(runtime.quiet());
    let (second, first) = {
        let mut asked = desk.0.lock().unwrap();
        (asked.pop().unwrap(), asked.pop().unwrap())
    };
    let (go, gone) = mpsc::channel::<()>();
    runtime.post(0, move |_| gone.recv().unwrap()).unwrap();
    assert!(!first.is_unwanted());
    second.send(7).unwrap();
    assert!(first.is_unwanted());
    go.send(()).unwrap();
    fom.wait().unwrap();
}
