//! A program with each kind of part.

use fom_durable::prelude::*;
use fom_patterns::{
    active::Call,
    admission::{Admission, Queued},
    lock::LongLocks,
    prelude::*,
    service::{Provider, Registration, Service},
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::{observe::IncidentKind, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{leased::Leased, one, secs};

/// Waits for a word, fails, or is done.
pub(crate) struct Task(pub(crate) &'static str);

#[derive(Debug)]
pub(crate) enum Word {
    Go,
}

#[fom(operation(Task), event(Word), transient)]
pub(crate) enum Doing {
    #[phase(start, sync, to(Hear, Done, Lost))]
    Choose,
    #[phase(to(Done), on(Go), within = "5s")]
    Hear,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Lost,
}

impl DoingTransitions for Task {
    fn choose(&mut self, _: &mut Cx<'_, Word>) -> Result<DoingAfterChoose, BoxError> {
        match self.0 {
            "hear" => Ok(DoingAfterChoose::Hear),
            "lose" => Ok(DoingAfterChoose::Lost),
            "fail" => Err("no luck".into()),
            _ => Ok(DoingAfterChoose::Done),
        }
    }

    async fn hear(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }
}

/// Holds an account until it hears a word.
pub(crate) struct Transfer {
    accounts: LongLocks,
}

#[fom(operation(Transfer), event(Word), transient)]
pub(crate) enum Transferring {
    #[phase(start, to(Over), on(Go), limit = "transfers")]
    Hold,
    #[phase(end)]
    Over,
}

impl TransferringTransitions for Transfer {
    async fn hold(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let _account = self.accounts.of("secret-account").write(cx).await?;
        let Word::Go = cx.event().await;
        Ok(())
    }
}

/// Fails, and is in quarantine then.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order;

#[fom(operation(Order))]
pub(crate) enum Ordering {
    #[phase(start, sync, to(Paid))]
    Pay,
    #[phase(end)]
    Paid,
}

impl OrderingTransitions for Order {
    fn pay(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("no money".into())
    }
}

#[derive(Default)]
pub(crate) struct Counter(u64);

#[active]
impl Counter {
    /// Counts, once it may.
    #[when(self.0 > 0)]
    pub(crate) fn count(&mut self) -> u64 {
        self.0
    }
}

static ECHO: Service<u32, u32> = Service::new("echo");

/// A program with each kind of part, with a failure, an incident and an entry in quarantine.
pub(crate) struct Program {
    pub(crate) runtime: Runtime,
    #[expect(dead_code, reason = "the parts are listed until they are dropped")]
    parts: (
        Admission,
        LongLocks,
        KeyedStream<Task, u32>,
        [CounterProxy; 2],
        Call<u64>,
        Registration,
    ),
    #[expect(dead_code, reason = "the foms go on until they are dropped")]
    foms: Vec<Queued<Transfer>>,
}

impl Program {
    pub(crate) async fn new(clock: &TestClock) -> Self {
        let runtime = one(clock)
            .observe()
            .journal_with(Leased::new())
            .build()
            .unwrap();
        let accounts = LongLocks::new("account");
        let intake = Admission::builder(&runtime).name("front door").in_flight(1);
        let intake = intake.build().unwrap();
        let mut foms = Vec::new();
        for _ in 0..2 {
            let accounts = accounts.clone();
            let transfer = intake.submit(Transfer { accounts }).client("secret-client");
            foms.push(transfer.start().unwrap());
        }
        let stream = KeyedStream::new(&runtime, StreamOptions::default().name("moves"));
        stream.push(1_u32, Task("hear")).unwrap();
        let counters = ["secret-a", "secret-b"].map(|key| {
            let counter = Counter::default().activation().key(key);
            counter.start(&runtime).unwrap()
        });
        // It waits until the object has counted something.
        let asked = counters[0].count();
        let echo = Provider::function(|_, number| number).owner("the test");
        let echo = runtime.services().register(&ECHO, echo).unwrap();
        runtime.limits().set("transfers", 4);
        runtime.report(IncidentKind::Policy, "secret-subject", "it broke");
        let failed = runtime.submit(Task("fail")).key("secret-fom").start();
        failed.unwrap().await.unwrap_err();
        let failed = runtime.submit(Order).key("secret-order").start();
        failed.unwrap().await.unwrap_err();
        runtime.quiet().await;
        clock.advance(secs(3));
        runtime.quiet().await;
        Self {
            runtime,
            parts: (intake, accounts, stream, counters, asked, echo),
            foms,
        }
    }
}
