//! Home: the foms of one account live in one locality, and reach its data without a lock. All localities answer for the
//! total.
//!
//! `cargo run --example placement`

use std::{collections::HashMap, convert::Infallible};

use fom_runtime::prelude::*;

/// The accounts with their home in one locality. Not `Sync`, no mutex: only the locality's foms see them, one at a
/// time.
#[derive(Default)]
struct Accounts(HashMap<u64, i64>);

/// A transfer from one account to another, which may live in another locality.
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

#[fom(operation(Transfer), error(Infallible), transient)]
#[derive(Debug)]
enum Moving {
    #[phase(start, to(Take), sync)]
    Begin,
    #[phase(to(Give), sync)]
    Take,
    #[phase(to(Done))]
    Give,
    #[phase(end)]
    Done,
}

impl MovingTransitions for Transfer {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn take(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        cx.local(|accounts: &mut Accounts| {
            *accounts.0.entry(self.from).or_default() -= self.amount
        });
        Ok(())
    }

    async fn give(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        // The other account's home does its part.
        let runtime = cx.runtime();
        let deposit = Deposit {
            account: self.to,
            amount: self.amount,
        };
        runtime
            .submit(deposit)
            .place(Placement::Key(self.to))
            .await
            .map_err(|failure| failure.cause)
            .expect("a deposit cannot fail");
        Ok(())
    }
}

struct Deposit {
    account: u64,
    amount: i64,
}

#[fom(operation(Deposit), error(Infallible), transient)]
#[derive(Debug)]
enum Depositing {
    #[phase(start, to(Booked), sync)]
    Book,
    #[phase(end)]
    Booked,
}

impl DepositingTransitions for Deposit {
    fn book(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        cx.local(|accounts: &mut Accounts| {
            *accounts.0.entry(self.account).or_default() += self.amount
        });
        Ok(())
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    run().await
}

/// The tests also run this in a simulation.
pub(crate) async fn run() -> Result<(), BoxError> {
    let runtime = Runtime::builder()
        .localities(2)
        .locality_data(|_| Ok::<_, Infallible>(Accounts::default()))
        .build()?;
    let mut transfers = Vec::new();
    for n in 0..1_000 {
        let (from, to) = (n % 10, (n + 3) % 10);
        let transfer = Transfer {
            from,
            to,
            amount: 1,
        };
        let submission = runtime.submit(transfer).place(Placement::Key(from));
        transfers.push(submission.start()?);
    }
    for transfer in transfers {
        transfer.await?;
    }
    // Runs once in each locality.
    let by_locality = runtime
        .each(|local| {
            let accounts = &local.data::<Accounts>().0;
            (accounts.len(), accounts.values().sum::<i64>())
        })
        .await?;
    for (locality, (accounts, money)) in by_locality.iter().enumerate() {
        println!("locality {locality}: {accounts} accounts, {money} together");
    }
    let total: i64 = by_locality.iter().map(|(_, money)| money).sum();
    println!("total {total}: what was taken was given");
    assert_eq!(total, 0);
    Ok(())
}
