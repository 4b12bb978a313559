//! Parts of a locality: operations that run at once, and pauses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use fom_runtime::{
    config::Shutdown,
    context::Local,
    extension::{Part, PartId, Pause, Ran, Turn},
    prelude::*,
};
use futures::executor::block_on;
use tokio::sync::oneshot;

const LIMIT: Duration = Duration::from_secs(60);

fn one() -> Runtime {
    Runtime::builder().localities(1).build().unwrap()
}

/// What a [`Probe`] saw.
#[derive(Debug, PartialEq, Eq)]
enum Saw {
    Ran(bool),
    GoesOn(u64),
    Ended(u64),
    Pause(Pause),
    Dropped,
}

/// A part that runs one operation for each name.
struct Probe {
    todo: Vec<Ask>,
    foms: u64,
    /// The number of calls of `pause` that it still asks for.
    pauses: u32,
    quiet: Arc<AtomicBool>,
    tell: Sender<Saw>,
}

impl Part for Probe {
    fn turn(turn: &mut Turn<'_, Self>) {
        while let Some(ask) = turn.part().todo.pop() {
            let ran = turn.run_here(ask, Default::default());
            let ended = matches!(ran, Ran::Ended { .. });
            let _ = turn.part().tell.send(Saw::Ran(ended));
        }
    }

    fn goes_on(&mut self, _: u64) -> u64 {
        self.foms += 1;
        let _ = self.tell.send(Saw::GoesOn(self.foms));
        self.foms
    }

    fn ended(&mut self, number: u64) {
        let _ = self.tell.send(Saw::Ended(number));
    }

    fn pause(&mut self, local: &mut Local<'_>, pause: Pause) -> bool {
        if pause == Pause::Passing {
            assert_eq!(local.index(), 0);
            self.pauses -= 1;
            let _ = self.tell.send(Saw::Pause(pause));
        }
        self.pauses > 0
    }

    fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.tell.send(Saw::Dropped);
    }
}

/// Blocks, if it is told to, and waits, if it is told to.
#[derive(Default)]
struct Ask {
    blocks: Option<(Sender<()>, Receiver<()>)>,
    waits: Option<oneshot::Receiver<()>>,
}

#[fom(operation(Ask), transient)]
enum Asking {
    #[phase(start, to(Over))]
    Begin,
    #[phase(end)]
    Over,
}

impl AskingTransitions for Ask {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some((begun, leave)) = self.blocks.take() {
            let _away = cx.enter_block()?;
            begun.send(())?;
            leave.recv()?;
        }
        if let Some(waits) = self.waits.take() {
            waits.await?;
        }
        Ok(())
    }
}

fn probe(runtime: &Runtime, tell: Sender<Saw>, quiet: &Arc<AtomicBool>) -> PartId<Probe> {
    let quiet = Arc::clone(quiet);
    let added = runtime.call(0, |local| {
        local.add_part(Probe {
            todo: Vec::new(),
            foms: 0,
            pauses: 0,
            quiet,
            tell,
        })
    });
    block_on(added).unwrap()
}

fn ask(runtime: &Runtime, part: PartId<Probe>, ask: Ask) {
    let asked = runtime.post(0, move |local| {
        local.part(part).expect("it is there").todo.push(ask);
        local.wake_part(part);
    });
    asked.unwrap();
}

/// A part runs operations at once, and hears of the end of those that go on.
#[test]
fn a_part_of_a_locality_runs_operations() {
    let runtime = one();
    let (tell, saw) = channel();
    let next = || saw.recv_timeout(LIMIT).unwrap();
    let part = probe(&runtime, tell, &Arc::new(AtomicBool::new(true)));
    ask(&runtime, part, Ask::default());
    assert_eq!(next(), Saw::Ran(true));
    let (go, waits) = oneshot::channel();
    let waiting = Ask {
        waits: Some(waits),
        blocks: None,
    };
    ask(&runtime, part, waiting);
    assert_eq!(next(), Saw::GoesOn(1));
    assert_eq!(next(), Saw::Ran(false));
    block_on(runtime.quiet());
    assert_eq!(runtime.operations().foms.len(), 1);
    assert_eq!(runtime.in_flight(), 1);
    go.send(()).unwrap();
    assert_eq!(next(), Saw::Ended(1));
    // A blocked operation leaves its turn when the part has another turn on another thread.
    let ((begin, begun), (leave, left)) = (channel(), channel());
    let blocked = Ask {
        waits: None,
        blocks: Some((begin, left)),
    };
    ask(&runtime, part, blocked);
    begun.recv_timeout(LIMIT).unwrap();
    ask(&runtime, part, Ask::default());
    assert_eq!(next(), Saw::GoesOn(2));
    assert_eq!(next(), Saw::Ran(true));
    leave.send(()).unwrap();
    assert_eq!(next(), Saw::Ended(2));
    assert_eq!(next(), Saw::Ran(false));
    block_on(runtime.quiet());
    assert_eq!(runtime.in_flight(), 0);
    let removed = block_on(runtime.call(0, move |local| local.remove_part(part)));
    drop(removed.unwrap().expect("it was there"));
    assert_eq!(next(), Saw::Dropped);
    let gone = block_on(runtime.call(0, move |local| local.part(part).is_none()));
    assert!(gone.unwrap());
}

/// A part hands over what it has gathered while foms run, and vetoes quiet.
#[test]
fn a_part_of_a_locality_is_told_of_pauses() {
    let runtime = one();
    let (tell, saw) = channel();
    let quiet = Arc::new(AtomicBool::new(false));
    let part = probe(&runtime, tell, &quiet);
    let asked = runtime.call(0, move |local| {
        local.part(part).expect("it is there").pauses = 2;
        local.ask_pause();
    });
    block_on(asked).unwrap();
    for _ in 0..2 {
        let _ = block_on(runtime.submit(Ask::default()).into_future());
    }
    for _ in 0..2 {
        assert_eq!(saw.recv_timeout(LIMIT), Ok(Saw::Pause(Pause::Passing)));
    }
    let told = runtime.clone();
    let waiter = std::thread::spawn(move || block_on(told.quiet()));
    block_on(runtime.call(0, |_| {})).unwrap();
    assert!(!waiter.is_finished());
    quiet.store(true, Ordering::Relaxed);
    block_on(runtime.call(0, |_| {})).unwrap();
    waiter.join().unwrap();
    runtime.shutdown_blocking(Shutdown::Now, LIMIT);
    assert_eq!(saw.recv_timeout(LIMIT), Ok(Saw::Dropped));
}

/// A part that panics when the runtime asks for quiet.
struct Restless;

impl Part for Restless {
    fn is_quiet(&self) -> bool {
        panic!("restless");
    }
}

/// Such a part counts as quiet, and its locality goes on.
#[test]
fn a_part_that_panics_when_asked_for_quiet_counts_as_quiet() {
    let runtime = one();
    runtime
        .post(0, |local| {
            local.add_part(Restless);
        })
        .unwrap();
    block_on(runtime.quiet());
    block_on(runtime.call(0, |_| ())).unwrap();
    let incidents = runtime.operations().incidents;
    assert!(
        incidents.iter().any(|one| one.text.ends_with("restless")),
        "{incidents:?}"
    );
}
