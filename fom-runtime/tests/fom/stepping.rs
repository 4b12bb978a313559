//! Operations that a test steps by hand, without threads.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fom_runtime::{
    prelude::*,
    testing::{Step, Stepper},
};

use crate::kit::{Log, secs};

/// Asks a shop in an async phase, wraps in a blocking phase, and waits for events in a plain one.
#[derive(Clone)]
struct Parcel {
    log: Log,
    weight: u32,
}

#[derive(Debug)]
enum News {
    Picked,
    Lost,
}

#[derive(Clone, Default)]
struct Shop(Arc<Mutex<Vec<Reply<u32>>>>);

impl Shop {
    fn take(&self) -> Reply<u32> {
        self.0.lock().unwrap().remove(0)
    }
}

#[fom(operation(Parcel), event(News), transient)]
enum Way {
    #[phase(start, to(Wrap), retry = "1, 1s..1s")]
    Ask,
    #[phase(blocking, to(Waiting))]
    Wrap,
    #[phase(sync, on(Picked, Lost), to(Sent, Late), within = "1h", late)]
    Waiting { stamps: u32 },
    #[phase(end)]
    Sent,
    #[phase(end)]
    Late,
}

impl WayTransitions for Parcel {
    async fn ask(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.log.put(format_args!("ask at {}", cx.now()));
        let weight = cx.call(|shop: &Shop, reply| shop.0.lock().unwrap().push(reply));
        self.weight = weight.await?;
        Ok(())
    }

    fn wrap(&mut self, _: &mut BlockingCx<'_>) -> Result<WayAfterWrap, BoxError> {
        self.log
            .put(format_args!("wrap in {:?}", thread::current().id()));
        Ok(WayAfterWrap::Waiting { stamps: 2 })
    }

    fn waiting(
        &mut self,
        _: &mut Cx<'_, News>,
        stamps: &mut u32,
        news: News,
    ) -> Result<WayAfterWaiting, BoxError> {
        match news {
            News::Lost if *stamps > 0 => {
                *stamps -= 1;
                Ok(WayAfterWaiting::Stay)
            }
            News::Lost => Err("lost".into()),
            News::Picked => Ok(WayAfterWaiting::Sent),
        }
    }

    fn waiting_late(
        &mut self,
        _: &mut Cx<'_, News>,
        _: &mut u32,
    ) -> Result<WayAfterWaiting, BoxError> {
        Ok(WayAfterWaiting::Late)
    }
}

fn parcel(log: &Log) -> (Stepper<Parcel>, Shop) {
    let (log, shop) = (log.clone(), Shop::default());
    let builder = Runtime::builder().resource(shop.clone());
    let parcel = Stepper::with(builder, Parcel { log, weight: 0 }).unwrap();
    (parcel, shop)
}

fn waits<K: std::fmt::Debug>(step: &Step<K>, what: &str) -> bool {
    matches!(step, Step::Waits(for_what) if for_what.contains(what))
}

#[test]
fn each_step_calls_one_function_on_this_thread() {
    let log = Log::default();
    let (mut parcel, shop) = parcel(&log);
    assert_eq!(parcel.phase(), WayKind::Ask);
    assert!(log.take().is_empty());
    let step = parcel.step();
    assert!(waits(&step, "Shop"), "{step:?}");
    assert_eq!(log.take(), ["ask at 0ns"]);
    // The answer comes from another thread, as that of a component does.
    let reply = shop.take();
    thread::spawn(|| reply.send(7).unwrap()).join().unwrap();
    assert_eq!(parcel.step(), Step::Entered(WayKind::Wrap));
    assert_eq!(
        (parcel.phase(), parcel.operation().weight),
        (WayKind::Wrap, 7)
    );
    assert!(log.take().is_empty());
    assert_eq!(parcel.step(), Step::Entered(WayKind::Waiting));
    assert_eq!(
        log.take(),
        [format!("wrap in {:?}", thread::current().id())]
    );
    let step = parcel.step();
    assert!(waits(&step, "event"), "{step:?}");
    parcel.fom().send(News::Picked).unwrap();
    assert_eq!(parcel.step(), Step::Entered(WayKind::Sent));
    assert_eq!((parcel.step(), parcel.step()), (Step::Ended, Step::Ended));
    let ended = parcel.take_outcome().unwrap().unwrap();
    assert!(matches!(ended.end, WayEnd::Sent));
    assert_eq!(ended.operation.weight, 7);
    assert!(parcel.take_outcome().is_none());
}

#[test]
fn the_clock_of_a_stepper_moves_pauses_and_deadlines() {
    let log = Log::default();
    let (mut parcel, shop) = parcel(&log);
    parcel.step();
    // No answer.
    drop(shop.take());
    assert!(matches!(parcel.step(), Step::TriedAgain(_)));
    let step = parcel.step();
    assert!(matches!(step, Step::Waits(_)), "{step:?}");
    parcel.clock().advance(secs(1));
    parcel.step();
    assert_eq!(log.take(), ["ask at 0ns", "ask at 1s"]);
    shop.take().send(1).unwrap();
    assert_eq!(parcel.step(), Step::Entered(WayKind::Wrap));
    assert_eq!(parcel.step(), Step::Entered(WayKind::Waiting));
    parcel.clock().advance(secs(3600) - Duration::from_nanos(1));
    let step = parcel.step();
    assert!(waits(&step, "event"), "{step:?}");
    parcel.clock().advance(Duration::from_nanos(1));
    assert_eq!(parcel.step(), Step::Entered(WayKind::Late));
}

#[test]
fn a_failure_of_a_stepped_operation_has_its_cause() {
    let log = Log::default();
    let (mut parcel, shop) = parcel(&log);
    parcel.step();
    shop.take().send(1).unwrap();
    parcel.step();
    parcel.step();
    for _ in 0..3 {
        parcel.fom().send(News::Lost).unwrap();
    }
    assert_eq!(parcel.step(), Step::Failed("lost".to_owned()));
    let failure = parcel.take_outcome().unwrap().unwrap_err();
    assert_eq!(failure.phase_name(), "Waiting");
    assert_eq!(parcel.step(), Step::Failed("lost".to_owned()));
}

#[test]
fn a_stepped_operation_can_be_cancelled() {
    let (mut parcel, _shop) = parcel(&Log::default());
    parcel.step();
    parcel.fom().cancel();
    assert!(matches!(parcel.step(), Step::Failed(cause) if cause.contains("cancelled")));
}

/// Counts values that exist.
#[derive(Clone)]
struct Held(#[allow(dead_code)] Arc<()>);

#[fom(operation(Held), transient)]
enum Holding {
    #[phase(start, to(Done))]
    Hold,
    #[phase(end)]
    Done,
}

impl HoldingTransitions for Held {
    async fn hold(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.local(|numbers: &mut Vec<usize>| numbers.push(1));
        std::future::pending().await
    }
}

#[test]
fn a_stepper_that_is_dropped_leaves_nothing_behind() {
    let held = Arc::new(());
    let data = Arc::clone(&held);
    let builder = Runtime::builder()
        .resource(Held(Arc::clone(&held)))
        .locality_data(move |index| {
            let _data = &data;
            Ok::<_, BoxError>(vec![index])
        });
    let mut stepper = Stepper::with(builder, Held(Arc::clone(&held))).unwrap();
    assert!(matches!(stepper.step(), Step::Waits(_)));
    let runtime = stepper.runtime().clone();
    drop(stepper);
    assert!(runtime.submit(Held(Arc::clone(&held))).start().is_err());
    drop(runtime);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
#[should_panic = "a stepper runs in a plain thread"]
fn a_stepper_in_async_code_names_the_remedy() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.build().unwrap();
    let _entered = runtime.enter();
    let _stepper = Stepper::new(Held(Arc::new(())));
}
