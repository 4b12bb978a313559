//! Foms of six `sync` phases in one locality, with a journal.

use std::{convert::Infallible, path::Path, sync::OnceLock};

use fom_durable::{
    DurableBuilderExt as _, DurableCxExt as _, DurableInspectExt as _,
    journal::{JournalStats, MemoryJournal},
};
use fom_runtime::{Cx, Runtime, fom};
use kit::{mix, now};
use serde::{Deserialize, Serialize};

use crate::{Load, stored::State};

static LOAD: OnceLock<Load> = OnceLock::new();

#[derive(Serialize, Deserialize)]
struct Op {
    state: State,
    /// The time when the function of its last phase returned.
    #[serde(skip)]
    made: u64,
}

#[fom(operation(Op), error(Infallible))]
enum Life {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(sync, to(Third))]
    Second,
    #[phase(sync, to(Fourth))]
    Third,
    #[phase(sync, to(Fifth))]
    Fourth,
    #[phase(sync, to(Sixth))]
    Fifth,
    #[phase(sync, to(Done))]
    Sixth,
    #[phase(end)]
    Done,
}

impl Op {
    fn new(id: u64) -> Self {
        Self {
            state: State::new(id),
            made: now(),
        }
    }

    /// Makes one transition.
    fn go(&mut self) -> Result<(), Infallible> {
        let load = LOAD.get().expect("set before");
        load.waits.add(now() - self.made);
        load.done.add();
        self.state.change();
        self.made = now();
        Ok(())
    }
}

impl LifeTransitions for Op {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.go()
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.go()
    }

    fn third(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.go()
    }

    fn fourth(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.go()
    }

    fn fifth(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        self.go()
    }

    fn sixth(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        let x = mix(now());
        // The next operation begins when the end of this one is committed.
        let posted = cx.outbox().submit(Self::new(x)).post();
        posted.expect("it can be saved");
        self.go()
    }
}

/// Waits forever.
#[derive(Serialize, Deserialize)]
struct Waiting {
    state: State,
}

#[derive(Serialize, Deserialize)]
enum Never {
    Comes,
}

#[fom(operation(Waiting), event(Never), error(Infallible))]
enum Waits {
    #[phase(start, sync, to(Over), on(Comes))]
    Parked,
    #[phase(end)]
    Over,
}

impl WaitsTransitions for Waiting {
    fn parked(&mut self, _: &mut Cx<'_, Never>, _: Never) -> Result<WaitsAfterParked, Infallible> {
        Ok(WaitsAfterParked::Over)
    }
}

/// The number of foms that wait beside those in flight.
const KEPT: u64 = 200_000;

/// Starts the operations in flight. Returns a function that returns the statistics of the journal.
pub(crate) fn start(load: Load, peer: &str, folder: &Path) -> impl Fn() -> JournalStats + use<> {
    LOAD.get_or_init(|| load);
    let localities = if peer == "fom:2" { 2 } else { 1 };
    let builder = Runtime::builder().localities(localities);
    let builder = match peer {
        "fom:memory" => builder.journal_with(MemoryJournal::new()),
        _ => builder.journal(folder),
    };
    let runtime: &Runtime = Box::leak(Box::new(builder.build().expect("a runtime")));
    if peer == "fom:kept" {
        for id in 0..KEPT {
            let state = State::new(id);
            let waiting = runtime.submit(Waiting { state });
            waiting.detach().expect("there is room");
        }
    }
    for id in 0..load.flying as u64 {
        runtime.submit(Op::new(id)).detach().expect("there is room");
    }
    || runtime.inspect().journal_stats().expect("it has a journal")
}
