//! Orders that survive `kill -9`: start the example, kill it, start it again.
//!
//! `cargo run --example survive`, and kill it while it runs. With `cargo run --example survive -- --crash` it kills
//! itself at the worst moment: after the payment, and before the commit.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process,
    sync::Mutex,
    time::Duration,
};

use fom_durable::prelude::*;
use fom_runtime::context::StepKey;
use serde::{Deserialize, Serialize};

/// The order of a customer.
#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    cents: u32,
}

#[fom(operation(Order))]
#[derive(Debug)]
enum Delivery {
    #[phase(start, blocking, to(Pack))]
    Pay,
    #[phase(to(Sent))]
    Pack { receipt: usize },
    #[phase(end)]
    Sent { receipt: usize },
}

impl DeliveryTransitions for Order {
    fn pay(&mut self, cx: &mut BlockingCx<'_>) -> Result<DeliveryAfterPay, BoxError> {
        // The key is the same when this is run again, in whichever process.
        let provider = cx.resource::<Provider>();
        let receipt = provider.charge(cx.step_key(), self.cents)?;
        if self.number == 2 && provider.crash {
            println!("order 2: the money is taken, and the power goes");
            kill();
        }
        Ok(DeliveryAfterPay::Pack { receipt })
    }

    async fn pack(
        &mut self,
        cx: &mut Cx<'_>,
        receipt: &mut usize,
    ) -> Result<DeliveryAfterPack, BoxError> {
        println!("order {}: packing", self.number);
        cx.sleep(Duration::from_secs(1)).await; // time to kill it
        Ok(DeliveryAfterPack::Sent { receipt: *receipt })
    }

    // Runs once for each order that came back, before the function of its phase runs again.
    fn resume(&mut self, _: &mut Cx<'_>, phase: &mut Delivery) -> Result<(), BoxError> {
        println!("order {}: back in {phase:?}", self.number);
        Ok(())
    }
}

/// A payment service of another company, here a file with a line for each payment. It charges once for each key.
struct Provider {
    payments: PathBuf,
    writing: Mutex<()>,
    crash: bool,
}

impl Provider {
    fn charge(&self, key: StepKey, cents: u32) -> Result<usize, BoxError> {
        let _writing = self.writing.lock().map_err(|_| "a payment panicked")?;
        let mut file = fs::File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.payments)?;
        let mut payments = String::new();
        file.read_to_string(&mut payments)?;
        let payment = format!("{key} {cents}");
        if let Some(receipt) = payments.lines().position(|line| line == payment) {
            println!("provider: {cents} cents were paid before, receipt {receipt}");
            return Ok(receipt);
        }
        let receipt = payments.lines().count();
        // One write that appends: a kill leaves all of it or nothing, and never touches earlier payments.
        file.write_all(format!("{payment}\n").as_bytes())?;
        println!("provider: {cents} cents paid, receipt {receipt}");
        Ok(receipt)
    }
}

pub(crate) async fn run(directory: &Path, crash: bool) -> Result<(), BoxError> {
    fs::create_dir_all(directory)?;
    let provider = Provider {
        payments: directory.join("payments"),
        writing: Mutex::new(()),
        crash,
    };
    let runtime = Runtime::builder()
        .resource(provider)
        .journal(directory.join("journal"))
        .build()?;

    // The same in every start. A running order is not started twice, and an ended order gives its answer again.
    let mut orders = Vec::new();
    for number in 1..=3 {
        let cents = 100 * number as u32;
        orders.push(
            runtime
                .submit(Order { number, cents })
                .once(number)
                .start()?,
        );
    }
    for order in orders {
        let ended = order.await?;
        println!("order {}: {:?}", ended.operation.number, ended.end);
    }

    let payments = fs::read_to_string(directory.join("payments"))?;
    println!("{} payments for 3 orders", payments.lines().count());
    assert_eq!(payments.lines().count(), 3);
    Ok(())
}

/// Ends the process like `kill -9`: nothing is flushed, and no destructor runs.
fn kill() -> ! {
    let _ = process::Command::new("kill")
        .args(["-9", &process::id().to_string()])
        .status();
    process::abort()
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/survive");
    let crash = std::env::args().any(|argument| argument == "--crash");
    run(&directory, crash).await?;
    // All orders are done: the next start begins again.
    fs::remove_dir_all(&directory)?;
    Ok(())
}
