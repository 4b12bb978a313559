//! The keyed request serializer: one listener, any number of keys, a bounded set of threads. Requests of one key run one after the
//! other in the order in which they came, different keys run side by side.
//!
//! What the design with a worker per key has to live with, and what is here in its place:
//!
//! | there | here |
//! | --- | --- |
//! | a worker is bound to a key until it has been idle for a while, and how long that should be nobody knows | a key costs something only while somebody has it or waits for it; no time to tune |
//! | a hot key keeps its worker, and rare keys starve | the next of a key goes to the tail of the run queue: each key that has work has one turn a round |
//! | a request that waits for a disk or a colleague holds its worker | it waits without a thread, and keeps its key |
//! | the listener blocks when all workers are taken | it waits for room only when there is too much in all, and refuses (or sheds, or waits for) what is too much for one key |
//! | a request that fails is tried again elsewhere, and comes after its successors | it is tried again in place, and takes no room from other keys |
//!
//! `cargo run --example queue_per_key`

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_runtime::{RefusedReason, prelude::*};

/// One request of one account. Its number says in which order they came.
struct Request {
    account: &'static str,
    number: usize,
    ledger: Ledger,
}

/// What was done, by account: here in memory.
type Ledger = Arc<Mutex<BTreeMap<&'static str, Vec<usize>>>>;

#[fom(operation(Request), transient)]
enum Serving {
    /// Asks somebody: no thread is held, and the account's next request waits.
    #[phase(start, to(Book), within = "5s")]
    Look,
    /// Fails now and then: tried again before anything else of this account is done.
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
        let mut ledger = self.ledger.lock().map_err(|_| "somebody panicked")?;
        ledger.entry(self.account).or_default().push(self.number);
        Ok(())
    }
}

/// The listener: a plain thread that hands over what it reads. Returns how many were taken, and how many turned away.
fn listen(runtime: &Runtime, ledger: &Ledger) -> Result<(usize, usize), BoxError> {
    let mut numbers = BTreeMap::<&str, usize>::new();
    let mut turned_away = 0;
    for line in 0..600 {
        // One account has half of the load; the last one is heard of once in a hundred.
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
        // Nobody asks for the outcome of one: it is let go.
        match submit(request).start() {
            Ok(handle) => drop(handle),
            // Too much for one account: "try again later". The others are not to wait for that.
            Err(refused) if refused.reason() == RefusedReason::KeyFull => {
                turned_away += 1;
                continue;
            }
            // Too much in all: whoever sends has to wait.
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
        // So many in flight, and so many behind one account: what is hot cannot take all there is.
        .capacity(400)
        .key_queue(200)
        .build()?;
    let ledger = Ledger::default();

    // Closed for a moment: what comes for it waits, in its order, and the others go on.
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

    let ledger = ledger.lock().map_err(|_| "somebody panicked")?;
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

    // Whoever would rather be refused than wait says so by how it starts.
    let request = Request {
        account: "hot",
        number: 0,
        ledger: Ledger::default(),
    };
    let refused = runtime.submit(request).key("hot").queue().start();
    assert!(matches!(refused, Err(refused) if refused.reason() == RefusedReason::ShuttingDown));
    Ok(())
}
