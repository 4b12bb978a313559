//! A program with a journal, and the command beside it.

use std::{
    path::Path,
    process::{Command, Output},
};

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) item: String,
    pub(crate) pieces: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum News {
    Paid,
}

#[fom(operation(Order), event(News))]
pub(crate) enum Fulfil {
    #[phase(start, sync, to(Hold))]
    Reserve,
    #[phase(sync, on(Paid), to(Ship))]
    Hold { shelf: (u8, String) },
    #[phase(sync, to(Shipped))]
    Ship,
    #[phase(end)]
    Shipped,
}

impl FulfilTransitions for Order {
    fn reserve(&mut self, _: &mut Cx<'_, News>) -> Result<FulfilAfterReserve, BoxError> {
        let shelf = (self.pieces as u8, format!("of {}", self.item));
        Ok(FulfilAfterReserve::Hold { shelf })
    }

    fn hold(
        &mut self,
        _: &mut Cx<'_, News>,
        _: &mut (u8, String),
        _: News,
    ) -> Result<FulfilAfterHold, BoxError> {
        Ok(FulfilAfterHold::Ship)
    }

    fn ship(&mut self, _: &mut Cx<'_, News>) -> Result<(), BoxError> {
        match self.pieces {
            0 => Err("there is nothing in the parcel".into()),
            _ => Ok(()),
        }
    }
}

/// Returns a program with this journal.
pub(crate) fn open(directory: &Path) -> Runtime {
    let builder = Runtime::builder().localities(1);
    builder.journal(directory).build().unwrap()
}

/// Runs a program that leaves `orders` orders in `Hold`, and one with the key `empty` that failed.
pub(crate) fn run(directory: &Path, orders: u64) -> Runtime {
    let runtime = open(directory);
    for order in 0..orders {
        let item = format!("item {order}");
        let order_of = Order { item, pieces: 3 };
        drop(
            runtime
                .submit(order_of)
                .key(format!("order-{order}"))
                .start(),
        );
    }
    let item = "nothing".to_owned();
    let empty = runtime
        .submit(Order { item, pieces: 0 })
        .key("empty")
        .start()
        .unwrap();
    empty.send(News::Paid).unwrap();
    empty.wait().unwrap_err();
    fom_runtime::extension::block_on(runtime.quiet());
    runtime
}

/// The program has ended: nothing has the journal open.
pub(crate) fn leave(directory: &Path, orders: u64) {
    drop(run(directory, orders));
}

/// Runs `fom journal` with these arguments, of which the second is the directory.
pub(crate) fn fom(command: &str, directory: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fom"))
        .args(["journal", command])
        .arg(directory)
        .args(more)
        .output()
        .unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the lines of the output as JSON.
pub(crate) fn lines(output: &Output) -> Vec<Value> {
    let text = out(output);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
