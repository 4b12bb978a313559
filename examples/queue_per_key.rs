//! The keyed request serializer: one listener, any number of keys, a bounded set of threads. Requests of one key run
//! one after the other, in order of arrival. Requests of different keys run side by side.
//!
//! The weaknesses of a design with a worker per key, and what replaces them here:
//!
//! | there | here |
//! | --- | --- |
//! | a worker is bound to a key until it was idle for some time, and the right time is unknown | a key costs something only while a request has it or waits for it; there is no time to tune |
//! | a hot key keeps its worker, and rare keys starve | the next request of a key goes to the tail of the run queue: each key with work has one turn a round |
//! | a request that waits for a disk or a colleague holds its worker | the request waits without a thread, and keeps its key |
//! | the listener blocks when all workers are taken | the listener waits only when there are too many requests in all; if one key has too many, it refuses, sheds or delays them |
//! | a failed request is tried again elsewhere, and comes after its successors | the request is tried again in place, and takes no room from other keys |
//!
//! `cargo run --example queue_per_key`

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_runtime::{error::RefusedReason, prelude::*};

/// One request of one account. Its number gives the order of arrival.
struct Request {
    account: &'static str,
    number: usize,
    ledger: Ledger,
}

/// The processed requests by account, in memory.
type Ledger = Arc<Mutex<BTreeMap<&'static str, Vec<usize>>>>;

#[fom(operation(Request), transient)]
enum Serving {
    /// Asks another component: this holds no thread, and the account's next request waits.
    #[phase(start, to(Book), within = "5s")]
    Look,
    /// Fails now and then. The retries come before any other request of this account.
    #[phase(sync, to(Answered), retry = "3, 1ms..10ms")]
    Book,
    #[phase(end)]
    Answered,
}

impl ServingTransitions for Request {
    async fn look(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_micros(200)).await;
        Ok(())
    }

    fn book(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if self.number.is_multiple_of(17) && cx.attempt() == 0 {
            return Err("the ledger is busy".into());
        }
        let mut ledger = self.ledger.lock().map_err(|_| "a request panicked")?;
        ledger.entry(self.account).or_default().push(self.number);
        Ok(())
    }
}

/// The listener: a plain thread that submits what it reads. Returns how many requests were taken, and how many turned
/// away.
fn listen(runtime: &Runtime, ledger: &Ledger) -> Result<(usize, usize), BoxError> {
    let mut numbers = BTreeMap::<&str, usize>::new();
    let mut turned_away = 0;
    for line in 0..600 {
        // One account has half of the load; the last one sends one line in a hundred.
        let account = match line % 100 {
            99 => "rare",
            n if n % 2 == 0 => "hot",
            n if n % 3 == 0 => "ada",
            _ => "bob",
        };
        let number = numbers.entry(account).or_default();
        let request = Request {
            account,
            number: *number,
            ledger: Arc::clone(ledger),
        };
        let submit = |request| runtime.submit(request).key(account).queue();
        // The caller does not ask for the outcome, so it drops the handle.
        match submit(request).start() {
            Ok(handle) => drop(handle),
            // Too much for one account: "try again later". The other accounts must not wait for that.
            Err(refused) if refused.reason() == RefusedReason::KeyFull => {
                turned_away += 1;
                continue;
            }
            // Too much in all: the sender has to wait.
            Err(refused) if refused.reason() == RefusedReason::Full => {
                drop(submit(refused.into_operation()).start_when_room().wait()?);
            }
            Err(refused) => return Err(refused.reason().into()),
        }
        *number += 1;
    }
    Ok((numbers.values().sum(), turned_away))
}

pub(crate) fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder()
        .localities(2)
        // The limits of requests in flight, and of requests behind one account: a hot account cannot take all room.
        .capacity(400)
        .key_queue(200)
        .build()?;
    let ledger = Ledger::default();

    // The key is suspended for a moment: its requests wait in their order, and the other keys continue.
    let closed = runtime.suspend_key::<Request>("ada");
    let listener = {
        let (runtime, ledger) = (runtime.clone(), Arc::clone(&ledger));
        std::thread::spawn(move || listen(&runtime, &ledger))
    };
    let behind = |account: &str| {
        let keys = runtime.operations().keys;
        let key = keys.iter().find(|info| info.key == account.into());
        key.map_or(0, |info| info.waiting.len())
    };
    while behind("ada") < 20 {
        std::thread::yield_now();
    }
    for key in runtime.operations().keys {
        println!("{key}");
    }
    closed.resume();

    let (count, turned_away) = listener.join().map_err(|_| "the listener panicked")??;
    runtime.shutdown_blocking(Shutdown::Drain, Duration::from_secs(30));

    let ledger = ledger.lock().map_err(|_| "a request panicked")?;
    for (account, numbers) in &*ledger {
        println!(
            "{account:>5}: {} requests, in order: {}",
            numbers.len(),
            numbers.is_sorted()
        );
        assert!(numbers.iter().copied().eq(0..numbers.len()), "{account}");
    }
    println!("{count} served, {turned_away} turned away");
    assert_eq!(ledger.values().map(Vec::len).sum::<usize>(), count);

    // A caller that prefers a refusal to a wait starts the request with `start`.
    let request = Request {
        account: "hot",
        number: 0,
        ledger: Ledger::default(),
    };
    let refused = runtime.submit(request).key("hot").queue().start();
    assert!(matches!(refused, Err(refused) if refused.reason() == RefusedReason::ShuttingDown));
    Ok(())
}
