//! The commands for a program that runs with an inspector.
//!
//! | file | what |
//! | --- | --- |
//! | `fom.rs` | one fom of the API, and which fom a text names |
//! | `failed.rs` | failed operations, and the quarantine |
//! | `list.rs`, `show.rs`, `follow.rs`, `waits.rs`, `graph.rs`, `record.rs`, `watch.rs` | one command each |
//! | `act.rs`, `retry.rs` | the actions |

mod act;
mod failed;
mod follow;
mod fom;
mod graph;
mod list;
mod record;
mod retry;
mod show;
mod waits;
mod watch;

use crate::{args::Online, client::Client, failure::Failure, output::Output, top};

/// Runs a command. Returns its exit status.
pub(crate) fn run(command: &Online, output: &mut Output<'_>) -> Result<u8, Failure> {
    let client = Client::new(command.program())?;
    match command {
        Online::List(list) => list::run(&client, list, output)?,
        Online::Show(show) => show::run(&client, show, output)?,
        Online::Waits(_) => waits::run(&client, output)?,
        Online::Graph(drawn) => graph::run(&client, drawn, output)?,
        Online::Top(_) => top::run(client, output)?,
        Online::Watch(_) => watch::run(&client, output)?,
        Online::Record(record) => record::run(&client, &record.to, output)?,
        Online::Send(send) => act::send(&client, send, output)?,
        Online::Cancel(many) => act::many(&client, "cancel", many, output)?,
        Online::Wake(many) => act::many(&client, "wake", many, output)?,
        Online::Retry(many) => retry::run(&client, many, output)?,
        Online::Suspend(of) => act::key(&client, "suspend", of, output)?,
        Online::Resume(of) => act::key(&client, "resume", of, output)?,
        Online::Policy(policy) => act::policy(&client, policy, output)?,
        Online::Promote(promote) => act::promote(&client, promote, output)?,
    }
    Ok(0)
}
